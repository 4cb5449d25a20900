#pragma once

#include <cstddef>
#include <string>

#include "probes/observations/result.h"

namespace dlc {

/// The bytes of a regular file; symbolic links are followed, pipes and devices refused. Errors name
/// the path: kNotFound, kPermissionDenied, kInvalidInput (longer than `max_bytes`, not a regular
/// file), kUnavailable.
Result<std::string> ReadBoundedFile(const std::string& path, std::size_t max_bytes);

}  // namespace dlc
