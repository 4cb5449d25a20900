#pragma once

#include <string>

#include "probes/control/http/http_message.h"
#include "probes/control/http/url.h"
#include "probes/observations/result.h"

namespace dlc {

/// What libcurl left behind after a failed transfer.
struct TransportFailure {
  int curl_code = 0;       ///< CURLcode
  std::string text;        ///< CURLOPT_ERRORBUFFER
  long verify_result = 0;  ///< CURLINFO_SSL_VERIFYRESULT: X509_V_ERR_*
  int os_errno = 0;        ///< CURLINFO_OS_ERRNO
  bool connected = false;  ///< TCP, and TLS for https, had been set up
};

/// One Error a person can act on: which host, what went wrong, what to do.
Error ExplainTransportFailure(const TransportFailure& failure, const Url& url,
                              const HttpSettings& settings);

/// A transfer that broke on the way and may work at once when tried again.
bool IsTransient(const TransportFailure& failure);

/// The server answered the TLS handshake with something else.
bool IsPlainText(const TransportFailure& failure);

/// That, or it hung up or kept silent: what servers do that wait for a line of HTTP.
bool IsNoTlsAnswer(const TransportFailure& failure);

/// "host" or "host:port" when the port is not the scheme's own.
std::string HostAndPort(const Url& url);

}  // namespace dlc
