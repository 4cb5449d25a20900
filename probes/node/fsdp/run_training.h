#pragma once

#include "probes/node/fsdp/train_and_compare.h"
#include "probes/observations/plan.h"

namespace dlc {

/// The experiment, with backend and collectives open: the run with whole numbers if asked for, the
/// training, bandwidths and predictions. Fills `seen`, and `stopped_by` where it ended early.
/// `compute` where the plan names no type.
void RunTraining(const FsdpTrainingParameters& parameters, TrainingFault fault, DataType compute,
                 const TrainingRanks& ranks, Deadline deadline, FsdpTrainingExperiment& seen);

}  // namespace dlc
