#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dlc {

/// What a file's name says of it.
struct CheckpointName {
  std::string kind;  ///< as CheckpointTree::kind
  std::string part;  ///< as ShardFile::part
  int rank = 0;
  int stated_ranks = 0;        ///< 0: it says none
  bool metadata = false;       ///< what is written last
  bool rank_metadata = false;  ///< `__<rank>.metadata`
};

/// nullopt: a name that no writer of sharded checkpoints gives. Sources: torch
/// distributed/checkpoint/filesystem.py, DeepSpeed runtime/engine.py, verl's FSDP checkpoints.
std::optional<CheckpointName> ParseCheckpointName(std::string_view name);

/// "x.tmp", "x.tmp.123": before the rename that makes a file count.
bool IsUnfinishedName(std::string_view name);

/// A checkpoint directory of Ray Train: v2 "checkpoint_2026-01-02_03-04-05.678901", v1
/// "checkpoint_000012"; empty: neither.
std::string RayDirectoryVersion(std::string_view name);

}  // namespace dlc
