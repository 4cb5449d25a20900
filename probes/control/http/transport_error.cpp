#include "probes/control/http/transport_error.h"

#include <curl/curl.h>
#include <openssl/x509_vfy.h>

#include <cerrno>

#include "probes/control/process/run_process.h"

namespace dlc {
namespace {

bool Contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

Error Unavailable(std::string message, std::string hint) {
  return {ErrorCode::kUnavailable, std::move(message), std::move(hint)};
}

/// "CA file 'ca.pem'", "certificate-authority-data of ..."; empty: the system's.
std::string ShownCa(const HttpSettings& settings) {
  if (!settings.ca_pem.empty()) {
    return "CA in use is " + settings.ca_name;
  }
  return settings.ca_file.empty() ? "" : "CA file in use is '" + settings.ca_file + "'";
}

Error ExplainCertificate(const TransportFailure& failure, const std::string& host,
                         const HttpSettings& settings) {
  switch (failure.verify_result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return Unavailable("the TLS certificate of " + host + " has expired",
                         "renew it, or check this machine's clock");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return Unavailable("the TLS certificate of " + host + " is not valid yet",
                         "check this machine's clock");
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return Unavailable("the TLS certificate of " + host +
                             " is signed by a certificate authority that is not trusted here",
                         ShownCa(settings).empty()
                             ? "name the authority's certificate in a CA file, or add it to the "
                               "system's"
                             : "the " + ShownCa(settings));
    default:
      break;
  }
  if (Contains(failure.text, "subject name")) {
    return Unavailable("the TLS certificate of " + host + " is for another host name",
                       settings.wrong_name_hint);
  }
  return Unavailable("the TLS certificate of " + host + " was refused: " + OneLine(failure.text),
                     "");
}

Error ExplainNoConnection(const TransportFailure& failure, const std::string& host,
                          const std::string& service) {
  if (failure.os_errno == ECONNREFUSED) {
    return Unavailable("connection to " + host + " refused: nothing listens there",
                       "check host and port, and that the " + service + " runs");
  }
  return Unavailable("cannot connect to " + host + ": " + OneLine(failure.text),
                     "check the route, firewall and proxy settings (https_proxy, no_proxy)");
}

}  // namespace

Error ExplainTransportFailure(const TransportFailure& failure, const Url& url,
                              const HttpSettings& settings) {
  const std::string host = HostAndPort(url);
  switch (failure.curl_code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return Unavailable("host name '" + url.host + "' does not resolve",
                         "check the name, DNS, and proxy settings (https_proxy)");
    case CURLE_COULDNT_RESOLVE_PROXY:
      return Unavailable("the proxy's host name does not resolve",
                         "check https_proxy, http_proxy and no_proxy");
    case CURLE_COULDNT_CONNECT:
      return ExplainNoConnection(failure, host, settings.service);
    case CURLE_OPERATION_TIMEDOUT:
      return {ErrorCode::kTimedOut,
              failure.connected ? host + " did not send its whole answer in time"
                                : "no connection to " + host + " in time",
              failure.connected ? "" : "check the route, firewall and proxy settings"};
    case CURLE_PEER_FAILED_VERIFICATION:
      return ExplainCertificate(failure, host, settings);
    case CURLE_SSL_CACERT_BADFILE:
      return {ErrorCode::kInvalidInput,
              (settings.ca_pem.empty() ? "CA file '" + settings.ca_file + "'" : settings.ca_name) +
                  " holds no certificate (PEM)",
              ""};
    case CURLE_SSL_CERTPROBLEM:
      return {
          ErrorCode::kInvalidInput,
          "the client certificate or key for " + host + " cannot be used: " + OneLine(failure.text),
          "both must be PEM and belong together"};
    case CURLE_SSL_CONNECT_ERROR:
      if (IsPlainText(failure)) {
        return Unavailable(host + " does not speak TLS", settings.plain_http_hint);
      }
      break;
    default:
      break;
  }
  std::string text = OneLine(failure.text);
  if (text.empty()) {
    text = curl_easy_strerror(static_cast<CURLcode>(failure.curl_code));
  }
  return Unavailable("transfer from " + host + " failed: " + text, "");
}

bool IsTransient(const TransportFailure& failure) {
  switch (failure.curl_code) {
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

bool IsPlainText(const TransportFailure& failure) {
  // OpenSSL's names for "these bytes are no TLS record".
  return failure.curl_code == CURLE_SSL_CONNECT_ERROR &&
         (Contains(failure.text, "wrong version number") ||
          Contains(failure.text, "packet length too long") ||
          Contains(failure.text, "http request"));
}

bool IsNoTlsAnswer(const TransportFailure& failure) {
  return IsPlainText(failure) ||
         (failure.curl_code == CURLE_SSL_CONNECT_ERROR &&
          (Contains(failure.text, "unexpected eof") || Contains(failure.text, "SYSCALL"))) ||
         (failure.curl_code == CURLE_OPERATION_TIMEDOUT && !failure.connected);
}

std::string HostAndPort(const Url& url) {
  std::string host = url.host;
  if (host.find(':') != std::string::npos) {
    host = "[" + host + "]";
  }
  const bool own_port = url.port == (url.scheme == "https" ? 443 : 80);
  return own_port ? host : host + ":" + std::to_string(url.port);
}

}  // namespace dlc
