#include "probes/documents/node.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace dlc {
namespace {

constexpr std::size_t kQuotedLength = 60;
constexpr std::size_t kLongestName = 100;  // the edit distance takes quadratic time

Error MustBe(std::string_view what, const DocNode& node, std::string hint) {
  return Error{ErrorCode::kInvalidInput,
               "must be " + std::string(what) + ", not " + node.Describe(), std::move(hint)};
}

bool IsDigits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view WithoutMinus(std::string_view text) {
  return text.starts_with('-') ? text.substr(1) : text;
}

/// What YAML 1.1 readers take for another number than YAML 1.2 readers, or only one of them for a
/// number.
bool LooksOctalOrHex(std::string_view text) {
  const std::string_view digits = WithoutMinus(text);
  return digits.size() > 1 && digits.front() == '0' && digits[1] != '.' && digits[1] != 'e' &&
         digits[1] != 'E';
}

std::string NumberHint(const DocNode& node) {
  if (node.IsScalar() && !node.plain) {
    return "remove the quotes";
  }
  if (node.IsScalar() && LooksOctalOrHex(node.text)) {
    return "write it in decimal, without leading zeros";
  }
  return "";
}

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

/// Optimal string alignment distance: insert, delete, replace or swap neighbours, each once per
/// place.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last;
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

const DocNode* DocNode::Find(std::string_view key) const {
  const auto* it = std::find_if(entries.begin(), entries.end(),
                                [&](const Entry& entry) { return entry.key == key; });
  return it == entries.end() ? nullptr : &it->value;
}

const DocNode* DocNode::Find(std::initializer_list<std::string_view> path) const {
  const DocNode* node = this;
  for (const std::string_view key : path) {
    node = node->Find(key);
    if (node == nullptr) {
      return nullptr;
    }
  }
  return node;
}

std::string DocNode::TextOf(std::string_view key) const {
  const DocNode* node = Find(key);
  return node != nullptr && node->IsScalar() ? node->text : std::string();
}

std::string DocNode::Describe() const {
  switch (kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kSequence:
      return "a list";
    case Kind::kMap:
      return "a map";
    case Kind::kScalar:
      break;
  }
  if (text.size() <= kQuotedLength) {
    return "'" + text + "'";
  }
  std::size_t end = kQuotedLength;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    --end;  // not inside a UTF-8 sequence
  }
  return "'" + text.substr(0, end) + "...'";
}

Result<bool> DocNode::AsBool() const {
  if (IsScalar() && plain && IsOneOf(text, {"true", "True", "TRUE"})) {
    return true;
  }
  if (IsScalar() && plain && IsOneOf(text, {"false", "False", "FALSE"})) {
    return false;
  }
  std::string hint;
  if (IsScalar()) {
    const std::string lower = Lower(text);
    if (IsOneOf(lower, {"yes", "on", "y"})) {
      hint = "write true";
    } else if (IsOneOf(lower, {"no", "off", "n"})) {
      hint = "write false";
    } else if (IsOneOf(lower, {"true", "false"})) {
      hint = plain ? "write it in lower case" : "remove the quotes";
    }
  }
  return MustBe("true or false", *this, hint);
}

Result<std::int64_t> DocNode::AsInt() const {
  if (!IsScalar() || !plain || !IsDigits(WithoutMinus(text)) || LooksOctalOrHex(text)) {
    return MustBe("a whole number", *this, NumberHint(*this));
  }
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) {
    return MustBe("a whole number of 64 bits", *this, "");
  }
  return value;
}

Result<double> DocNode::AsDouble() const {
  // from_chars also reads "inf" and "nan"; a limit is neither.
  const bool shaped = IsScalar() && plain && !text.empty() && !LooksOctalOrHex(text) &&
                      text.find_first_not_of("0123456789+-.eE") == std::string::npos;
  double value = 0;
  if (shaped) {
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code == std::errc{} && end == text.data() + text.size()) {
      return value;
    }
    if (code == std::errc::result_out_of_range) {
      return MustBe("a number that a double can hold", *this, "");
    }
  }
  return MustBe("a number", *this, NumberHint(*this));
}

Error DocumentError(const std::string& file, int line, const std::string& message,
                    std::string hint) {
  const std::string place = line > 0 ? file + ": line " + std::to_string(line) + ": " : file + ": ";
  return Error{ErrorCode::kInvalidInput, place + message, std::move(hint)};
}

std::string NearestName(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.size() > kLongestName) {
    return "";
  }
  const std::string lower = Lower(word);
  std::size_t limit = word.size() < 3 ? 0 : std::max<std::size_t>(1, word.size() / 3);
  std::string nearest;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > word.size() + limit || candidate.size() + limit < word.size()) {
      continue;
    }
    const std::size_t distance = EditDistance(lower, Lower(candidate));
    if (distance < limit || (distance == limit && nearest.empty())) {
      nearest = candidate;
      limit = distance;
    }
  }
  return nearest;
}

}  // namespace dlc
