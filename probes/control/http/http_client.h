#pragma once

#include <memory>
#include <random>
#include <string>

#include "probes/control/http/http_message.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

/// HTTP over one libcurl handle, whose connections are kept. Every wait ends at the deadline. 429
/// is tried again until the deadline, 5xx and broken transfers a few times (of a POST only when it
/// says so), with Retry-After honoured; the last answer is returned whatever its status. Redirects:
/// at most five, never from https to http, the credential never to another origin. Not for use by
/// two threads at once.
class HttpClient {
 public:
  explicit HttpClient(HttpSettings settings);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Errors name the host: kUnavailable (no such host, refused, TLS, broken transfer), kTimedOut,
  /// kInvalidInput (CA, client certificate, body not wanted), kUnsupported (body too long, http not
  /// allowed), kInterrupted.
  Result<HttpResponse> Send(const HttpRequest& request, Deadline deadline);

  /// Whether the https URL's server speaks TLS at all; no request is sent. An answer in plain text,
  /// a closed connection or two seconds of silence are "no"; a bad certificate is an Error.
  Result<bool> SpeaksTls(const Url& url, Deadline deadline);

 private:
  struct Attempt;

  Attempt Follow(const HttpRequest& request, Deadline deadline);
  Attempt Perform(const HttpRequest& request, Deadline deadline);
  Result<void> Allowed(const HttpRequest& request) const;
  Result<void> Wait(std::chrono::milliseconds span) const;
  void Log(const std::string& line) const;
  bool Interrupted() const { return settings_.interrupted != nullptr && *settings_.interrupted; }

  HttpSettings settings_;
  std::unique_ptr<void, void (*)(void*)> handle_;
  std::minstd_rand random_;
};

}  // namespace dlc
