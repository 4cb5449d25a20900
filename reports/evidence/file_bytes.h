#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "probes/observations/result.h"

namespace dlc {

/// A whole file of at most `max_bytes`. kNotFound, kPermissionDenied, or kInvalidInput (a
/// directory, too large).
Result<std::string> ReadFileBytes(const std::string& path, std::size_t max_bytes);

struct NewFile {
  std::string name;  ///< in the directory
  std::string bytes;
  mode_t mode = 0644;  ///< exactly this, whatever the umask
};

/// All of them or none: each is written beside its place, synced, and moved there without replacing
/// anything; on a failure what was already moved is removed again. Makes the directory.
/// kInvalidInput when a name is taken, kPermissionDenied, or kUnavailable (disk full, I/O error).
Result<void> WriteNewFiles(const std::string& directory, const std::vector<NewFile>& files);

}  // namespace dlc
