#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dlc {

/// RFC 4648, section 4, with padding.
std::string Base64Encode(std::string_view bytes);

/// Nothing when the text is not exactly that.
std::optional<std::string> Base64Decode(std::string_view text);

}  // namespace dlc
