#pragma once

#include <string>
#include <string_view>

#include "probes/observations/digest.h"
#include "probes/observations/result.h"

namespace dlc {

/// sha256 of the bytes; never empty. Aborts if OpenSSL has no sha256: an empty digest would compare
/// equal to another one.
Digest Sha256Of(std::string_view bytes);

/// sha256 of a file of any size, read to its end a MiB at a time. Errors name the path:
/// kUnavailable where it cannot be opened or read. A pipe is waited for without a deadline.
Result<Digest> Sha256OfFile(const std::string& path);

}  // namespace dlc
