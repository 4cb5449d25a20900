#include "checks/wording.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

namespace dlc {

std::string NameSome(const std::vector<std::string>& names, std::size_t most) {
  std::string text;
  const std::size_t shown = std::min(names.size(), most);
  for (std::size_t i = 0; i < shown; ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (shown < names.size()) {
    text += " and " + std::to_string(names.size() - shown) + " more";
  }
  return text;
}

std::string Count(std::size_t count, std::string_view noun) {
  const char* ending = count == 1 ? "" : noun.ends_with('s') ? "es" : "s";
  return std::to_string(count) + " " + std::string(noun) + ending;
}

std::string Fixed(double value, int digits) {
  std::array<char, 64> text{};
  const auto [end, failed] = std::to_chars(text.data(), text.data() + text.size(), value,
                                           std::chars_format::fixed, digits);
  return failed == std::errc() ? std::string(text.data(), end) : std::to_string(value);
}

std::string ShortDigest(const Digest& digest) {
  return "sha256:" + digest.hex.substr(0, 12);
}

}  // namespace dlc
