#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "probes/observations/digest.h"
#include "probes/observations/observed.h"

namespace dlc {

/// One rank's file of a checkpoint.
struct ShardFile {
  std::string name;  ///< "__3_0.distcp"
  int rank = 0;      ///< that wrote it
  std::int64_t size_bytes = 0;
  Digest digest;     ///< of the whole file, or of its first and last part: see CheckpointTree
  std::string part;  ///< where a rank has several kinds of files, which: "optim_states"
  std::int64_t modified_at_ns = 0;  ///< since 1970, by the clock of whoever wrote or of the server

  bool operator==(const ShardFile&) const = default;
};

/// An existing checkpoint as one rank or one named directory shows it: names, sizes and digests.
/// Pickles (`.metadata`, `*.pt`) are never read as such.
struct CheckpointTree {
  std::string path;  ///< as asked for
  /// Whose names the files have: "dcp" (torch.distributed.checkpoint), "dlc-check"
  /// (rank-00000-of-00004.safetensors), "deepspeed" (zero_pp_rank_0_mp_rank_00_optim_states.pt),
  /// "world-size-rank" (model_world_size_8_rank_0.pt); empty: nobody's that we know.
  std::string kind;
  /// Below `path`, where its files are: "checkpoint_2026-01-02_03-04-05.678901"; empty: in `path`.
  std::string directory;
  std::string ray;  ///< that directory has a name of Ray Train "v2" or "v1"; empty: it has not
  /// What is written last: `.metadata`, our checkpoint.json, or DeepSpeed's `latest` that names the
  /// directory. Its presence says that the save reached its end.
  bool has_metadata = false;
  std::int64_t metadata_bytes = 0;
  Digest metadata_digest;
  std::int64_t metadata_modified_at_ns = 0;
  /// `__<rank>.metadata`: saved without a coordinator, so that no one file is the last.
  bool rank_metadata = false;
  std::vector<ShardFile> shards;        ///< by part, rank, then name
  int stated_ranks = 0;                 ///< as the names say ("of-00004"); 0: they do not
  std::vector<std::string> unfinished;  ///< temporary files, of a save that did not end
  std::vector<std::string> unread;      ///< "__3_0.distcp: a link, which is not followed"
  std::int64_t other_files = 0;         ///< of other names, in the same directory
  std::int64_t other_bytes = 0;
  bool ray_marker = false;  ///< .validate_storage_marker, which Ray Train's controller makes
  /// Of a directory of Ray Train v2: whether checkpoint_manager_snapshot.json names it, which it
  /// does once every worker has reported: "yes", "no"; empty: no such file was seen.
  std::string ray_registered;
  std::vector<std::string> passed_over;    ///< "checkpoint_000001: older"
  std::string unclear;                     ///< why no directory with a checkpoint was found
  std::int64_t hashed_bytes_per_file = 0;  ///< at most so many from each end went into the digest

  bool operator==(const CheckpointTree&) const = default;
};

/// A directory that the user named, as a pod or node shows it.
struct CheckpointView {
  std::string name;  ///< as the user named it
  Observed<CheckpointTree> tree;

  bool operator==(const CheckpointView&) const = default;
};

/// A directory below the checkpoint path that a run of this tool made and left.
struct LeftoverRun {
  std::string run_id;  ///< 16 hex digits
  std::int64_t uid = 0;
  std::int64_t files = 0;  ///< all that is in it, the directory itself not counted
  std::int64_t bytes = 0;
  bool counted = false;      ///< all of it was; false: there is more
  double quiet_seconds = 0;  ///< since the newest change in it, by this rank's clock
  /// "there", "removed", "recent" (it may be a run that goes on), "other-owner", or "failed".
  std::string state;
  std::string detail;  ///< of "failed"

  bool operator==(const LeftoverRun&) const = default;
};

/// `leftover-runs` on one rank.
struct LeftoverRuns {
  std::string path;
  std::vector<LeftoverRun> runs;  ///< by run id

  bool operator==(const LeftoverRuns&) const = default;
};

}  // namespace dlc
