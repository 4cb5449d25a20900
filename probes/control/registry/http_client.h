#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "probes/control/registry/url.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

struct HttpSettings {
  std::string ca_file;            ///< PEM; replaces the system's. Empty: the system's
  bool allow_plain_http = false;  ///< beyond loopback hosts
  std::chrono::milliseconds timeout = timeouts::kHttpRequest;  ///< one request
  const std::atomic<bool>* interrupted = nullptr;              ///< may be null
  std::function<void(const std::string&)>
      log;  ///< one line a request; never a secret. May be empty
};

struct HttpRequest {
  Url url;
  /// "Name: value". They follow redirects to other hosts, so no secret belongs here.
  std::vector<std::string> headers;
  /// Value of the Authorization header, or empty. Sent to the origin of `url` alone.
  std::string authorization;
  /// Not empty: a POST of this as application/x-www-form-urlencoded, which follows no redirect.
  std::string form;
  /// A longer body is an Error (kUnsupported), noticed without reading on. The body of a failure
  /// (status 300 and above) is cut at 64 KiB instead.
  std::size_t max_body_bytes = 1U << 20U;
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

/// HTTP over one libcurl handle, whose connections are kept. Every wait ends at the deadline. 429
/// is tried again until the deadline, 5xx and broken transfers a few times, with Retry-After
/// honoured; the last answer is returned whatever its status. Redirects: at most five, never from
/// https to http, the credential never to another origin. Proxies come from the environment as
/// libcurl reads it. Not for use by two threads at once.
class HttpClient {
 public:
  explicit HttpClient(HttpSettings settings);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Errors name the host: kUnavailable (no such host, refused, TLS, broken transfer), kTimedOut,
  /// kInvalidInput (CA file), kUnsupported (body too long, http not allowed), kInterrupted.
  Result<HttpResponse> Send(const HttpRequest& request, Deadline deadline);

  /// Whether the https URL's server speaks TLS at all; no request is sent. An answer in plain text,
  /// a closed connection or two seconds of silence are "no"; a bad certificate is an Error.
  Result<bool> SpeaksTls(const Url& url, Deadline deadline);

 private:
  struct Transfer;
  struct Attempt;

  Attempt Follow(const HttpRequest& request, Deadline deadline);
  Attempt Perform(const HttpRequest& request, Deadline deadline);
  void Configure(const HttpRequest& request, Deadline deadline, Transfer& transfer);
  Result<void> Allowed(const Url& url) const;
  Result<void> Wait(std::chrono::milliseconds span) const;
  void Log(const std::string& line) const;
  bool Interrupted() const { return settings_.interrupted != nullptr && *settings_.interrupted; }

  HttpSettings settings_;
  std::unique_ptr<void, void (*)(void*)> handle_;
  std::minstd_rand random_;
};

}  // namespace dlc
