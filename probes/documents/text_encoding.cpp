#include "probes/documents/text_encoding.h"

namespace dlc {
namespace {

using Byte = unsigned char;

constexpr std::string_view kHexDigits = "0123456789abcdef";

bool IsContinuation(Byte byte) {
  return (byte & 0xC0U) == 0x80U;
}

/// The range of the second byte, which alone depends on the first: it shuts out overlong forms,
/// surrogates and what lies beyond U+10FFFF (Unicode standard, table 3-7).
bool IsSecond(Byte lead, Byte second) {
  switch (lead) {
    case 0xE0:
      return second >= 0xA0 && second <= 0xBF;
    case 0xED:
      return second >= 0x80 && second <= 0x9F;
    case 0xF0:
      return second >= 0x90 && second <= 0xBF;
    case 0xF4:
      return second >= 0x80 && second <= 0x8F;
    default:
      return IsContinuation(second);
  }
}

std::size_t LengthByLead(Byte lead) {
  if (lead < 0x80) {
    return 1;
  }
  if (lead < 0xC2 || lead > 0xF4) {
    return 0;
  }
  return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/// Length of the well-formed sequence at the start of `bytes`, or 0. Precondition: not empty.
std::size_t SequenceLength(std::string_view bytes) {
  const auto lead = static_cast<Byte>(bytes[0]);
  const std::size_t length = LengthByLead(lead);
  if (length == 0 || length > bytes.size()) {
    return 0;
  }
  if (length > 1 && !IsSecond(lead, static_cast<Byte>(bytes[1]))) {
    return 0;
  }
  for (std::size_t i = 2; i < length; ++i) {
    if (!IsContinuation(static_cast<Byte>(bytes[i]))) {
      return 0;
    }
  }
  return length;
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
  const auto value = static_cast<Byte>(c);
  return BadText{
      offset,
      std::string("control character 0x") + kHexDigits[value >> 4U] + kHexDigits[value & 15U],
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
