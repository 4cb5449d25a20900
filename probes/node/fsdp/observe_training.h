#pragma once

#include <functional>
#include <string>

#include "probes/node/exchange.h"
#include "probes/node/fsdp/training_options.h"
#include "probes/node/fsdp/training_side.h"
#include "probes/observations/fsdp.h"
#include "probes/observations/plan.h"

namespace dlc {

/// All ranks together: opens the CPU's backend and the fabric, and has `body` train on them.
Result<void> TrainOnCpu(const TrainingSide& side, Exchange& exchange, Deadline deadline,
                        const TrainingBody& body);

/// `fsdp-training` in host memory and over libfabric; of one rank over nothing. `machine` names the
/// memory: ranks with the same share it. All ranks together; an error where nothing was seen.
Result<FsdpTrainingExperiment> ObserveFsdpTrainingOnCpu(
    const FsdpTrainingParameters& parameters, TrainingFault fault, const std::string& machine,
    Exchange& exchange, Deadline deadline, const std::function<void(const std::string&)>& say);

}  // namespace dlc
