#pragma once

#include <string>
#include <vector>

#include "probes/node/checkpoint/checkpoint_set.h"
#include "probes/node/checkpoint/checkpoint_strategy.h"
#include "probes/observations/deadline.h"

namespace dlc {

/// Damage that was done to a small set of our own, to see that it is refused for what it is.
struct CheckpointRefusalControl {
  std::string name;      ///< "partial", "damaged", "swapped", "stale", "mixed-run"
  bool planted = false;  ///< not where the file system let nobody do the damage
  bool caught = false;   ///< refused, and for this reason
  std::string found;     ///< what the reader said, or why it was not planted

  bool operator==(const CheckpointRefusalControl&) const = default;
};

/// Makes sets of two ranks in `scratch` (an empty directory, on the file system that is looked at),
/// damages each in one way and reads it; the undamaged one is read first, and a failure when it is
/// refused. Some 20 files of a few hundred bytes; all are removed, unless that is refused.
CheckpointResult<std::vector<CheckpointRefusalControl>> PlantCheckpointDamages(
    const std::string& scratch, const CheckpointStrategy& strategy, Deadline deadline);

}  // namespace dlc
