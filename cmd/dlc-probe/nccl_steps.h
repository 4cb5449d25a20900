#pragma once

#include <string>

#include "cmd/dlc-probe/steps.h"

namespace dlc {

/// The kind "nccl-collectives".
Result<std::string> RunNcclCollectives(const StepContext& context);
/// Names what is wrong with its parameters.
Result<void> CheckNcclCollectivesParameters(const std::string& parameters);

}  // namespace dlc
