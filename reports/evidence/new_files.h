#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "probes/observations/result.h"

namespace dlc {

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
