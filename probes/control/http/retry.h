#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace dlc {

/// Retry-After (RFC 9110, 10.2.3): whole seconds or an HTTP date, as a wait from `now`; a date in
/// the past is zero. Nothing when malformed. At most a day.
std::optional<std::chrono::milliseconds> ParseRetryAfter(std::string_view value,
                                                         std::chrono::system_clock::time_point now);

/// The wait after `attempt` (from 1) failed: 0.3 s doubled each time, at most 8 s, of which
/// `jitter` (0..1) takes away up to half, so that many clients do not come back together.
std::chrono::milliseconds Backoff(int attempt, double jitter);

}  // namespace dlc
