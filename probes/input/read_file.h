#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "probes/observations/result.h"

namespace dlc {

/// What to make of a pipe where a file is named.
enum class PipeInput : std::uint8_t {
  kAwait,   ///< read to its end, waited for under timeouts::kInputPipe: `<(kubectl get ...)`
  kRefuse,  ///< a part of a directory that tools wrote: a pipe there is a mistake
};

/// The whole file as bytes, bounded: never reads more than `max_bytes` + 1. Symbolic links are
/// followed. Errors name the path: kNotFound; kPermissionDenied; kTimedOut (a pipe that nobody
/// writes to); kInvalidInput for a directory, a device or a file over `max_bytes`; kUnavailable
/// where the system cannot read it.
Result<std::string> ReadFileBytes(const std::string& path, std::size_t max_bytes,
                                  PipeInput pipe = PipeInput::kAwait);

}  // namespace dlc
