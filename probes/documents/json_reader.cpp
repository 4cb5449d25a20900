#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "probes/documents/readers.h"

namespace dlc {
namespace {

/// Tells where nlohmann's lexer, which copies its iterators, has read to.
class TrackingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackingIterator(const char* at, const char** last_read) : at_(at), last_read_(last_read) {}
  reference operator*() const { return *at_; }
  TrackingIterator& operator++() {
    *last_read_ = at_++;
    return *this;
  }
  bool operator==(const TrackingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const TrackingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** last_read_;
};

/// "[json.exception.parse_error.101] parse error at line 3, column 5: syntax error while parsing
/// object - unexpected '}'; last read: '...'" -> "unexpected '}'".
std::string CleanMessage(std::string text) {
  if (const auto id = text.find("] "); id != std::string::npos) {
    text.erase(0, id + 2);
  }
  if (const auto context = text.find(" - ");
      text.starts_with("parse error at") && context != std::string::npos) {
    text.erase(0, context + 3);
  }
  if (const auto tail = text.find("; last read: "); tail != std::string::npos) {
    text.erase(tail, text.find("; ", tail + 2) - tail);
  }
  return text;
}

class SaxHandler {
 public:
  SaxHandler(std::string_view bytes, TreeBuilder& builder)
      : builder_(builder), last_read_(bytes.data()), counted_(bytes.data()) {}

  const char** last_read() { return &last_read_; }

  bool null() { return builder_.Null(Here()); }
  bool boolean(bool value) { return builder_.Scalar(value ? "true" : "false", true, Here()); }
  bool number_integer(std::int64_t value) {
    return builder_.Scalar(std::to_string(value), true, Here());
  }
  bool number_unsigned(std::uint64_t value) {
    return builder_.Scalar(std::to_string(value), true, Here());
  }
  bool number_float(double /*value*/, const std::string& text) {
    return builder_.Scalar(text, true, Here());
  }
  bool string(std::string& value) { return builder_.Scalar(std::move(value), false, Here()); }
  bool binary(nlohmann::json::binary_t& /*value*/) { return false; }
  bool start_object(std::size_t /*size*/) { return builder_.Open(DocNode::Kind::kMap, Here()); }
  bool key(std::string& value) { return builder_.Key(std::move(value), Here()); }
  bool end_object() { return builder_.Close(); }
  bool start_array(std::size_t /*size*/) { return builder_.Open(DocNode::Kind::kSequence, Here()); }
  bool end_array() { return builder_.Close(); }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& e) {
    return builder_.Fail({Here().line, CleanMessage(e.what()), "", true});
  }

 private:
  /// The line of the last byte read. A number is known to have ended by the byte after it: a line
  /// break there belongs to the number's line.
  TreeBuilder::Place Here() {
    line_ += static_cast<int>(std::count(counted_, last_read_, '\n'));
    counted_ = last_read_;
    return {line_, 0};
  }

  TreeBuilder& builder_;
  const char* last_read_;
  const char* counted_;
  int line_ = 1;
};

}  // namespace

void ReadJson(std::string_view bytes, TreeBuilder& builder) {
  SaxHandler handler(bytes, builder);
  const TrackingIterator begin(bytes.data(), handler.last_read());
  const TrackingIterator end(bytes.data() + bytes.size(), handler.last_read());
  // Reports through parse_error instead of throwing.
  if (!nlohmann::json::sax_parse(begin, end, &handler)) {
    builder.Fail({0, "malformed JSON", "", true});
  }
}

}  // namespace dlc
