#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "probes/observations/digest.h"

namespace dlc {

using Sha256Bytes = std::array<std::uint8_t, 32>;

/// SHA-256 over a stream (FIPS 180-4).
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(std::string_view bytes);
  /// Once.
  Sha256Bytes Finish();
  Digest FinishDigest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// HMAC-SHA-256 (RFC 2104) over the parts one after the other.
Sha256Bytes HmacSha256(std::string_view key, std::initializer_list<std::string_view> parts);

/// In time that does not depend on where they differ.
bool EqualInConstantTime(std::string_view a, std::string_view b);

inline std::string_view AsText(const Sha256Bytes& bytes) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes as chars is what it is for
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace dlc
