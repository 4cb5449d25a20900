#include "reports/plain_text.h"

#include <algorithm>
#include <cstdint>

namespace dlc {
namespace {

constexpr CodePoint kInvalid{U'\uFFFD', 1, false};

struct Lead {
  std::size_t bytes;
  char32_t bits;
  char32_t least;  // smaller values have a shorter form, which is the only valid one
};

Lead LeadOf(unsigned char byte) {
  if (byte < 0x80U) {
    return {1, byte, 0};
  }
  if ((byte & 0xE0U) == 0xC0U) {
    return {2, byte & 0x1FU, 0x80};
  }
  if ((byte & 0xF0U) == 0xE0U) {
    return {3, byte & 0x0FU, 0x800};
  }
  if ((byte & 0xF8U) == 0xF0U) {
    return {4, byte & 0x07U, 0x10000};
  }
  return {0, 0, 0};
}

struct Range {
  char32_t first;
  char32_t last;
};

// Unicode 15: categories Cc, Cf, Zl, Zp, the blank Hangul fillers and the two noncharacters of the
// BMP that a UTF-8 decoder lets through.
constexpr Range kUnsafe[] = {
    {0x0, 0x1F},        {0x7F, 0x9F},       {0xAD, 0xAD},       {0x600, 0x605},
    {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},     {0x890, 0x891},
    {0x8E2, 0x8E2},     {0x115F, 0x1160},   {0x17B4, 0x17B5},   {0x180B, 0x180F},
    {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x206F},   {0x3164, 0x3164},
    {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},   {0xFFFE, 0xFFFF},
    {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1345F}, {0x1BCA0, 0x1BCA3},
    {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
};

void AppendHex(std::string& out, char32_t code, int digits) {
  for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) {
    out += "0123456789abcdef"[(code >> static_cast<unsigned>(shift)) & 0xFU];
  }
}

void AppendEscape(std::string& out, char32_t code) {
  switch (code) {
    case U'\n':
      out += "\\n";
      return;
    case U'\r':
      out += "\\r";
      return;
    case U'\t':
      out += "\\t";
      return;
    default:
      break;
  }
  const int digits = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
  out += digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
  AppendHex(out, code, digits);
}

bool IsPlainAscii(char c) {
  return c >= 0x20 && c < 0x7F;
}

}  // namespace

CodePoint CodePointAt(std::string_view text, std::size_t at) {
  const Lead lead = LeadOf(static_cast<unsigned char>(text[at]));
  if (lead.bytes == 0 || at + lead.bytes > text.size()) {
    return kInvalid;
  }
  char32_t value = lead.bits;
  for (std::size_t i = 1; i < lead.bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text[at + i]);
    if ((byte & 0xC0U) != 0x80U) {
      return kInvalid;
    }
    value = (value << 6U) | (byte & 0x3FU);
  }
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < lead.least || value > 0x10FFFF || surrogate) {
    return kInvalid;
  }
  return {value, lead.bytes, true};
}

bool IsUnsafe(char32_t code) {
  return std::any_of(std::begin(kUnsafe), std::end(kUnsafe),
                     [&](const Range& r) { return code >= r.first && code <= r.last; });
}

std::string PlainText(std::string_view untrusted) {
  if (std::all_of(untrusted.begin(), untrusted.end(), IsPlainAscii)) {
    return std::string(untrusted);
  }
  std::string out;
  out.reserve(untrusted.size() + 8);
  for (std::size_t at = 0; at < untrusted.size();) {
    const CodePoint code = CodePointAt(untrusted, at);
    if (!code.valid) {
      out += "\xEF\xBF\xBD";
    } else if (IsUnsafe(code.value)) {
      AppendEscape(out, code.value);
    } else {
      out += untrusted.substr(at, code.bytes);
    }
    at += code.bytes;
  }
  return out;
}

}  // namespace dlc
