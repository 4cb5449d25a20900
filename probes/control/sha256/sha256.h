#pragma once

#include <string_view>

#include "probes/observations/digest.h"

namespace dlc {

/// sha256 of the bytes; never empty. Aborts if OpenSSL has no sha256: an empty digest would compare
/// equal to another one.
Digest Sha256Of(std::string_view bytes);

}  // namespace dlc
