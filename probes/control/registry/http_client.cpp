#include "probes/control/registry/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "probes/control/registry/retry.h"
#include "probes/control/registry/transport_error.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;

constexpr int kMaxRedirects = 5;
constexpr int kMaxAttempts = 5;  // of 5xx and broken transfers; 429 has only the deadline
constexpr std::size_t kFailureBodyBytes = 64U << 10U;
constexpr std::size_t kHeaderBytes = 256U << 10U;
constexpr milliseconds kTlsProbe{2'000};
constexpr milliseconds kShortestWait{100};
constexpr milliseconds kInterruptSlice{50};

int GlobalInit() {
  static const int once = curl_global_init(CURL_GLOBAL_DEFAULT);
  return once;
}

std::string Lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::string_view Trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

Error RedirectError(const std::string& host, const std::string& why) {
  return {ErrorCode::kUnavailable, host + " redirects " + why, ""};
}

class HeaderList {
 public:
  HeaderList() = default;
  ~HeaderList() { curl_slist_free_all(list_); }
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  void Add(const std::string& line) { list_ = curl_slist_append(list_, line.c_str()); }
  curl_slist* Get() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

/// curl's timeouts read 0 as "none", so a passed deadline is one millisecond.
long CurlMilliseconds(milliseconds span) {
  return static_cast<long>(std::max<long long>(span.count(), 1));
}

}  // namespace

/// What the callbacks of one transfer fill.
struct HttpClient::Transfer {
  Transfer() = default;
  // The handle outlives this and must not keep pointers into it.
  ~Transfer() { curl_easy_reset(curl); }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  CURL* curl = nullptr;
  HttpResponse response;
  std::size_t max_body_bytes = 0;
  std::size_t header_bytes = 0;
  bool too_long = false;
  bool cut = false;  // a failure's body, on purpose
  const std::atomic<bool>* interrupted = nullptr;
  HeaderList headers;
  std::array<char, CURL_ERROR_SIZE> error_text{};

  static std::size_t OnHeader(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t OnBody(char* data, std::size_t size, std::size_t count, void* self);
  static int OnProgress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t);
  TransportFailure Failure(CURLcode code, bool https) const;
};

std::size_t HttpClient::Transfer::OnHeader(char* data, std::size_t size, std::size_t count,
                                           void* self) {
  Transfer& transfer = *static_cast<Transfer*>(self);
  const std::string_view line = Trim({data, size * count});
  transfer.header_bytes += size * count;
  if (transfer.header_bytes > kHeaderBytes) {
    transfer.too_long = true;
    return 0;
  }
  if (line.starts_with("HTTP/")) {
    // Also after "100 Continue": only the last head counts.
    transfer.response.headers.clear();
    long status = 0;
    curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
    transfer.response.status = static_cast<int>(status);
    return size * count;
  }
  const auto colon = line.find(':');
  if (colon != std::string_view::npos) {
    transfer.response.headers.emplace(Lower(line.substr(0, colon)),
                                      std::string(Trim(line.substr(colon + 1))));
  }
  return size * count;
}

std::size_t HttpClient::Transfer::OnBody(char* data, std::size_t size, std::size_t count,
                                         void* self) {
  Transfer& transfer = *static_cast<Transfer*>(self);
  const std::size_t bytes = size * count;
  std::string& body = transfer.response.body;
  if (transfer.response.status >= 300) {
    const std::size_t room = kFailureBodyBytes - std::min(body.size(), kFailureBodyBytes);
    body.append(data, std::min(bytes, room));
    transfer.cut = bytes > room;
    return transfer.cut ? 0 : bytes;
  }
  // The announced length is known before the first byte is.
  curl_off_t announced = -1;
  curl_easy_getinfo(transfer.curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
  if (body.size() + bytes > transfer.max_body_bytes ||
      announced > static_cast<curl_off_t>(transfer.max_body_bytes)) {
    transfer.too_long = true;
    return 0;
  }
  body.append(data, bytes);
  return bytes;
}

int HttpClient::Transfer::OnProgress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const Transfer& transfer = *static_cast<Transfer*>(self);
  return transfer.interrupted != nullptr && *transfer.interrupted ? 1 : 0;
}

TransportFailure HttpClient::Transfer::Failure(CURLcode code, bool https) const {
  TransportFailure failure;
  failure.curl_code = code;
  failure.text = error_text.data();
  curl_easy_getinfo(curl, CURLINFO_SSL_VERIFYRESULT, &failure.verify_result);
  long os_errno = 0;
  curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &os_errno);
  failure.os_errno = static_cast<int>(os_errno);
  curl_off_t connected_at = 0;
  curl_easy_getinfo(curl, https ? CURLINFO_APPCONNECT_TIME_T : CURLINFO_CONNECT_TIME_T,
                    &connected_at);
  curl_off_t first_byte_at = 0;  // a kept connection has no connect time
  curl_easy_getinfo(curl, CURLINFO_PRETRANSFER_TIME_T, &first_byte_at);
  failure.connected = connected_at > 0 || first_byte_at > 0;
  return failure;
}

/// One transfer's end.
struct HttpClient::Attempt {
  Result<HttpResponse> result;
  bool broken_transfer = false;  // worth trying again at once

  bool WorthAnother(int number) const {
    if (!result) {
      return broken_transfer && number < kMaxAttempts;
    }
    const int status = result->status;
    return status == 429 || (number < kMaxAttempts &&
                             (status == 500 || status == 502 || status == 503 || status == 504));
  }
};

std::string HttpResponse::Header(const std::string& name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? std::string() : it->second;
}

HttpClient::HttpClient(HttpSettings settings)
    : settings_(std::move(settings)),
      handle_(GlobalInit() == CURLE_OK ? curl_easy_init() : nullptr,
              [](void* handle) { curl_easy_cleanup(handle); }),
      random_(std::random_device{}()) {}

HttpClient::~HttpClient() = default;

void HttpClient::Log(const std::string& line) const {
  if (settings_.log) {
    settings_.log(line);
  }
}

Result<void> HttpClient::Allowed(const Url& url) const {
  if (url.scheme == "http" && !settings_.allow_plain_http && !IsLoopback(url)) {
    return Error{ErrorCode::kUnsupported,
                 "plain http to " + HostAndPort(url) +
                     " is refused: anyone on the way could read "
                     "credentials and change the answer",
                 "allow plain http for this registry if that is meant"};
  }
  return {};
}

void HttpClient::Configure(const HttpRequest& request, Deadline deadline, Transfer& transfer) {
  CURL* curl = handle_.get();
  curl_easy_reset(curl);  // keeps connections and the DNS cache
  transfer.curl = curl;
  transfer.max_body_bytes = request.max_body_bytes;
  transfer.interrupted = settings_.interrupted;
  transfer.response.url = request.url;
  const milliseconds limit = std::min(settings_.timeout, deadline.Remaining());
  curl_easy_setopt(curl, CURLOPT_URL, request.url.text.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);  // do not wait for a resolver thread that hangs
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, CurlMilliseconds(limit));
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                   CurlMilliseconds(std::min(limit, timeouts::kConnect)));
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "dlc-check/" DLC_VERSION);
  curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "gzip");
  curl_easy_setopt(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, transfer.error_text.data());
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &Transfer::OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Transfer::OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Transfer::OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  if (!settings_.ca_file.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, settings_.ca_file.c_str());
    curl_easy_setopt(curl, CURLOPT_CAPATH, nullptr);
  }
  for (const std::string& line : request.headers) {
    transfer.headers.Add(line);
  }
  if (!request.authorization.empty()) {
    transfer.headers.Add("Authorization: " + request.authorization);
  }
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, transfer.headers.Get());
  if (!request.form.empty()) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(request.form.size()));
    curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, request.form.c_str());
  }
}

HttpClient::Attempt HttpClient::Perform(const HttpRequest& request, Deadline deadline) {
  if (auto allowed = Allowed(request.url); !allowed) {
    return {std::move(allowed).error(), false};
  }
  if (handle_ == nullptr) {
    return {Error{ErrorCode::kInternal, "libcurl cannot be initialised", ""}, false};
  }
  const auto started = Deadline::Clock::now();
  Transfer transfer;
  Configure(request, deadline, transfer);
  const CURLcode code = curl_easy_perform(handle_.get());
  const auto span =
      std::chrono::duration_cast<milliseconds>(Deadline::Clock::now() - started).count();
  const std::string what = (request.form.empty() ? "GET " : "POST ") + ShownUrl(request.url) +
                           " after " + std::to_string(span) + " ms: ";
  if (code == CURLE_OK || transfer.cut) {
    Log(what + std::to_string(transfer.response.status) + ", " +
        std::to_string(transfer.response.body.size()) + " bytes");
    return {std::move(transfer.response), false};
  }
  Error error;
  const TransportFailure failure = transfer.Failure(code, request.url.scheme == "https");
  if (transfer.too_long) {
    error = {ErrorCode::kUnsupported,
             "the answer of " + HostAndPort(request.url) + " is longer than the limit of " +
                 std::to_string(request.max_body_bytes) + " bytes and was not read",
             ""};
  } else if (code == CURLE_ABORTED_BY_CALLBACK) {
    error = {ErrorCode::kInterrupted, "interrupted", ""};
  } else {
    error = ExplainTransportFailure(failure, request.url, settings_.ca_file);
  }
  Log(what + error.message);
  return {std::move(error), !transfer.too_long && IsTransient(failure)};
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
    if (!current.form.empty()) {
      return refuse("a request that carries a credential");
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
      current.authorization.clear();
    }
    current.url = std::move(*target);
  }
}

Result<void> HttpClient::Wait(milliseconds span) const {
  const Deadline until = Deadline::After(span);
  while (!until.Passed()) {
    if (Interrupted()) {
      return Error{ErrorCode::kInterrupted, "interrupted", ""};
    }
    std::this_thread::sleep_for(std::min(until.Remaining() + milliseconds(1), kInterruptSlice));
  }
  return {};
}

Result<HttpResponse> HttpClient::Send(const HttpRequest& request, Deadline deadline) {
  for (int number = 1;; ++number) {
    if (deadline.Passed()) {
      return Error{ErrorCode::kTimedOut, "no time left to ask " + HostAndPort(request.url), ""};
    }
    Attempt attempt = Follow(request, deadline);
    if (attempt.result) {
      attempt.result->attempts = number;
    }
    if (!attempt.WorthAnother(number)) {
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
  Transfer transfer;
  HttpRequest request;
  request.url = url;
  Configure(request, deadline.Within(kTlsProbe), transfer);
  curl_easy_setopt(handle_.get(), CURLOPT_CONNECT_ONLY, 1L);
  const CURLcode code = curl_easy_perform(handle_.get());
  if (code == CURLE_OK) {
    return true;
  }
  if (code == CURLE_ABORTED_BY_CALLBACK) {
    return Error{ErrorCode::kInterrupted, "interrupted", ""};
  }
  const TransportFailure failure = transfer.Failure(code, true);
  if (IsNoTlsAnswer(failure)) {
    return false;
  }
  return ExplainTransportFailure(failure, url, settings_.ca_file);
}

}  // namespace dlc
