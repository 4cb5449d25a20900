#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

/// What libFuzzer calls; each program defines it once.
// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace dlc {

inline std::string_view FuzzText(const std::uint8_t* data, std::size_t size) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes as text
  return {reinterpret_cast<const char*>(data), size};
}

/// A property that no input may break. Unlike assert it holds in every build.
inline void Demand(bool holds) {
  if (!holds) {
    std::abort();
  }
}

}  // namespace dlc
