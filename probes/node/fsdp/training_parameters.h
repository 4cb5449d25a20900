#pragma once

#include <string_view>

#include "kernels/training/qwen2_shape.h"
#include "probes/node/fsdp/training_options.h"
#include "probes/observations/plan.h"
#include "probes/observations/result.h"

namespace dlc {

/// Whether a plan may ask for this; names what is out of range.
Result<void> CheckFsdpTraining(const FsdpTrainingParameters& parameters);

/// Precondition, here and below: the parameters are good.
Qwen2Shape ShapeOf(const FsdpModel& model);
/// Of the training run. `compute` where the plan names none.
TrainingOptions TrainingOptionsOf(const FsdpTrainingParameters& parameters, DataType compute);

}  // namespace dlc
