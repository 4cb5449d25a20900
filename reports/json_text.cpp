#include "reports/json_text.h"

#include <algorithm>
#include <cstddef>

#include "reports/plain_text.h"

namespace dlc {
namespace {

void AppendUnit(std::string& out, unsigned unit) {
  out += "\\u";
  for (const unsigned shift : {12U, 8U, 4U, 0U}) {
    out += "0123456789abcdef"[(unit >> shift) & 0xFU];
  }
}

void AppendJsonEscape(std::string& out, char32_t code) {
  if (code < 0x10000) {
    AppendUnit(out, code);
    return;
  }
  AppendUnit(out, 0xD800U + ((code - 0x10000U) >> 10U));
  AppendUnit(out, 0xDC00U + ((code - 0x10000U) & 0x3FFU));
}

// Line breaks here are the writer's own: inside a JSON string they are always escaped.
bool IsSuspect(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n') || byte >= 0x7F;
}

}  // namespace

std::string ShowableJson(std::string json) {
  if (std::none_of(json.begin(), json.end(), IsSuspect)) {
    return json;
  }
  std::string out;
  out.reserve(json.size() + json.size() / 8);
  for (std::size_t at = 0; at < json.size();) {
    const CodePoint code = CodePointAt(json, at);
    if (code.valid && IsSuspect(json[at]) && IsUnsafe(code.value)) {
      AppendJsonEscape(out, code.value);
    } else {
      out.append(json, at, code.bytes);
    }
    at += code.bytes;
  }
  return out;
}

std::string IndentJson(std::string_view json, int spaces) {
  std::string out;
  out.reserve(json.size() + json.size() / 8);
  for (std::size_t at = 0; at < json.size();) {
    const std::size_t end = std::min(json.find('\n', at), json.size() - 1) + 1;
    out += json.substr(at, end - at);
    if (out.back() == '\n') {
      out.append(static_cast<std::size_t>(spaces), ' ');
    }
    at = end;
  }
  return out;
}

}  // namespace dlc
