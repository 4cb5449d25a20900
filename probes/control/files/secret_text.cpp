#include "probes/control/files/secret_text.h"

#include <algorithm>
#include <array>

namespace dlc {
namespace {

constexpr std::array kWords = {"TOKEN", "SECRET", "PASSWORD", "KEY", "CREDENTIAL"};

}  // namespace

bool LooksSecret(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](const char* word) { return upper.find(word) != std::string::npos; });
}

std::string WithoutUrlCredentials(std::string_view text) {
  std::string clean;
  while (true) {
    const auto scheme = text.find("://");
    if (scheme == std::string_view::npos) {
      return clean.append(text);
    }
    const auto start = scheme + 3;
    const auto end = std::min(text.find_first_of("/?# \t\"'", start), text.size());
    const auto at = text.substr(start, end - start).rfind('@');
    clean.append(text.substr(0, start));
    if (at != std::string_view::npos) {
      clean.append(kRedacted);
      clean.append(text.substr(start + at, end - start - at));
    } else {
      clean.append(text.substr(start, end - start));
    }
    text.remove_prefix(end);
  }
}

}  // namespace dlc
