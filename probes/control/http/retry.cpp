#include "probes/control/http/retry.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <string>

namespace dlc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLongestWait{24 * 3600};
constexpr milliseconds kFirstBackoff{300};
constexpr milliseconds kLongestBackoff{8'000};

}  // namespace

std::optional<milliseconds> ParseRetryAfter(std::string_view value,
                                            std::chrono::system_clock::time_point now) {
  const auto first = value.find_first_not_of(" \t");
  if (first == std::string_view::npos) {
    return std::nullopt;
  }
  value = value.substr(first, value.find_last_not_of(" \t") - first + 1);
  if (std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    long long count = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), count);
    const bool too_long = parsed.ec != std::errc() || count > kLongestWait.count();
    return too_long ? kLongestWait : seconds(count);
  }
  const std::time_t at = curl_getdate(std::string(value).c_str(), nullptr);
  if (at == -1) {
    return std::nullopt;
  }
  const auto wait =
      std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::from_time_t(at) - now);
  return std::clamp<milliseconds>(wait, milliseconds::zero(), kLongestWait);
}

milliseconds Backoff(int attempt, double jitter) {
  const int doublings = std::clamp(attempt - 1, 0, 10);
  const milliseconds full = std::min(kFirstBackoff * (1 << doublings), kLongestBackoff);
  const double kept = 1.0 - std::clamp(jitter, 0.0, 1.0) / 2;
  return milliseconds(static_cast<long long>(static_cast<double>(full.count()) * kept));
}

}  // namespace dlc
