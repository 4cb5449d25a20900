#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace dlc {

/// What becomes of one call of libc.
struct FileFault {
  int failure = 0;             ///< an errno instead of the call
  std::size_t most_bytes = 0;  ///< of write and pread, when not 0
  bool flip_bit = false;       ///< of what pread read
};

/// Before every open, write, pread, fsync, rename, unlink, mkdir, rmdir and close of this program,
/// with its path (of a descriptor: what it is open on).
using FileFaultHook = std::function<FileFault(const std::string& call, const std::string& path)>;

/// While it lives, `hook` is asked; one at a time.
class PlantedFileFaults {
 public:
  explicit PlantedFileFaults(FileFaultHook hook);
  ~PlantedFileFaults();
  PlantedFileFaults(const PlantedFileFaults&) = delete;
  PlantedFileFaults& operator=(const PlantedFileFaults&) = delete;
};

}  // namespace dlc
