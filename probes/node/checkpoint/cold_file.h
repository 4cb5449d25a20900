#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "probes/node/checkpoint/checkpoint_files.h"
#include "probes/node/checkpoint/read_checkpoint.h"
#include "probes/node/safetensors/safetensors.h"

namespace dlc {

/// A rank's file of a checkpoint, its header held against the manifest, its pages kept out of the
/// way as the options say.
class ColdFile {
 public:
  /// Reads the header and compares: swapped, stale, mixed-run, damaged, partial, unavailable.
  static CheckpointResult<ColdFile> Open(const Checkpoint& checkpoint, int rank);

  /// Drops its pages and turns to O_DIRECT, where that works.
  void KeepCold(const CheckpointReadOptions& options);

  /// As much of `count` as the file has from `offset` on, in one piece. With O_DIRECT all three are
  /// multiples of kDirectAlignment. 0: the end. Partial or unavailable otherwise.
  CheckpointResult<std::size_t> ReadBlock(std::int64_t offset, char* to, std::size_t count);
  /// Exactly these bytes, wherever they lie; through `bounce` of `bounce_bytes` with O_DIRECT.
  CheckpointResult<std::monostate> ReadRange(std::int64_t offset, char* to, std::size_t count,
                                             const DirectBuffer& bounce, std::size_t bounce_bytes);

  const std::string& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  const CheckpointShard& shard() const { return shard_; }
  std::int64_t bytes() const { return bytes_; }
  /// direct, resident_fraction, cold_because, direct_refused; true of what was read so far.
  CheckpointReadFacts Facts() const;

 private:
  ColdFile() = default;
  int LeaveDirect();

  std::string path_;
  UniqueFd fd_;
  SafetensorsHeader header_;
  CheckpointShard shard_;
  std::int64_t bytes_ = 0;
  bool direct_ = false;
  double resident_ = -1;
  std::string direct_refused_;
};

}  // namespace dlc
