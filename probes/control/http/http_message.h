#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "probes/control/http/url.h"
#include "probes/observations/deadline.h"

namespace dlc {

/// What is the same for all requests of one client.
struct HttpSettings {
  std::string ca_file;            ///< PEM; replaces the system's. Empty: the system's
  bool allow_plain_http = false;  ///< beyond loopback hosts, for requests without a credential
  std::chrono::milliseconds timeout = timeouts::kHttpRequest;  ///< one request
  const std::atomic<bool>* interrupted = nullptr;              ///< may be null
  std::function<void(const std::string&)>
      log;  ///< one line a request; never a secret. May be empty
  /// Credentials too may go over plain http beyond loopback hosts: only when the user says so.
  bool allow_plain_credentials = false;
  std::string ca_pem;   ///< bytes in place of ca_file, and preferred to it
  std::string ca_name;  ///< where ca_pem is from, for messages
  /// The name that the server's certificate must be for and that is sent in SNI, where it is not
  /// the URL's host. Empty: that host.
  std::string tls_server_name;
  bool insecure_skip_tls_verify = false;
  /// http://, https:// or socks5:// (which resolves names itself); "" is none. Absent: as libcurl
  /// reads the environment.
  std::optional<std::string> proxy;
  bool compression = true;         ///< ask for gzip
  std::string service = "server";  ///< what should listen there, for messages: "registry"
  std::string plain_http_hint;     ///< what to do where https finds plain http
  std::string wrong_name_hint = "use the name that the certificate was made for";
};

/// POST, PUT and DELETE follow no redirect.
enum class HttpMethod : std::uint8_t { kGet, kPost, kPut, kDelete };
/// "GET", ...
const char* HttpMethodName(HttpMethod method);

/// A client certificate and its key: both PEM, or both empty.
struct TlsIdentity {
  std::string certificate_pem;
  std::string key_pem;

  bool empty() const { return certificate_pem.empty() && key_pem.empty(); }
  bool operator==(const TlsIdentity&) const = default;
};

struct HttpRequest {
  Url url;
  /// "Name: value". They follow redirects to other hosts, so no secret belongs here.
  std::vector<std::string> headers;
  /// Value of the Authorization header, or empty. Sent to the origin of `url` alone.
  std::string authorization;
  std::string body;  ///< of a POST, PUT or DELETE
  /// A longer answer is an Error (kUnsupported), noticed without reading on. The body of a failure
  /// (status 300 and above) is cut at 64 KiB instead.
  std::size_t max_body_bytes = 1U << 20U;
  HttpMethod method = HttpMethod::kGet;
  std::string content_type;  ///< of `body`
  /// A POST that may arrive twice: it is tried again like the other methods.
  bool repeatable_post = false;
  /// "Name: value", sent to the origin of `url` alone.
  std::vector<std::string> secret_headers;
  TlsIdentity identity;  ///< shown to the origin of `url` alone
  /// A redirect to another origin is an Error: whose answer it is matters.
  bool stay_on_origin = false;
  /// Given: the body of a success goes here in pieces and not into the answer. False ends the
  /// transfer, as an Error (kInvalidInput). A transfer that breaks after the first piece is not
  /// tried again.
  std::function<bool(std::string_view)> on_body;

  /// Something in it must not be read by others.
  bool HasCredential() const;
};

struct HttpResponse {
  int status = 0;
  std::string body;                                 ///< content coding (gzip) undone
  std::multimap<std::string, std::string> headers;  ///< names in lower case
  Url url;                                          ///< after redirects
  int attempts = 1;

  /// The first of that (lower case) name, or empty.
  std::string Header(const std::string& name) const;
};

}  // namespace dlc
