#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
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

/// Page-aligned bytes that look random and are always the same, but for the mark of each page.
class TransferBlock {
 public:
  /// Of so many bytes, a multiple of 4096.
  explicit TransferBlock(std::int64_t size);

  char* data() { return bytes_.get(); }
  /// Each page says whose it is, and which.
  void Mark(std::uint64_t owner, std::int64_t offset);

 private:
  std::size_t size_;
  std::unique_ptr<char, void (*)(void*)> bytes_;
};

/// Made before ranks meet: filling them takes its time. For tasks of blocks up to this size.
struct TransferBlocks {
  explicit TransferBlocks(std::int64_t block_bytes) : written(block_bytes), read(block_bytes) {}

  TransferBlock written;  ///< or to be read
  TransferBlock read;
};

/// Writes a new file with fsync and close, or reads one and compares every byte. What fails is told
/// in `error` and `detail`, and `bytes` is then 0. `met_at` is the barrier's moment, from which
/// start_seconds counts.
StorageTransfer TimeTransfer(const TransferTask& task, TransferBlocks& blocks,
                             Deadline::Clock::time_point met_at, Deadline deadline);

}  // namespace dlc
