#include "probes/documents/text_encoding.h"

#include <algorithm>

namespace dlc {
namespace {

using Byte = unsigned char;

bool IsContinuation(Byte byte) {
  return (byte & 0xC0U) == 0x80U;
}

/// Length of the well-formed sequence at the start of `bytes`, or 0 (Unicode standard, table 3-7).
std::size_t SequenceLength(std::string_view bytes) {
  const auto at = [&](std::size_t i) {
    return i < bytes.size() ? static_cast<Byte>(bytes[i]) : Byte{0};
  };
  const Byte lead = at(0);
  if (lead < 0x80) {
    return 1;
  }
  if (lead >= 0xC2 && lead <= 0xDF) {
    return IsContinuation(at(1)) ? 2 : 0;
  }
  if (lead >= 0xE0 && lead <= 0xEF) {
    const Byte low = lead == 0xE0 ? 0xA0 : 0x80;
    const Byte high = lead == 0xED ? 0x9F : 0xBF;
    return at(1) >= low && at(1) <= high && IsContinuation(at(2)) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const Byte low = lead == 0xF0 ? 0x90 : 0x80;
    const Byte high = lead == 0xF4 ? 0x8F : 0xBF;
    return at(1) >= low && at(1) <= high && IsContinuation(at(2)) && IsContinuation(at(3)) ? 4 : 0;
  }
  return 0;
}

std::optional<BadText> BadControl(std::string_view bytes, std::size_t i) {
  const auto offset = static_cast<std::ptrdiff_t>(i);
  const char c = bytes[i];
  if (c == '\t' || c == '\n' || (c == '\r' && i + 1 < bytes.size() && bytes[i + 1] == '\n')) {
    return std::nullopt;
  }
  if (c == '\0') {
    return BadText{offset, "NUL byte: not a text file", "save the file as UTF-8"};
  }
  if (c == '\r') {
    return BadText{offset, "carriage return without line feed", "end lines with LF or CRLF"};
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto value = static_cast<Byte>(c);
  return BadText{offset,
                 std::string("control character 0x") + kHex[value >> 4U] + kHex[value & 15U],
                 "remove it, or write it as an escape in double quotes"};
}

}  // namespace

std::optional<BadText> FindBadText(std::string_view bytes) {
  std::size_t i = 0;
  while (i < bytes.size()) {
    const auto byte = static_cast<Byte>(bytes[i]);
    if (byte >= 0x20 && byte < 0x7F) {
      ++i;
      continue;
    }
    if (byte < 0x20 || byte == 0x7F) {
      if (auto bad = BadControl(bytes, i)) {
        return bad;
      }
      ++i;
      continue;
    }
    const std::size_t length = SequenceLength(bytes.substr(i));
    if (length == 0) {
      return BadText{static_cast<std::ptrdiff_t>(i), "not UTF-8", "save the file as UTF-8"};
    }
    i += length;
  }
  return std::nullopt;
}

}  // namespace dlc
