#include "checks/version_specifier.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <compare>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

namespace dlc {
namespace {

using Number = std::int64_t;
constexpr Number kLowest = std::numeric_limits<Number>::min();
constexpr Number kHighest = std::numeric_limits<Number>::max();

/// PEP 440, "Summary of permitted suffixes and relative ordering". Absent parts sort as the PEP
/// says: no pre-release above any, no post-release below any, no dev release above any.
struct Version {
  Number epoch = 0;
  std::vector<Number> release;
  std::pair<int, Number> pre = {3, 0};  // a 0, b 1, rc 2, none 3
  Number post = kLowest;
  Number dev = kHighest;
  std::vector<std::pair<Number, std::string>> local;  // numbers sort above text: {-1, text}

  bool HasPre() const { return pre.first < 3; }
  bool IsPreRelease() const { return HasPre() || dev != kHighest; }
  bool IsPostRelease() const { return post != kLowest; }
};

std::string_view Trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string Lower(std::string_view text) {
  std::string low(text);
  std::transform(low.begin(), low.end(), low.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return low;
}

/// Takes the parts of a version from the front of lower-case text.
class VersionReader {
 public:
  explicit VersionReader(std::string_view text) : rest_(text) {}

  std::optional<Version> Read() {
    Version version;
    Take("v");
    const auto first = TakeNumber();
    if (!first) {
      return std::nullopt;
    }
    version.release.push_back(*first);
    if (Take("!")) {
      version.epoch = *first;
      const auto second = TakeNumber();
      if (!second) {
        return std::nullopt;
      }
      version.release.front() = *second;
    }
    ReadRelease(version);
    ReadPre(version);
    ReadPost(version);
    ReadDev(version);
    if (Take("+") && !ReadLocal(version)) {
      return std::nullopt;
    }
    return rest_.empty() ? std::optional(std::move(version)) : std::nullopt;
  }

 private:
  bool Take(std::string_view word) {
    if (!rest_.starts_with(word)) {
      return false;
    }
    rest_.remove_prefix(word.size());
    return true;
  }

  std::optional<Number> TakeNumber() {
    Number number = 0;
    const char* begin = rest_.data();
    const auto [end, status] = std::from_chars(begin, begin + rest_.size(), number);
    if (status != std::errc() || rest_.front() == '-') {
      return std::nullopt;
    }
    rest_.remove_prefix(static_cast<std::size_t>(end - begin));
    return number;
  }

  void TakeSeparator() {
    if (!rest_.empty() && std::string_view("-_.").find(rest_.front()) != std::string_view::npos) {
      rest_.remove_prefix(1);
    }
  }

  /// A separator, one of `words`, a separator, a number (0 when absent); takes nothing otherwise.
  template <std::size_t N>
  std::optional<std::pair<std::string_view, Number>> TakeTagged(
      const std::array<std::string_view, N>& words) {
    const std::string_view before = rest_;
    TakeSeparator();
    for (const std::string_view word : words) {
      if (Take(word)) {
        const std::string_view after = rest_;
        TakeSeparator();
        const auto number = TakeNumber();
        if (!number) {
          rest_ = after;
        }
        return std::pair{word, number.value_or(0)};
      }
    }
    rest_ = before;
    return std::nullopt;
  }

  void ReadRelease(Version& version) {
    while (rest_.size() > 1 && rest_[0] == '.' && rest_[1] >= '0' && rest_[1] <= '9') {
      Take(".");
      version.release.push_back(TakeNumber().value_or(kHighest));
    }
  }

  void ReadPre(Version& version) {
    // Longer words first.
    static constexpr std::array<std::string_view, 8> kWords = {"alpha", "beta", "preview", "pre",
                                                               "rc",    "a",    "b",       "c"};
    if (const auto tagged = TakeTagged(kWords)) {
      const char letter = tagged->first.front();
      version.pre = {letter == 'a' ? 0 : letter == 'b' ? 1 : 2, tagged->second};
    }
  }

  void ReadPost(Version& version) {
    static constexpr std::array<std::string_view, 3> kWords = {"post", "rev", "r"};
    if (const auto tagged = TakeTagged(kWords)) {
      version.post = tagged->second;
    } else if (rest_.size() > 1 && rest_[0] == '-' && rest_[1] >= '0' && rest_[1] <= '9') {
      Take("-");  // "1.0-1" is 1.0.post1
      version.post = TakeNumber().value_or(kHighest);
    }
  }

  void ReadDev(Version& version) {
    static constexpr std::array<std::string_view, 1> kWords = {"dev"};
    if (const auto tagged = TakeTagged(kWords)) {
      version.dev = tagged->second;
    }
  }

  bool ReadLocal(Version& version) {
    while (!rest_.empty()) {
      const auto end = std::min(rest_.find_first_of("-_."), rest_.size());
      const std::string_view part = rest_.substr(0, end);
      if (part.empty()) {
        return false;
      }
      Number number = 0;
      const auto [stop, status] = std::from_chars(part.data(), part.data() + part.size(), number);
      if (status == std::errc() && stop == part.data() + part.size()) {
        version.local.emplace_back(number, "");
      } else {
        version.local.emplace_back(-1, std::string(part));
      }
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
    }
    return !version.local.empty();
  }

  std::string_view rest_;
};

std::optional<Version> ParseVersion(std::string_view text) {
  const std::string low = Lower(Trim(text));
  return VersionReader(low).Read();
}

/// Trailing zeros do not count: 1.0 equals 1.0.0.
std::vector<Number> Significant(std::vector<Number> release) {
  while (release.size() > 1 && release.back() == 0) {
    release.pop_back();
  }
  return release;
}

std::strong_ordering ComparePublic(const Version& a, const Version& b) {
  const auto key = [](const Version& v) {
    // 1.0.dev1 sorts below 1.0a1: a dev release of the final version is below its pre-releases.
    const bool dev_of_final = !v.HasPre() && !v.IsPostRelease() && v.dev != kHighest;
    const auto pre = dev_of_final ? std::pair{-1, Number{0}} : v.pre;
    return std::tuple{v.epoch, Significant(v.release), pre, v.post, v.dev};
  };
  return key(a) <=> key(b);
}

bool SameBase(const Version& a, const Version& b) {
  return a.epoch == b.epoch && Significant(a.release) == Significant(b.release);
}

bool HasPrefix(const Version& version, const Version& prefix) {
  if (version.epoch != prefix.epoch) {
    return false;
  }
  for (std::size_t i = 0; i < prefix.release.size(); ++i) {
    if ((i < version.release.size() ? version.release[i] : 0) != prefix.release[i]) {
      return false;
    }
  }
  return true;
}

bool Matches(const Version& version, const Version& wanted) {
  return std::is_eq(ComparePublic(version, wanted)) &&
         (wanted.local.empty() || version.local == wanted.local);
}

std::optional<bool> Compatible(const Version& version, Version wanted) {
  if (wanted.release.size() < 2) {
    return std::nullopt;  // PEP 440 forbids ~=2
  }
  const bool enough = std::is_gteq(ComparePublic(version, wanted));
  wanted.release.pop_back();
  return enough && HasPrefix(version, wanted);
}

bool Above(const Version& version, const Version& wanted) {
  // ">1.0" admits neither 1.0.post1 nor 1.0+local, unless it names a post-release itself.
  const bool post = version.IsPostRelease() && !wanted.IsPostRelease();
  const bool excluded = SameBase(version, wanted) && (post || !version.local.empty());
  return std::is_gt(ComparePublic(version, wanted)) && !excluded;
}

bool Below(const Version& version, const Version& wanted) {
  // "<1.0" does not admit 1.0rc1, unless it names a pre-release itself.
  const bool excluded =
      SameBase(version, wanted) && version.IsPreRelease() && !wanted.IsPreRelease();
  return std::is_lt(ComparePublic(version, wanted)) && !excluded;
}

std::optional<bool> Equals(const Version& version, std::string_view wanted_text, bool prefix) {
  if (prefix) {
    const auto wanted = ParseVersion(wanted_text);
    const bool plain =
        wanted && !wanted->IsPreRelease() && !wanted->IsPostRelease() && wanted->local.empty();
    return plain ? std::optional(HasPrefix(version, *wanted)) : std::nullopt;
  }
  const auto wanted = ParseVersion(wanted_text);
  return wanted ? std::optional(Matches(version, *wanted)) : std::nullopt;
}

std::optional<bool> ClauseAdmits(std::string_view clause, const Version& version,
                                 std::string_view version_text) {
  // Longest first.
  static constexpr std::array<std::string_view, 9> kOperators = {
      "===", "==", "!=", "~=", ">=", "<=", ">", "<", "="};
  const auto op = std::find_if(kOperators.begin(), kOperators.end(),
                               [&](std::string_view word) { return clause.starts_with(word); });
  if (op == kOperators.end()) {
    return std::nullopt;
  }
  std::string_view text = Trim(clause.substr(op->size()));
  if (*op == "===") {
    return Lower(text) == Lower(Trim(version_text));
  }
  const bool wildcard = text.ends_with(".*");
  if (wildcard) {
    text.remove_suffix(2);
  }
  if (*op == "==" || *op == "=") {
    return Equals(version, text, wildcard || *op == "=");
  }
  if (*op == "!=") {
    const auto equal = Equals(version, text, wildcard);
    return equal ? std::optional(!*equal) : std::nullopt;
  }
  const auto wanted = ParseVersion(text);
  if (!wanted || wildcard) {
    return std::nullopt;
  }
  if (*op == "~=") {
    return Compatible(version, *wanted);
  }
  if (*op == ">=") {
    return std::is_gteq(ComparePublic(version, *wanted));
  }
  if (*op == "<=") {
    return std::is_lteq(ComparePublic(version, *wanted));
  }
  return *op == ">" ? Above(version, *wanted) : Below(version, *wanted);
}

std::string_view WithoutParentheses(std::string_view text) {
  text = Trim(text);
  if (text.starts_with('(') && text.ends_with(')')) {
    text = Trim(text.substr(1, text.size() - 2));
  }
  return text;
}

}  // namespace

std::optional<bool> SpecifierAdmits(std::string_view specifier, std::string_view version) {
  const auto installed = ParseVersion(version);
  if (!installed) {
    return std::nullopt;
  }
  std::string_view rest = WithoutParentheses(specifier);
  bool admits = true;
  while (!rest.empty()) {
    const auto comma = std::min(rest.find(','), rest.size());
    const std::string_view clause = Trim(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (clause.empty()) {
      continue;  // a trailing comma is allowed
    }
    const auto one = ClauseAdmits(clause, *installed, version);
    if (!one) {
      return std::nullopt;
    }
    admits = admits && *one;
  }
  return admits;
}

std::string PinnedVersion(std::string_view specifier) {
  const std::string_view text = WithoutParentheses(specifier);
  const bool pinned = text.starts_with("==") && !text.starts_with("===") &&
                      text.find_first_of(",*") == std::string_view::npos;
  return pinned ? std::string(Trim(text.substr(2))) : std::string();
}

}  // namespace dlc
