#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dlc {

struct BadText {
  std::ptrdiff_t offset = 0;
  std::string message;
  std::string hint;
};

/// The first place where `bytes` are no text: not UTF-8 (RFC 3629: no surrogates, no overlong
/// forms), NUL, another control character than tab and line feed, or a carriage return without line
/// feed, which readers count as a line or not.
std::optional<BadText> FindBadText(std::string_view bytes);

}  // namespace dlc
