#include "probes/control/http/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "probes/control/http/http_transfer.h"
#include "probes/control/http/retry.h"
#include "probes/control/http/transport_error.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;

constexpr int kMaxRedirects = 5;
constexpr int kMaxAttempts = 5;  // of 5xx and broken transfers; 429 has only the deadline
constexpr milliseconds kTlsProbe{2'000};
constexpr milliseconds kShortestWait{100};
constexpr milliseconds kInterruptSlice{50};

int GlobalInit() {
  static const int once = curl_global_init(CURL_GLOBAL_DEFAULT);
  return once;
}

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

Error RedirectError(const std::string& host, const std::string& why) {
  return {ErrorCode::kUnavailable, host + " redirects " + why, ""};
}

Error InterruptedError() {
  return {ErrorCode::kInterrupted, "interrupted", ""};
}

/// kInvalidInput, kUnsupported: ours. The rest: the transport's.
Error ExplainEnd(const HttpTransfer& transfer, const TransportFailure& failure,
                 const HttpRequest& request, const HttpSettings& settings) {
  if (transfer.TooLong()) {
    return {ErrorCode::kUnsupported,
            "the answer of " + HostAndPort(request.url) + " is longer than the limit of " +
                std::to_string(request.max_body_bytes) + " bytes and was not read",
            ""};
  }
  if (transfer.Refused()) {
    return {ErrorCode::kInvalidInput,
            "the answer of " + HostAndPort(request.url) + " was refused while it was read", ""};
  }
  if (failure.curl_code == CURLE_ABORTED_BY_CALLBACK) {
    return InterruptedError();
  }
  return ExplainTransportFailure(failure, request.url, settings);
}

}  // namespace

const char* HttpMethodName(HttpMethod method) {
  switch (method) {
    case HttpMethod::kGet:
      return "GET";
    case HttpMethod::kPost:
      return "POST";
    case HttpMethod::kPut:
      return "PUT";
    case HttpMethod::kDelete:
      return "DELETE";
  }
  return "GET";
}

bool HttpRequest::HasCredential() const {
  return !authorization.empty() || !secret_headers.empty() || !identity.empty();
}

std::string HttpResponse::Header(const std::string& name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? std::string() : it->second;
}

/// One transfer's end.
struct HttpClient::Attempt {
  Result<HttpResponse> result;
  bool broken_transfer = false;  // worth trying again at once

  bool WorthAnother(int number, bool repeatable) const {
    if (!result) {
      return repeatable && broken_transfer && number < kMaxAttempts;
    }
    const int status = result->status;
    // 429 is sent before anything was done; after a 5xx nobody knows.
    return status == 429 || (repeatable && number < kMaxAttempts &&
                             (status == 500 || status == 502 || status == 503 || status == 504));
  }
};

HttpClient::HttpClient(HttpSettings settings)
    : settings_(std::move(settings)),
      handle_(GlobalInit() == CURLE_OK ? curl_easy_init() : nullptr,
              [](void* handle) { curl_easy_cleanup(handle); }),
      random_(std::random_device{}()) {
  // libcurl's socks5 has this host resolve the name, which Go's and a bastion's proxy do not need.
  if (settings_.proxy && settings_.proxy->starts_with("socks5://")) {
    settings_.proxy->insert(std::string("socks5").size(), "h");
  }
}

HttpClient::~HttpClient() = default;

void HttpClient::Log(const std::string& line) const {
  if (settings_.log) {
    settings_.log(line);
  }
}

Result<void> HttpClient::Allowed(const HttpRequest& request) const {
  const Url& url = request.url;
  if (url.scheme == "https" || IsLoopback(url)) {
    return {};
  }
  if (!settings_.allow_plain_http) {
    return Error{ErrorCode::kUnsupported,
                 "plain http to " + HostAndPort(url) +
                     " is refused: anyone on the way could read "
                     "credentials and change the answer",
                 settings_.plain_http_hint};
  }
  if (request.HasCredential() && !settings_.allow_plain_credentials) {
    return Error{ErrorCode::kUnsupported,
                 "a credential is not sent to " + HostAndPort(url) +
                     " over plain http: anyone on the way could read it",
                 settings_.plain_http_hint};
  }
  return {};
}

HttpClient::Attempt HttpClient::Perform(const HttpRequest& request, Deadline deadline) {
  if (auto allowed = Allowed(request); !allowed) {
    return {std::move(allowed).error(), false};
  }
  if (handle_ == nullptr) {
    return {Error{ErrorCode::kInternal, "libcurl cannot be initialised", ""}, false};
  }
  const auto started = Deadline::Clock::now();
  HttpTransfer transfer(handle_.get(), settings_, request, deadline);
  const int code = transfer.Run();
  const auto span =
      std::chrono::duration_cast<milliseconds>(Deadline::Clock::now() - started).count();
  const std::string what = std::string(HttpMethodName(request.method)) + " " +
                           ShownUrl(request.url) + " after " + std::to_string(span) + " ms: ";
  HttpResponse& response = transfer.Response();
  if (code == CURLE_OK || transfer.Cut()) {
    Log(what + std::to_string(response.status) + ", " + std::to_string(response.body.size()) +
        " bytes");
    return {std::move(response), false};
  }
  const TransportFailure failure = transfer.Failure(code);
  Error error = ExplainEnd(transfer, failure, request, settings_);
  Log(what + error.message);
  const bool ours = transfer.TooLong() || transfer.Refused() || transfer.Delivered();
  return {std::move(error), !ours && IsTransient(failure)};
}

HttpClient::Attempt HttpClient::Follow(const HttpRequest& request, Deadline deadline) {
  HttpRequest current = request;
  for (int redirects = 0;; ++redirects) {
    Attempt attempt = Perform(current, deadline);
    if (!attempt.result || !IsRedirect(attempt.result->status)) {
      return attempt;
    }
    const std::string host = HostAndPort(current.url);
    const auto refuse = [&host](const std::string& why) {
      return Attempt{RedirectError(host, why), false};
    };
    if (current.method != HttpMethod::kGet) {
      return refuse("a request that carries a credential or a change");
    }
    if (redirects == kMaxRedirects) {
      return refuse("more than " + std::to_string(kMaxRedirects) + " times");
    }
    auto target = ResolveUrl(current.url, attempt.result->Header("location"));
    if (!target) {
      return refuse("to nowhere: its Location is " + target.error().message);
    }
    if (current.url.scheme == "https" && target->scheme == "http") {
      return refuse("from https to plain http (" + HostAndPort(*target) + "), which is refused");
    }
    if (!SameOrigin(current.url, *target)) {
      if (current.stay_on_origin) {
        return refuse("to another host (" + HostAndPort(*target) + "), which is refused");
      }
      current.authorization.clear();
      current.secret_headers.clear();
      current.identity = {};
    }
    current.url = std::move(*target);
  }
}

Result<void> HttpClient::Wait(milliseconds span) const {
  const Deadline until = Deadline::After(span);
  while (!until.Passed()) {
    if (Interrupted()) {
      return InterruptedError();
    }
    std::this_thread::sleep_for(std::min(until.Remaining() + milliseconds(1), kInterruptSlice));
  }
  return {};
}

Result<HttpResponse> HttpClient::Send(const HttpRequest& request, Deadline deadline) {
  const bool repeatable = request.method != HttpMethod::kPost || request.repeatable_post;
  for (int number = 1;; ++number) {
    if (deadline.Passed()) {
      return Error{ErrorCode::kTimedOut, "no time left to ask " + HostAndPort(request.url), ""};
    }
    Attempt attempt = Follow(request, deadline);
    if (attempt.result) {
      attempt.result->attempts = number;
    }
    if (!attempt.WorthAnother(number, repeatable)) {
      return std::move(attempt.result);
    }
    const double jitter = static_cast<double>(random_() - std::minstd_rand::min()) /
                          static_cast<double>(std::minstd_rand::max());
    milliseconds wait = Backoff(number, jitter);
    if (attempt.result) {
      const auto asked =
          ParseRetryAfter(attempt.result->Header("retry-after"), std::chrono::system_clock::now());
      wait = asked ? std::max(*asked, kShortestWait) : wait;
    }
    if (wait >= deadline.Remaining()) {
      Log("not asking again: a wait of " + std::to_string(wait.count()) +
          " ms would pass the deadline");
      return std::move(attempt.result);
    }
    Log("asking again in " + std::to_string(wait.count()) + " ms");
    if (auto waited = Wait(wait); !waited) {
      return std::move(waited).error();
    }
  }
}

Result<bool> HttpClient::SpeaksTls(const Url& url, Deadline deadline) {
  if (handle_ == nullptr) {
    return Error{ErrorCode::kInternal, "libcurl cannot be initialised", ""};
  }
  HttpRequest request;
  request.url = url;
  HttpTransfer transfer(handle_.get(), settings_, request, deadline.Within(kTlsProbe));
  const int code = transfer.Connect();
  if (code == CURLE_OK) {
    return true;
  }
  if (code == CURLE_ABORTED_BY_CALLBACK) {
    return InterruptedError();
  }
  const TransportFailure failure = transfer.Failure(code);
  if (IsNoTlsAnswer(failure)) {
    return false;
  }
  return ExplainTransportFailure(failure, url, settings_);
}

}  // namespace dlc
