#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "probes/observations/deadline.h"
#include "probes/observations/storage.h"

namespace dlc {

/// "ENOSPC", or "errno 512" of what the C library has no name for.
std::string StorageErrnoName(int failure);

/// One file to be written or read from end to end.
struct TransferTask {
  std::string file;
  bool writing = false;
  bool direct = false;
  std::int64_t bytes = 0;        ///< a multiple of block_bytes
  std::int64_t block_bytes = 0;  ///< a multiple of 4096
  std::uint64_t owner = 0;       ///< who wrote it: it stands in every page
};

/// Writes a new file with fsync and close, or reads one and compares the mark of every page. What
/// fails is told in `error` and `detail`, and `bytes` is then 0. `met_at` is the barrier's moment,
/// from which start_seconds counts.
StorageTransfer TimeTransfer(const TransferTask& task, Deadline::Clock::time_point met_at,
                             Deadline deadline);

}  // namespace dlc
