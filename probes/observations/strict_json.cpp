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

  std::size_t size() const { return size_ + rest_.size(); }

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

/// Puts values where they belong. Not nlohmann's own builder: for each key of an ordered object it
/// walks all earlier ones to see whether it is there, which KeySet has already told.
class TreeOfValues {
 public:
  explicit TreeOfValues(Json& root) : root_(root) {}

  void Add(Json value) { Place(std::move(value)); }
  void Open(Json empty) { open_.push_back(&Place(std::move(empty))); }
  void Close() { open_.pop_back(); }
  void Key(std::string name) {
    auto& object = open_.back()->get_ref<Json::object_t&>();
    member_ = &object.emplace_back(std::move(name), nullptr).second;
  }

 private:
  Json& Place(Json value) {
    if (open_.empty()) {
      return root_ = std::move(value);
    }
    if (open_.back()->is_array()) {
      auto& array = open_.back()->get_ref<Json::array_t&>();
      array.push_back(std::move(value));
      return array.back();
    }
    return *member_ = std::move(value);
  }

  Json& root_;
  std::vector<Json*> open_;  // a parent does not grow, and so does not move, while a child is open
  Json* member_ = nullptr;   // of the innermost open object: the value of its last key
};

/// Builds the document while watching for what nlohmann's own builder would accept in silence.
class StrictSax : public nlohmann::json_sax<Json> {
 public:
  StrictSax(Json& out, int max_depth) : values_(out), max_depth_(max_depth) {}

  bool null() override { return Value(nullptr); }
  bool boolean(bool value) override { return Value(value); }
  bool number_integer(number_integer_t value) override { return Value(value); }
  bool number_unsigned(number_unsigned_t value) override { return Value(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    return Value(value);
  }
  bool string(string_t& value) override { return Value(std::move(value)); }
  bool binary(binary_t& value) override { return Value(Json::binary(std::move(value))); }

  bool start_object(std::size_t /*count*/) override {
    if (open_objects_ == keys_.size()) {
      keys_.emplace_back();
    }
    keys_[open_objects_++].Clear();
    return Deeper(Json::object());
  }
  bool key(string_t& name) override {
    KeySet& keys = keys_[open_objects_ - 1];
    if (!keys.Insert(name)) {
      problem_ = "duplicate key '" + name + "'";
      return false;
    }
    if (keys.size() > kMaxKeysPerObject) {
      problem_ = "more than " + std::to_string(kMaxKeysPerObject) +
                 " keys in one object, the next is '" + name + "'";
      return false;
    }
    values_.Key(std::move(name));
    return true;
  }
  bool end_object() override {
    --open_objects_;
    return Shallower();
  }
  bool start_array(std::size_t /*count*/) override { return Deeper(Json::array()); }
  bool end_array() override { return Shallower(); }
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
  bool Value(Json value) {
    values_.Add(std::move(value));
    return true;
  }
  bool Deeper(Json empty) {
    if (++depth_ > max_depth_) {
      problem_ = "nested deeper than " + std::to_string(max_depth_) + " levels";
      return false;
    }
    values_.Open(std::move(empty));
    return true;
  }
  bool Shallower() {
    --depth_;
    values_.Close();
    return true;
  }

  TreeOfValues values_;
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
