#include "probes/control/registry/challenge.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace dlc {
namespace {

constexpr std::string_view kTokenMarks = "!#$%&'*+-.^_`|~";

std::string Lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

/// A place in the header. Each Read* leaves it where it was when it finds nothing.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  bool AtEnd() const { return at_ == text_.size(); }
  void SkipBlanks() { Skip(" \t"); }
  void SkipBlanksAndCommas() { Skip(" \t,"); }

  bool Take(char c) {
    if (AtEnd() || text_[at_] != c) {
      return false;
    }
    ++at_;
    return true;
  }

  std::string_view ReadToken() {
    return ReadWhile([](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
             kTokenMarks.find(c) != std::string_view::npos;
    });
  }

  /// "=value" after a parameter's name; blanks around the sign are allowed, if bad.
  std::optional<std::string> ReadAssignment() {
    const std::size_t start = at_;
    SkipBlanks();
    if (Take('=')) {
      SkipBlanks();
      if (Take('"')) {
        if (auto text = ReadQuoted()) {
          return text;
        }
      } else if (const auto token = ReadToken(); !token.empty()) {
        return std::string(token);
      }
    }
    at_ = start;
    return std::nullopt;
  }

  /// What Negotiate and NTLM send in place of parameters: "YII=", "a+/b==".
  void SkipToken68() {
    ReadWhile([](char c) { return c != ',' && c != ' ' && c != '\t'; });
  }

 private:
  void Skip(std::string_view which) {
    at_ = std::min(text_.find_first_not_of(which, at_), text_.size());
  }
  template <class Predicate>
  std::string_view ReadWhile(Predicate belongs) {
    const std::size_t start = at_;
    while (!AtEnd() && belongs(text_[at_])) {
      ++at_;
    }
    return text_.substr(start, at_ - start);
  }
  std::optional<std::string> ReadQuoted() {
    std::string value;
    for (; !AtEnd(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        return value;
      }
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        ++at_;
      }
      value += text_[at_];
    }
    return std::nullopt;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string Challenge::Parameter(const std::string& name) const {
  const auto it = parameters.find(name);
  return it == parameters.end() ? std::string() : it->second;
}

std::vector<Challenge> ParseChallenges(std::string_view header) {
  std::vector<Challenge> challenges;
  Cursor cursor(header);
  bool scheme_just_read = false;
  for (cursor.SkipBlanksAndCommas(); !cursor.AtEnd(); cursor.SkipBlanksAndCommas()) {
    const std::string word = Lower(cursor.ReadToken());
    if (word.empty()) {
      break;
    }
    // A word with "=value" is a parameter of the scheme before it; one without starts a scheme.
    if (auto value = cursor.ReadAssignment()) {
      if (challenges.empty()) {
        break;
      }
      challenges.back().parameters.emplace(word, std::move(*value));
      scheme_just_read = false;
    } else if (scheme_just_read && (cursor.Take('=') || cursor.Take('/'))) {
      cursor.SkipToken68();
      scheme_just_read = false;
    } else {
      challenges.push_back({word, {}});
      scheme_just_read = true;
    }
  }
  return challenges;
}

}  // namespace dlc
