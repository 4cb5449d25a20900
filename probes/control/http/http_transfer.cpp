#include "probes/control/http/http_transfer.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace dlc {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kFailureBodyBytes = 64U << 10U;
constexpr std::size_t kHeaderBytes = 256U << 10U;

std::string LowerCase(std::string_view text) {
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

/// curl's timeouts read 0 as "none", so a passed deadline is one millisecond.
long CurlMilliseconds(milliseconds span) {
  return static_cast<long>(std::max<long long>(span.count(), 1));
}

int OnProgress(void* interrupted, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto* flag = static_cast<const std::atomic<bool>*>(interrupted);
  return flag != nullptr && *flag ? 1 : 0;
}

void SetBlob(CURL* curl, CURLoption option, const std::string& bytes) {
  // libcurl only reads it; its type has no const.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
  curl_blob blob{const_cast<char*>(bytes.data()), bytes.size(), CURL_BLOB_COPY};
  curl_easy_setopt(curl, option, &blob);
}

std::string Bracketed(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

}  // namespace

HttpTransfer::HttpTransfer(void* curl, const HttpSettings& settings, const HttpRequest& request,
                           Deadline deadline)
    : curl_(curl), settings_(settings), request_(request) {
  static_assert(CURL_ERROR_SIZE <= std::tuple_size_v<decltype(error_text_)>);
  curl_easy_reset(curl_);  // keeps connections and the DNS cache
  response_.url = request.url;
  SetBasics(deadline);
  SetTrust();
  SetRoute();
  SetMessage();
}

HttpTransfer::~HttpTransfer() {
  curl_easy_reset(curl_);
  curl_slist_free_all(headers_);
  curl_slist_free_all(connect_to_);
}

void HttpTransfer::AddHeader(const std::string& line) {
  headers_ = curl_slist_append(headers_, line.c_str());
}

void HttpTransfer::SetBasics(Deadline deadline) {
  CURL* curl = curl_;
  const milliseconds limit = std::min(settings_.timeout, deadline.Remaining());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);  // do not wait for a resolver thread that hangs
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, CurlMilliseconds(limit));
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                   CurlMilliseconds(std::min(limit, timeouts::kConnect)));
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "dlc-check/" DLC_VERSION);
  if (settings_.compression) {
    curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "gzip");
  }
  curl_easy_setopt(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error_text_.data());
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &HttpTransfer::OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &HttpTransfer::OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, settings_.interrupted);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
}

void HttpTransfer::SetTrust() {
  CURL* curl = curl_;
  if (!settings_.ca_pem.empty()) {
    SetBlob(curl, CURLOPT_CAINFO_BLOB, settings_.ca_pem);
    curl_easy_setopt(curl, CURLOPT_CAPATH, nullptr);
  } else if (!settings_.ca_file.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, settings_.ca_file.c_str());
    curl_easy_setopt(curl, CURLOPT_CAPATH, nullptr);
  }
  if (settings_.insecure_skip_tls_verify) {
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (!request_.identity.empty()) {
    SetBlob(curl, CURLOPT_SSLCERT_BLOB, request_.identity.certificate_pem);
    SetBlob(curl, CURLOPT_SSLKEY_BLOB, request_.identity.key_pem);
  }
}

void HttpTransfer::SetRoute() {
  CURL* curl = curl_;
  const Url& url = request_.url;
  if (settings_.proxy) {
    curl_easy_setopt(curl, CURLOPT_PROXY, settings_.proxy->c_str());
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "");
  }
  if (settings_.tls_server_name.empty() || url.scheme != "https") {
    curl_easy_setopt(curl, CURLOPT_URL, url.text.c_str());
    return;
  }
  // libcurl checks the certificate against the URL's host and knows no other name for it: so the
  // URL names that host, and the connection and the Host header go where they would have gone.
  const std::string host = Bracketed(url.host);
  const std::string port = std::to_string(url.port);
  const auto path = url.text.find('/', url.text.find("://") + 3);
  const std::string named = "https://" + Bracketed(settings_.tls_server_name) + ":" + port +
                            (path == std::string::npos ? "/" : url.text.substr(path));
  curl_easy_setopt(curl, CURLOPT_URL, named.c_str());
  connect_to_ = curl_slist_append(connect_to_, ("::" + host + ":" + port).c_str());
  curl_easy_setopt(curl, CURLOPT_CONNECT_TO, connect_to_);
  AddHeader("Host: " + HostAndPort(url));
}

void HttpTransfer::SetMessage() {
  CURL* curl = curl_;
  for (const std::string& line : request_.headers) {
    AddHeader(line);
  }
  for (const std::string& line : request_.secret_headers) {
    AddHeader(line);
  }
  if (!request_.authorization.empty()) {
    AddHeader("Authorization: " + request_.authorization);
  }
  const bool has_body = request_.method == HttpMethod::kPost ||
                        request_.method == HttpMethod::kPut || !request_.body.empty();
  if (request_.method != HttpMethod::kGet && has_body) {
    AddHeader("Content-Type: " + request_.content_type);
    AddHeader("Expect:");  // else a long body waits a second for servers that ignore it
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request_.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request_.body.data());
  }
  if (request_.method != HttpMethod::kGet) {
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, HttpMethodName(request_.method));
  }
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers_);
}

int HttpTransfer::Run() {
  return curl_easy_perform(curl_);
}

int HttpTransfer::Connect() {
  curl_easy_setopt(static_cast<CURL*>(curl_), CURLOPT_CONNECT_ONLY, 1L);
  return curl_easy_perform(curl_);
}

std::size_t HttpTransfer::OnHeader(char* data, std::size_t size, std::size_t count, void* self) {
  return static_cast<HttpTransfer*>(self)->TakeHeader(data, size * count);
}

std::size_t HttpTransfer::OnBody(char* data, std::size_t size, std::size_t count, void* self) {
  return static_cast<HttpTransfer*>(self)->TakeBody(data, size * count);
}

std::size_t HttpTransfer::TakeHeader(const char* data, std::size_t bytes) {
  const std::string_view line = Trim({data, bytes});
  header_bytes_ += bytes;
  if (header_bytes_ > kHeaderBytes) {
    too_long_ = true;
    return 0;
  }
  if (line.starts_with("HTTP/")) {
    // Also after "100 Continue": only the last head counts.
    response_.headers.clear();
    long status = 0;
    curl_easy_getinfo(static_cast<CURL*>(curl_), CURLINFO_RESPONSE_CODE, &status);
    response_.status = static_cast<int>(status);
    return bytes;
  }
  const auto colon = line.find(':');
  if (colon != std::string_view::npos) {
    response_.headers.emplace(LowerCase(line.substr(0, colon)),
                              std::string(Trim(line.substr(colon + 1))));
  }
  return bytes;
}

std::size_t HttpTransfer::TakeBody(const char* data, std::size_t bytes) {
  std::string& body = response_.body;
  if (response_.status >= 300) {
    const std::size_t room = kFailureBodyBytes - std::min(body.size(), kFailureBodyBytes);
    body.append(data, std::min(bytes, room));
    cut_ = bytes > room;
    return cut_ ? 0 : bytes;
  }
  // The announced length is known before the first byte is.
  curl_off_t announced = -1;
  curl_easy_getinfo(static_cast<CURL*>(curl_), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
  if (body.size() + delivered_ + bytes > request_.max_body_bytes ||
      announced > static_cast<curl_off_t>(request_.max_body_bytes)) {
    too_long_ = true;
    return 0;
  }
  if (!request_.on_body) {
    body.append(data, bytes);
    return bytes;
  }
  delivered_ += bytes;
  refused_ = !request_.on_body({data, bytes});
  return refused_ ? 0 : bytes;
}

TransportFailure HttpTransfer::Failure(int code) const {
  CURL* curl = curl_;
  TransportFailure failure;
  failure.curl_code = code;
  failure.text = error_text_.data();
  curl_easy_getinfo(curl, CURLINFO_SSL_VERIFYRESULT, &failure.verify_result);
  long os_errno = 0;
  curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &os_errno);
  failure.os_errno = static_cast<int>(os_errno);
  curl_off_t connected_at = 0;
  const bool https = request_.url.scheme == "https";
  curl_easy_getinfo(curl, https ? CURLINFO_APPCONNECT_TIME_T : CURLINFO_CONNECT_TIME_T,
                    &connected_at);
  curl_off_t first_byte_at = 0;  // a kept connection has no connect time
  curl_easy_getinfo(curl, CURLINFO_PRETRANSFER_TIME_T, &first_byte_at);
  failure.connected = connected_at > 0 || first_byte_at > 0;
  return failure;
}

}  // namespace dlc
