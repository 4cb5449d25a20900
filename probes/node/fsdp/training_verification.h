#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "probes/node/exchange.h"
#include "probes/node/fsdp/sharded_model.h"
#include "probes/node/fsdp/training_options.h"
#include "probes/observations/fsdp.h"

namespace dlc {

/// What fills the shards, of parameters, gradients and moments: all of it must be 0.
Result<FsdpComparison> ComparePadding(TrainingBackend& backend, const ShardedModel& model);

/// Gathers every unit once more and compares, by hashes that do not depend on how a parameter is
/// cut, with what its owners have. All ranks together. `hash`: see FsdpTrainingRun.
Result<FsdpComparison> CompareGathered(TrainingBackend& backend, ShardedModel& model,
                                       const TrainingOptions& options, Exchange& exchange,
                                       Deadline deadline, std::string& hash);

/// Trains the unsharded model, and compares this rank's losses, the norms and this rank's shards.
Result<std::vector<FsdpComparison>> CompareWithUnsharded(TrainingBackend& backend,
                                                         const ShardedModel& model,
                                                         const TrainingOptions& options,
                                                         const std::vector<ShardedStep>& steps,
                                                         int rank, int ranks, Deadline deadline);

/// Of exact mode: what every element of this rank's shards must be, bit for bit.
struct ExactComparison {
  std::vector<FsdpComparison> comparisons;
  std::string explanation;  ///< empty: nothing differs, or nothing known gives the same bits
  std::vector<FsdpControl> controls;
};
Result<ExactComparison> CompareExactly(TrainingBackend& backend, const ShardedModel& model,
                                       const TrainingOptions& options, int rank, int ranks);

}  // namespace dlc
