#pragma once

#include "probes/node/checkpoint/checkpoint_set.h"
#include "probes/node/safetensors/safetensors.h"
#include "probes/observations/result.h"

namespace dlc {

/// The header of a rank's file, data offsets in the order of its tensors; those without rows are
/// left out. "__metadata__" has dlc.format, dlc.run_id, dlc.step, dlc.ranks, dlc.rank, for each
/// tensor dlc.slice.<name> ("3:7 of 10x768": rows 3 to 6), and what is extra. kInvalidInput names
/// what cannot be written.
Result<SafetensorsHeader> SafetensorsOfShard(const CheckpointShard& shard);

/// The same read back. kInvalidInput: a safetensors file, but none of ours.
Result<CheckpointShard> ShardOfSafetensors(const SafetensorsHeader& header);

}  // namespace dlc
