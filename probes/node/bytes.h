#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dlc {

/// Appends whole numbers (little endian) and length-prefixed texts.
class ByteWriter {
 public:
  void U8(std::uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void U32(std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) {
      U8(static_cast<std::uint8_t>(value >> shift));
    }
  }
  void Text(std::string_view text) {
    U32(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what ByteWriter wrote. A read past the end gives 0 or "" and clears ok() for good.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  std::uint8_t U8() {
    const std::string_view byte = Take(1);
    return byte.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(byte[0]);
  }
  std::uint32_t U32() {
    std::uint32_t value = 0;
    for (int shift = 0; shift < 32; shift += 8) {
      value |= static_cast<std::uint32_t>(U8()) << shift;
    }
    return value;
  }
  std::string_view Text() { return Take(U32()); }

  bool ok() const { return ok_; }
  /// Everything was read, and nothing more was asked for.
  bool AtEnd() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view Take(std::size_t count) {
    if (!ok_ || count > bytes_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace dlc
