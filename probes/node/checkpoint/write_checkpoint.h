#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "probes/node/checkpoint/checkpoint_set.h"
#include "probes/node/checkpoint/checkpoint_strategy.h"
#include "probes/observations/deadline.h"

namespace dlc {

/// `bytes` bytes of tensor `tensor` (its place in the caller's list) from `offset` on, which is in
/// its own rows. Asked for in order, each byte once, at most a block at a time; what it points to
/// is read before the next call.
using CheckpointSource = std::function<Result<const std::byte*>(
    std::size_t tensor, std::int64_t offset, std::int64_t bytes)>;

struct CheckpointWriteOptions {
  CheckpointStrategy strategy;
  std::int64_t block_bytes = 4 << 20;  ///< a multiple of 4096, at most 256 MiB
  bool direct = false;                 ///< O_DIRECT for whole blocks, where open(2) takes it
};

/// Seconds. Hashing runs beside the writing.
struct CheckpointWriteTimes {
  double source_seconds = 0;   ///< in the caller's source
  double write_seconds = 0;    ///< open, write(2), and waiting for the hash
  double fsync_seconds = 0;    ///< of the file
  double publish_seconds = 0;  ///< close, rename, fsync of the directory
};

struct WrittenCheckpointFile {
  CheckpointFile file;
  CheckpointWriteTimes times;
  bool direct = false;         ///< blocks went by O_DIRECT
  std::string direct_refused;  ///< "EINVAL": asked for and not taken; empty otherwise
};

/// Makes ROOT/step-<step> anew and gives its path. What an unfinished save left there is removed; a
/// whole checkpoint is not, and is kInvalid. By one process, before any rank writes.
CheckpointResult<std::string> PrepareCheckpointStep(const std::string& root, std::int64_t step,
                                                    const CheckpointStrategy& strategy);

/// Writes the file of `shard.rank` and makes it durable under its name. No manifest: the set is no
/// checkpoint yet. Tensors without rows are left out. On a failure what was written is removed as
/// far as possible.
/// kInvalid: a name twice, rows outside of the tensor, an unknown type, a bad option.
CheckpointResult<WrittenCheckpointFile> WriteCheckpointShard(const std::string& directory,
                                                             const CheckpointShard& shard,
                                                             const CheckpointSource& source,
                                                             const CheckpointWriteOptions& options,
                                                             Deadline deadline);

/// Writes the manifest, and with it makes the directory a checkpoint. By one process, after all
/// ranks' WriteCheckpointShard succeeded.
CheckpointResult<WrittenCheckpointFile> PublishCheckpoint(const std::string& directory,
                                                          const CheckpointManifest& manifest,
                                                          const CheckpointWriteOptions& options);

/// Removes one step's directory: its manifest first and durably, then the rest. Nothing when it is
/// not there.
CheckpointResult<std::monostate> RemoveCheckpoint(const std::string& directory,
                                                  const CheckpointStrategy& strategy);

/// Removes the steps before `keep` below ROOT, oldest first, whole or not; gives their names.
/// Refuses (with what OpenCheckpoint says) unless `keep` is a whole checkpoint. A strategy that
/// cannot remove gives none.
CheckpointResult<std::vector<std::string>> RemoveOlderCheckpoints(
    const std::string& root, std::int64_t keep, const CheckpointStrategy& strategy);

}  // namespace dlc
