#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "probes/node/checkpoint/checkpoint_set.h"
#include "probes/observations/deadline.h"

namespace dlc {

/// A set whose manifest is whole and whose files are there with their lengths. Their content is not
/// looked at.
struct Checkpoint {
  std::string directory;
  CheckpointManifest manifest;
};

/// Files that are absent or short count as such only as this node sees them now: a network file
/// system may show another node's new file late (nfs(5): up to acdirmax).
CheckpointResult<Checkpoint> OpenCheckpoint(const std::string& directory);
/// The same, again and again (by open(2)) while it is partial and `deadline` has not passed.
CheckpointResult<Checkpoint> AwaitCheckpoint(const std::string& directory, Deadline deadline);

struct PassedOverCheckpoint {
  std::int64_t step = 0;
  CheckpointFailure why;
};

struct LatestCheckpoint {
  std::optional<Checkpoint> checkpoint;           ///< none: no step below the root is whole
  std::vector<PassedOverCheckpoint> passed_over;  ///< newer than it, newest first
};

/// The newest step that OpenCheckpoint takes. A set that could not be looked at (kUnavailable) ends
/// the search with that failure: it may be whole.
CheckpointResult<LatestCheckpoint> FindLatestCheckpoint(const std::string& root);

/// The file's own word, held against its name and the manifest: swapped, stale, mixed-run, damaged.
CheckpointResult<CheckpointShard> ReadCheckpointShardHeader(const Checkpoint& checkpoint, int rank);

struct CheckpointReadOptions {
  std::int64_t block_bytes = 4 << 20;  ///< a multiple of 4096, at most 256 MiB
  /// Keep this node's page cache out of it: its pages are dropped (POSIX_FADV_DONTNEED), and
  /// O_DIRECT is used where it works.
  bool cold = true;
};

/// What came, and from where.
struct CheckpointReadFacts {
  std::int64_t bytes = 0;
  double seconds = 0;       ///< from the first byte to the last, sink included
  double sink_seconds = 0;  ///< of those in the caller's sink
  bool direct = false;      ///< all blocks but the last came by O_DIRECT
  /// Part of the file's pages in this node's cache before the first read, by mincore(2), after they
  /// were dropped; -1: it could not be told, or was not asked for.
  double resident_fraction = -1;
  /// "direct": O_DIRECT worked and the file does not live in memory; "evicted": no page was there;
  /// empty: nothing shows that the bytes came from the storage.
  std::string cold_because;
  std::string direct_refused;  ///< "EINVAL"; empty when it was not asked for or worked
};

/// Bytes of tensor `tensor` (its place in the file's list) from `offset` on, which is in the file's
/// own rows.
using CheckpointSink = std::function<Result<void>(std::size_t tensor, std::int64_t offset,
                                                  std::span<const std::byte> bytes)>;

struct ReadCheckpointShardResult {
  CheckpointShard shard;
  CheckpointReadFacts facts;
};

/// Streams a rank's file in its order. The bytes are known to be right only when this succeeds: the
/// sha256 is complete at the end. `sink` may be empty: then it verifies.
CheckpointResult<ReadCheckpointShardResult> ReadCheckpointShard(
    const Checkpoint& checkpoint, int rank, const CheckpointSink& sink,
    const CheckpointReadOptions& options, Deadline deadline);

/// Any rows of any tensor, whoever holds them: for another number of ranks than saved. Does not
/// verify the sha256: that takes the whole of a file (ReadCheckpointShard without a sink).
class CheckpointRows {
 public:
  /// Reads all files' headers. Partial: rows of a tensor are in no file; swapped: in two; damaged:
  /// files differ on a tensor's shape.
  static CheckpointResult<CheckpointRows> Open(const Checkpoint& checkpoint,
                                               const CheckpointReadOptions& options);
  CheckpointRows(CheckpointRows&&) noexcept;
  CheckpointRows& operator=(CheckpointRows&&) noexcept;
  ~CheckpointRows();

  /// Whole tensors (first_row 0, rows of dimension 0), by name.
  const std::map<std::string, CheckpointTensor>& Tensors() const;

  /// Reads rows [first_row, first_row + rows) into `to`, which is exactly as long. kInvalid: no
  /// such tensor or rows.
  CheckpointResult<std::monostate> Read(const std::string& tensor, std::int64_t first_row,
                                        std::int64_t rows, std::span<std::byte> to,
                                        Deadline deadline);

  /// Of all that was read so far; `cold_because` only where it holds for every file that was read.
  CheckpointReadFacts Facts() const;

 private:
  struct State;
  explicit CheckpointRows(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dlc
