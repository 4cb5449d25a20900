#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "probes/observations/result.h"

namespace dlc {

/// Damage that was done to a small set of files of this run, to see it refused.
struct CheckpointRefusal {
  std::string name;      ///< "partial", "damaged", "swapped", "stale", "mixed-run"
  bool planted = false;  ///< not where the file system let nobody do the damage
  bool caught = false;   ///< refused, and for this reason
  std::string found;     ///< what the reader said, or why it was not planted

  bool operator==(const CheckpointRefusal&) const = default;
};

/// Where a model is trained, and which.
struct CheckpointTraining {
  std::string backend;    ///< "cpu", "cuda"
  std::string device;     ///< the GPU's name
  std::string transport;  ///< "libfabric tcp;ofi_rxm", "NCCL 2.28.9"; empty with one rank
  std::string model;
  int ranks = 0;
  std::int64_t parameters = 0;
  std::int64_t process = 0;  ///< id, on its node

  bool operator==(const CheckpointTraining&) const = default;
};

/// `checkpoint-save` on one rank: some steps of training, all state saved, then as many steps more.
/// `stopped_by` ended it early; what is before it stands.
struct CheckpointSave {
  CheckpointTraining training;
  std::string not_looked_at;       ///< why nothing was tried; nothing below is there then
  std::string refused;             ///< "unavailable: cannot write ..: ENOSPC"; empty: nothing was
  std::string strategy;            ///< "rename", "in-place": how a file gets its name
  std::vector<std::string> notes;  ///< what the file system refused: "directory fsync refused: .."
  std::int64_t step = 0;           ///< steps before it was saved
  /// Of parameters and both moments of all ranks, as they were in memory when they were saved;
  /// however they are cut.
  std::string hash;
  std::int64_t tensors = 0;   ///< of all ranks together: three for each parameter
  std::int64_t bytes = 0;     ///< of this rank's file; 0: it was not written
  bool published = false;     ///< the manifest, with which it is a checkpoint, is durable
  double seconds = 0;         ///< from the ranks' start until then
  double source_seconds = 0;  ///< of this rank's file: waiting for the device's memory
  double write_seconds = 0;   ///< same: write(2), and waiting for its sha256
  double fsync_seconds = 0;
  double publish_seconds = 0;               ///< close, rename, fsync of the directory
  std::vector<double> losses;               ///< of this rank, of each step after it; float, widened
  std::string continued_hash;               ///< after those
  std::vector<CheckpointRefusal> refusals;  ///< on rank 0
  std::optional<Error> stopped_by;

  bool operator==(const CheckpointSave&) const = default;
};

/// The saved state cut for another number of ranks.
struct CheckpointReshard {
  int ranks = 0;
  std::string hash;
  std::string error;  ///< why there is no hash

  bool operator==(const CheckpointReshard&) const = default;
};

/// `checkpoint-load` on one rank, in a process that trained nothing before.
struct CheckpointLoad {
  CheckpointTraining training;
  std::string not_looked_at;
  int role = 0;             ///< the rank whose file it loaded, and which it is from then on
  bool other_node = false;  ///< another node wrote that file
  std::int64_t step = 0;    ///< of the checkpoint
  std::int64_t bytes = 0;   ///< of the file, all of them read and held against its sha256
  double seconds = 0;
  std::string cold_because;        ///< as StorageTransfer's
  double resident_fraction = 0;    ///< same
  std::string refused;             ///< why the reader took no set: "damaged: ...", empty: it did
  std::string hash;                ///< of what is in the memory of all ranks now
  std::vector<std::string> wrong;  ///< tensors with another hash than when saved; some of them
  std::int64_t wrong_tensors = 0;
  std::vector<CheckpointReshard> reshards;
  std::string reshard_not_looked_at;  ///< why no, or no further, number was tried
  std::vector<double> losses;         ///< of each step after it, of the rank whose role it has
  std::string resumed_hash;           ///< after those
  std::optional<Error> stopped_by;

  bool operator==(const CheckpointLoad&) const = default;
};

}  // namespace dlc
