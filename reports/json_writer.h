#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace dlc {

/// Writes one JSON document in one pass, without a tree: a report of 30,000 findings is some 30 MB.
/// The bytes are those of nlohmann's dump() of the same tree (invalid UTF-8 becomes U+FFFD by its
/// rule), so that documents written either way can be compared.
class JsonWriter {
 public:
  enum class Unsafe : std::uint8_t {
    kAsIs,
    kEscaped  ///< DEL, C1 controls, bidirectional overrides as \u: same values, safe to show
  };

  /// indent < 0: one line.
  explicit JsonWriter(int indent, Unsafe unsafe = Unsafe::kAsIs)
      : indent_(indent), unsafe_(unsafe) {}

  void BeginObject() { Begin('{'); }
  void EndObject() { End('}'); }
  void BeginArray() { Begin('['); }
  void EndArray() { End(']'); }
  /// Precondition: needs no escape; a value follows.
  void Key(std::string_view key);

  void Text(std::string_view text);
  void Number(std::int64_t number);
  /// NaN and infinities, which JSON does not have, become the texts "NaN", "Infinity", "-Infinity".
  void Number(double number);
  void Bool(bool flag);
  void Null();
  /// A document of its own, written with the same indent.
  void Nested(std::string_view json);

  void Text(std::string_view key, std::string_view text) {
    Key(key);
    Text(text);
  }
  void Number(std::string_view key, std::int64_t number) {
    Key(key);
    Number(number);
  }
  void Texts(std::string_view key, const auto& texts) {
    Key(key);
    BeginArray();
    for (const auto& text : texts) {
      Text(text);
    }
    EndArray();
  }

  void Reserve(std::size_t bytes) { out_.reserve(bytes); }
  std::string Take() { return std::move(out_); }

 private:
  void Begin(char open);
  void End(char close);
  void BeforeValue();
  void NewLine();
  void AppendQuoted(std::string_view text);

  int indent_;
  Unsafe unsafe_;
  std::string out_;
  int depth_ = 0;
  bool empty_ = true;  // the innermost list or object has nothing in it yet
  bool after_key_ = false;
};

}  // namespace dlc
