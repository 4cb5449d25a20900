#include "checks/wording.h"

#include <algorithm>

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
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string ShortDigest(const Digest& digest) {
  return "sha256:" + digest.hex.substr(0, 12);
}

}  // namespace dlc
