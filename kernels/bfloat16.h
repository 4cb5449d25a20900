#pragma once

#include <bit>
#include <cstdint>

namespace dlc {

inline float FloatFromBfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Nearest, ties to even; a NaN stays a NaN. Written without branches, so that loops vectorise.
inline std::uint16_t Bfloat16FromFloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40U;
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet_nan : rounded);
}

}  // namespace dlc
