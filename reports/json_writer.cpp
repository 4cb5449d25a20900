#include "reports/json_writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

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

bool IsPlain(char c) {
  return c >= 0x20 && c < 0x7F;
}

/// Precondition: valid JSON. Line breaks are the writer's own: in a string they are escaped.
void AppendShowable(std::string& out, std::string_view json) {
  for (std::size_t at = 0; at < json.size();) {
    const CodePoint code = CodePointAt(json, at);
    if (json[at] != '\n' && IsUnsafe(code.value)) {
      AppendJsonEscape(out, code.value);
    } else {
      out += json.substr(at, code.bytes);
    }
    at += code.bytes;
  }
}

std::string Dump(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void JsonWriter::NewLine() {
  if (indent_ >= 0) {
    out_ += '\n';
    out_.append(static_cast<std::size_t>(depth_) * static_cast<std::size_t>(indent_), ' ');
  }
}

void JsonWriter::BeforeValue() {
  if (after_key_ || depth_ == 0) {
    after_key_ = false;
    return;
  }
  if (!empty_) {
    out_ += ',';
  }
  NewLine();
  empty_ = false;
}

void JsonWriter::Begin(char open) {
  BeforeValue();
  out_ += open;
  ++depth_;
  empty_ = true;
}

void JsonWriter::End(char close) {
  --depth_;
  if (!empty_) {
    NewLine();
  }
  out_ += close;
  empty_ = false;
}

void JsonWriter::Key(std::string_view key) {
  BeforeValue();
  out_ += '"';
  out_ += key;
  out_ += indent_ >= 0 ? "\": " : "\":";
  after_key_ = true;
}

void JsonWriter::AppendQuoted(std::string_view text) {
  const std::size_t before = out_.size();
  out_ += '"';
  std::size_t written = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (!IsPlain(c)) {
      // Rare, and the rule by which invalid UTF-8 is replaced stays one.
      out_.resize(before);
      const std::string quoted = Dump(text);
      unsafe_ == Unsafe::kEscaped ? AppendShowable(out_, quoted) : void(out_ += quoted);
      return;
    }
    if (c == '"' || c == '\\') {
      out_ += text.substr(written, at - written);
      out_ += '\\';
      written = at;
    }
  }
  out_ += text.substr(written);
  out_ += '"';
}

void JsonWriter::Text(std::string_view text) {
  BeforeValue();
  AppendQuoted(text);
}

void JsonWriter::Number(std::int64_t number) {
  BeforeValue();
  char digits[24];
  out_.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

void JsonWriter::Number(double number) {
  if (!std::isfinite(number)) {
    Text(std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity");
    return;
  }
  BeforeValue();
  out_ += Dump(number);
}

void JsonWriter::Bool(bool flag) {
  BeforeValue();
  out_ += flag ? "true" : "false";
}

void JsonWriter::Null() {
  BeforeValue();
  out_ += "null";
}

void JsonWriter::Nested(std::string_view json) {
  BeforeValue();
  for (std::size_t at = 0; at < json.size();) {
    const std::size_t end = std::min(json.find('\n', at), json.size());
    const std::string_view line = json.substr(at, end - at);
    unsafe_ == Unsafe::kEscaped ? AppendShowable(out_, line) : void(out_ += line);
    if (end < json.size()) {
      NewLine();
    }
    at = end + 1;
  }
}

}  // namespace dlc
