#pragma once

#include <string>
#include <string_view>

#include "probes/observations/result.h"

namespace dlc {

/// Standard alphabet with padding: the one form that every verifier reads.
std::string EncodeBase64(std::string_view bytes);

/// Standard or URL alphabet, padding required, no white space, unused bits zero: one text for one
/// value of bytes.
Result<std::string> DecodeBase64(std::string_view text);

}  // namespace dlc
