#include "probes/observations/strict_json.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dlc {
namespace {

using Json = nlohmann::ordered_json;

/// The keys of one object. Nearly all objects have few, and there are hundreds of thousands of
/// them: a short list whose strings keep their memory is searched in order, and only a large object
/// gets a set.
class KeySet {
 public:
  void Clear() {
    size_ = 0;
    rest_.clear();
  }

  /// False when `key` is there already.
  bool Insert(const std::string& key) {
    const auto end = few_.begin() + static_cast<std::ptrdiff_t>(size_);
    if (std::find(few_.begin(), end, key) != end) {
      return false;
    }
    if (size_ < kFew) {
      if (size_ == few_.size()) {
        few_.emplace_back();
      }
      few_[size_++] = key;
      return true;
    }
    return rest_.insert(key).second;
  }

 private:
  static constexpr std::size_t kFew = 32;
  std::vector<std::string> few_;
  std::size_t size_ = 0;
  std::set<std::string> rest_;
};

/// Builds the document through nlohmann's own DOM builder while watching for what it would accept
/// in silence.
class StrictSax : public nlohmann::json_sax<Json> {
 public:
  StrictSax(Json& out, int max_depth) : builder_(out, false), max_depth_(max_depth) {}

  bool null() override { return builder_.null(); }
  bool boolean(bool value) override { return builder_.boolean(value); }
  bool number_integer(number_integer_t value) override { return builder_.number_integer(value); }
  bool number_unsigned(number_unsigned_t value) override { return builder_.number_unsigned(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    return builder_.number_float(value, text);
  }
  bool string(string_t& value) override { return builder_.string(value); }
  bool binary(binary_t& value) override { return builder_.binary(value); }

  bool start_object(std::size_t count) override {
    if (open_objects_ == keys_.size()) {
      keys_.emplace_back();
    }
    keys_[open_objects_++].Clear();
    return Deeper() && builder_.start_object(count);
  }
  bool key(string_t& name) override {
    if (!keys_[open_objects_ - 1].Insert(name)) {
      problem_ = "duplicate key '" + name + "'";
      return false;
    }
    return builder_.key(name);
  }
  bool end_object() override {
    --open_objects_;
    --depth_;
    return builder_.end_object();
  }
  bool start_array(std::size_t count) override { return Deeper() && builder_.start_array(count); }
  bool end_array() override {
    --depth_;
    return builder_.end_array();
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& e) override {
    // nlohmann's text is "[json.exception.parse_error.101] parse error at line 1, column 2: ...";
    // keep what follows "] ".
    const std::string text = e.what();
    const auto bracket = text.find("] ");
    problem_ = bracket == std::string::npos ? text : text.substr(bracket + 2);
    if (problem_.empty()) {
      problem_ = "byte " + std::to_string(position) + ": unexpected '" + token + "'";
    }
    return false;
  }

  const std::string& problem() const { return problem_; }

 private:
  bool Deeper() {
    if (++depth_ > max_depth_) {
      problem_ = "nested deeper than " + std::to_string(max_depth_) + " levels";
      return false;
    }
    return true;
  }

  nlohmann::detail::json_sax_dom_parser<Json> builder_;
  std::vector<KeySet> keys_;  // of the open objects; never shrinks
  std::size_t open_objects_ = 0;
  int max_depth_;
  int depth_ = 0;
  std::string problem_;
};

}  // namespace

Result<nlohmann::ordered_json> ParseStrictJson(std::string_view bytes, const JsonLimits& limits) {
  if (bytes.size() > limits.max_bytes) {
    return Error{ErrorCode::kInvalidInput,
                 "JSON of " + std::to_string(bytes.size()) + " bytes is over the limit of " +
                     std::to_string(limits.max_bytes),
                 ""};
  }
  Json document;
  StrictSax sax(document, limits.max_depth);
  // nlohmann's lexer skips a UTF-8 byte order mark; RFC 8259 forbids writers to add one, and other
  // readers refuse it.
  if (bytes.starts_with("\xEF\xBB\xBF")) {
    return Error{ErrorCode::kInvalidInput, "JSON starts with a byte order mark", ""};
  }
  // Not Json::sax_parse: that brings the binary formats along, and with them libm into dlc-probe.
  const auto input = nlohmann::detail::input_adapter(bytes.begin(), bytes.end());
  nlohmann::detail::parser<Json, std::remove_const_t<decltype(input)>> parser(
      std::remove_const_t<decltype(input)>{input});
  if (!parser.sax_parse(&sax, true)) {
    return Error{ErrorCode::kInvalidInput, sax.problem().empty() ? "malformed JSON" : sax.problem(),
                 ""};
  }
  return document;
}

}  // namespace dlc
