#pragma once

#include <functional>
#include <string>

#include "probes/node/exchange.h"
#include "probes/node/fsdp/training_options.h"
#include "probes/node/fsdp/training_side.h"
#include "probes/observations/fsdp.h"
#include "probes/observations/plan.h"
#include "probes/observations/ranks.h"

namespace dlc {

/// All ranks together: opens the rank's GPU and NCCL, and has `body` train on them.
Result<void> TrainOnGpu(const TrainingSide& with, const RankFacts& me, Exchange& exchange,
                        Deadline deadline, const TrainingBody& body);

/// `fsdp-training` on the rank's GPU and over NCCL, with one rank too. All ranks together; an error
/// where nothing was seen.
Result<FsdpTrainingExperiment> ObserveFsdpTrainingOnGpu(
    const FsdpTrainingParameters& parameters, TrainingFault fault, const RankFacts& me,
    Exchange& exchange, Deadline deadline, const std::function<void(const std::string&)>& say);

}  // namespace dlc
