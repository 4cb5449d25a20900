#include "probes/control/files/secret_text.h"

#include <algorithm>
#include <array>
#include <optional>

namespace dlc {
namespace {

constexpr std::array kParts = {"TOKEN", "SECRET", "PASSWORD", "KEY", "CREDENTIAL"};
constexpr std::array kWords = {"auth",        "authorization", "bearer",    "credential",
                               "credentials", "key",           "keys",      "pass",
                               "passphrase",  "passwd",        "passwords", "pwd",
                               "secret",      "secrets",       "signature", "token"};
constexpr std::array kEndings = {"token", "secret", "password", "passwd", "key"};
constexpr std::string_view kBlanks = " \t\r\n";

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
bool IsUpper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool IsLower(char c) {
  return c >= 'a' && c <= 'z';
}
bool IsNameCharacter(char c) {
  return IsUpper(c) || IsLower(c) || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}
bool IsBlank(char c) {
  return kBlanks.find(c) != std::string_view::npos;
}
bool IsQuote(char c) {
  return c == '"' || c == '\'';
}

std::string Lowered(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), Lower);
  return lower;
}

bool IsSecretWord(const std::string& word) {
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end() ||
         std::any_of(kEndings.begin(), kEndings.end(),
                     [&](const char* ending) { return word.ends_with(ending); });
}

/// "$NAME", "${NAME}" or "$(NAME)": says where the secret is, and not what.
bool IsReference(std::string_view text) {
  if (!text.starts_with('$')) {
    return false;
  }
  text.remove_prefix(1);
  if ((text.starts_with('{') && text.ends_with('}')) ||
      (text.starts_with('(') && text.ends_with(')'))) {  // a shell's, Kubernetes'
    text = text.substr(1, text.size() - 2);
  }
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return IsNameCharacter(c) && c != '.' && c != '-';
  });
}

/// Credentials of HTTP have a word in front.
bool IsScheme(std::string_view text) {
  const std::string lower = Lowered(text);
  return lower == "bearer" || lower == "basic" || lower == "token";
}

/// Reads a text from left to right, and leaves the values of secret names out.
class SecretScan {
 public:
  explicit SecretScan(std::string_view text) : text_(text) {}

  std::string Run() {
    while (at_ < text_.size()) {
      if (IsNameCharacter(text_[at_])) {
        Name();
      } else {
        Other();
      }
    }
    return std::move(clean_);
  }

 private:
  struct Extent {
    std::size_t begin;
    std::size_t end;
  };

  char Char(std::size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  std::string_view Part(const Extent& part) const {
    return text_.substr(part.begin, part.end - part.begin);
  }

  void Other() {
    const std::size_t width = text_[at_] == '\\' && at_ + 1 < text_.size() ? 2 : 1;
    quote_ = QuoteAt(at_, at_ + width);
    clean_.append(text_.substr(at_, width));
    at_ += width;
  }

  /// The quote that `to` is in, when `from` is in quote_.
  char QuoteAt(std::size_t from, std::size_t to) const {
    char quote = quote_;
    for (std::size_t at = from; at < to; ++at) {
      const char c = text_[at];
      if (c == '\\') {
        ++at;
      } else if (IsQuote(c) && (quote == '\0' || quote == c)) {
        quote = quote == c ? '\0' : c;
      }
    }
    return quote;
  }

  void Name() {
    std::size_t end = at_;
    while (end < text_.size() && IsNameCharacter(text_[end])) {
      ++end;
    }
    const std::string_view name = text_.substr(at_, end - at_);
    const auto value = ValueOf(name, end);
    clean_.append(text_.substr(at_, (value ? value->begin : end) - at_));
    at_ = end;
    if (value) {
      quote_ = QuoteAt(end, value->begin);
      clean_.append(kRedacted);
      at_ = value->end;
    }
  }

  /// Of the name that ends at `end`, if it is a secret one's.
  std::optional<Extent> ValueOf(std::string_view name, std::size_t end) const {
    const bool user = name == "-u" || name == "--user";  // curl's, NAME:PASSWORD
    if (!user && !NamesSecret(name)) {
      return std::nullopt;
    }
    auto value = Assigned(end);
    if (!value) {
      value = Keyed(name, end);
    }
    if (!value && (name.starts_with('-') || Lowered(name) == "bearer")) {
      value = NextWord(end);
    }
    if (!value || value->begin == value->end) {
      return std::nullopt;
    }
    const std::string_view text = Part(*value);
    const bool kept = IsReference(text) || text.find(kRedacted) != std::string_view::npos ||
                      (user && text.find(':') == std::string_view::npos);
    return kept ? std::nullopt : value;
  }

  /// NAME=value.
  std::optional<Extent> Assigned(std::size_t end) const {
    return Char(end) == '=' ? std::optional(Word(end + 1, "", quote_)) : std::nullopt;
  }

  /// "NAME": "value", NAME: value, and "--name", "value" of a list.
  std::optional<Extent> Keyed(std::string_view name, std::size_t end) const {
    std::size_t at = end;
    while (Char(at) == '\\') {
      ++at;
    }
    at += IsQuote(Char(at)) ? 1 : 0;
    const bool quoted = at > end;
    at = AfterBlanks(at);
    const bool list = quoted && Char(at) == ',' && name.starts_with('-');
    if (Char(at) != ':' && !list) {
      return std::nullopt;
    }
    const std::size_t begin = AfterBlanks(at + 1);
    if (begin == at + 1 && !IsQuote(Char(begin)) && Char(begin) != '\\') {
      return std::nullopt;  // "image:tag"
    }
    const char outer = QuoteAt(end, begin);
    const Extent value = Word(begin, ",}]", outer);
    if (IsScheme(Part(value)) && IsBlank(Char(value.end))) {
      return Word(AfterBlanks(value.end), ",}]", outer);
    }
    return value;
  }

  std::optional<Extent> NextWord(std::size_t end) const {
    const std::size_t begin = AfterBlanks(end);
    if (begin == end || Char(begin) == '-') {
      return std::nullopt;  // the next option
    }
    return Word(begin, "", quote_);
  }

  /// Also behind a line that goes on.
  std::size_t AfterBlanks(std::size_t at) const {
    while (IsBlank(Char(at)) || (Char(at) == '\\' && Char(at + 1) == '\n')) {
      ++at;
    }
    return at;
  }

  /// A word as a shell cuts it, without the quotes around all of it; `stops` end it too, and the
  /// quote `outer` that it stands in.
  Extent Word(std::size_t begin, std::string_view stops, char outer) const {
    std::size_t opening = begin;
    while (Char(opening) == '\\') {
      ++opening;
    }
    const char quote = Char(opening);
    if (!IsQuote(quote) || (quote == outer && opening == begin)) {
      return {begin, EndOfWord(begin, stops, outer)};
    }
    const std::string_view mark = text_.substr(begin, opening + 1 - begin);
    const std::size_t close = Closing(mark, opening + 1);
    if (close == std::string_view::npos) {
      return {begin, EndOfWord(opening + 1, stops, outer)};
    }
    const std::size_t end = EndOfWord(close + mark.size(), stops, outer);
    return end == close + mark.size() ? Extent{opening + 1, close} : Extent{begin, end};
  }

  std::size_t Closing(std::string_view mark, std::size_t from) const {
    std::size_t close = text_.find(mark, from);
    while (close != std::string_view::npos && close > from && text_[close - 1] == '\\') {
      close = text_.find(mark, close + 1);
    }
    return close;
  }

  std::size_t EndOfWord(std::size_t at, std::string_view stops, char outer) const {
    while (at < text_.size() && !IsBlank(text_[at])) {
      const char c = text_[at];
      if ((IsQuote(c) && (c == outer || !stops.empty())) ||
          stops.find(c) != std::string_view::npos || c == ';' || c == '&' || c == '|') {
        break;
      }
      const std::size_t close =
          IsQuote(c) ? text_.find(c, at + 1) : std::string_view::npos;  // a quoted part
      at = close == std::string_view::npos ? at + (c == '\\' ? 2 : 1) : close + 1;
    }
    return std::min(at, text_.size());
  }

  std::string_view text_;
  std::size_t at_ = 0;
  char quote_ = '\0';  ///< that all around `at_` is in
  std::string clean_;
};

}  // namespace

bool LooksSecret(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](char c) { return IsLower(c) ? static_cast<char>(c - 'a' + 'A') : c; });
  return std::any_of(kParts.begin(), kParts.end(),
                     [&](const char* part) { return upper.find(part) != std::string::npos; });
}

bool NamesSecret(std::string_view name) {
  if (std::none_of(name.begin(), name.end(), IsLower)) {
    return LooksSecret(name);
  }
  std::string word;
  for (std::size_t i = 0; i <= name.size(); ++i) {
    const char c = i < name.size() ? name[i] : '-';
    const bool divides = c == '-' || c == '_' || c == '.';
    const bool hump = IsUpper(c) && i > 0 && IsLower(name[i - 1]);
    if ((divides || hump) && IsSecretWord(word)) {
      return true;
    }
    if (divides || hump) {
      word.clear();
    }
    if (!divides) {
      word.push_back(Lower(c));
    }
  }
  return false;
}

std::string WithoutUrlCredentials(std::string_view text) {
  std::string clean;
  while (true) {
    const auto scheme = text.find("://");
    if (scheme == std::string_view::npos) {
      return clean.append(text);
    }
    const auto start = scheme + 3;
    const auto end = std::min(text.find_first_of("/?# \t\r\n\"'", start), text.size());
    const auto at = text.substr(start, end - start).rfind('@');
    clean.append(text.substr(0, start));
    if (at != std::string_view::npos) {
      clean.append(kRedacted);
      clean.append(text.substr(start + at, end - start - at));
    } else {
      clean.append(text.substr(start, end - start));
    }
    text.remove_prefix(end);
    const auto rest = std::min(text.find_first_of("# \t\r\n\"'"), text.size());
    if (const auto query = text.substr(0, rest).find('?');
        query != std::string_view::npos && query + 1 < rest) {
      clean.append(text.substr(0, query + 1));
      clean.append(kRedacted);
      text.remove_prefix(rest);
    }
  }
}

std::string WithoutSecrets(std::string_view text) {
  const std::string clean = WithoutUrlCredentials(text);
  return SecretScan(clean).Run();
}

void RemoveSecrets(std::vector<std::string>& command, std::vector<std::string>& args) {
  bool value_next = false;
  for (std::vector<std::string>* list : {&command, &args}) {
    for (std::string& argument : *list) {
      const bool option = argument.starts_with('-');
      if (value_next && !option) {
        value_next = false;
        argument = IsReference(argument) ? argument : std::string(kRedacted);
        continue;
      }
      const bool bare = std::all_of(argument.begin(), argument.end(), IsNameCharacter);
      value_next = option && bare && NamesSecret(argument);
      argument = WithoutSecrets(argument);
    }
  }
}

}  // namespace dlc
