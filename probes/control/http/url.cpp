#include "probes/control/http/url.h"

#include <arpa/inet.h>
#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>

namespace dlc {
namespace {

constexpr std::string_view kHexDigits = "0123456789ABCDEF";

using UrlHandle = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

UrlHandle NewHandle() {
  return {curl_url(), &curl_url_cleanup};
}

std::string Part(CURLU* handle, CURLUPart part, unsigned int flags = 0) {
  char* text = nullptr;
  if (curl_url_get(handle, part, &text, flags) != CURLUE_OK) {
    return {};
  }
  std::string result = text;
  curl_free(text);
  return result;
}

Error BadUrl(const std::string& why) {
  return {ErrorCode::kInvalidInput, why, ""};
}

Result<Url> FromHandle(CURLU* handle) {
  Url url;
  url.text = Part(handle, CURLUPART_URL);
  url.scheme = Part(handle, CURLUPART_SCHEME);
  url.host = Part(handle, CURLUPART_HOST);
  const std::string port = Part(handle, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  if ((url.scheme != "http" && url.scheme != "https") || url.host.empty() || port.empty()) {
    return BadUrl("not an http or https URL");
  }
  if (!Part(handle, CURLUPART_USER).empty() || !Part(handle, CURLUPART_PASSWORD).empty()) {
    return BadUrl("a URL with a user name or password in it is refused");
  }
  std::transform(url.host.begin(), url.host.end(), url.host.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (url.host.front() == '[' && url.host.back() == ']') {
    url.host = url.host.substr(1, url.host.size() - 2);
  }
  url.port = std::stoi(port);
  return url;
}

bool HasBlankOrControl(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](unsigned char c) { return c <= ' ' || c == 0x7f; });
}

}  // namespace

Result<Url> ParseUrl(std::string_view text) {
  const UrlHandle handle = NewHandle();
  if (HasBlankOrControl(text) ||
      curl_url_set(handle.get(), CURLUPART_URL, std::string(text).c_str(), 0) != CURLUE_OK) {
    return BadUrl("not a URL");
  }
  return FromHandle(handle.get());
}

Result<Url> ResolveUrl(const Url& base, std::string_view reference) {
  const UrlHandle handle = NewHandle();
  if (HasBlankOrControl(reference) || reference.empty() ||
      curl_url_set(handle.get(), CURLUPART_URL, base.text.c_str(), 0) != CURLUE_OK ||
      curl_url_set(handle.get(), CURLUPART_URL, std::string(reference).c_str(), 0) != CURLUE_OK) {
    return BadUrl("not a URL");
  }
  return FromHandle(handle.get());
}

Result<Url> WithQuery(const Url& url, std::string_view name, std::string_view value) {
  const UrlHandle handle = NewHandle();
  const std::string pair = std::string(name) + "=" + std::string(value);
  if (curl_url_set(handle.get(), CURLUPART_URL, url.text.c_str(), 0) != CURLUE_OK ||
      curl_url_set(handle.get(), CURLUPART_QUERY, pair.c_str(),
                   CURLU_APPENDQUERY | CURLU_URLENCODE) != CURLUE_OK) {
    return BadUrl("not a URL");
  }
  return FromHandle(handle.get());
}

std::string PercentEncode(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '.' || c == '_' || c == '~') {
      result += c;
    } else {
      result += '%';
      result += kHexDigits[byte >> 4U];
      result += kHexDigits[byte & 0xFU];
    }
  }
  return result;
}

bool SameOrigin(const Url& a, const Url& b) {
  return a.scheme == b.scheme && a.host == b.host && a.port == b.port;
}

bool IsLoopback(const Url& url) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  if (inet_pton(AF_INET, url.host.c_str(), address.data()) == 1) {
    return address[0] == 127;
  }
  if (inet_pton(AF_INET6, url.host.c_str(), address.data()) == 1) {
    return address.back() == 1 &&
           std::all_of(address.begin(), address.end() - 1, [](auto byte) { return byte == 0; });
  }
  return url.host == "localhost";
}

std::string ShownUrl(const Url& url) {
  return url.text.substr(0, url.text.find_first_of("?#"));
}

}  // namespace dlc
