#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "probes/observations/result.h"

namespace dlc {

/// Of one object: kept objects are lists, so that order stays, and whoever looks keys up in one
/// walks it. What this program writes and reads has far fewer: the largest objects are maps that a
/// user fills (an image's labels and environment, a pod's variables).
inline constexpr std::size_t kMaxKeysPerObject = 10'000;

struct JsonLimits {
  std::size_t max_bytes = 64U << 20U;
  int max_depth = 64;
};

/// RFC 8259 with what it leaves open closed: UTF-8 only, no duplicate keys (nlohmann keeps the last
/// in silence), bounded size, depth and keys per
/// object, no number that overflows a double. Errors are kInvalidInput
/// with the byte offset or the key's path.
Result<nlohmann::ordered_json> ParseStrictJson(std::string_view bytes,
                                               const JsonLimits& limits = {});

}  // namespace dlc
