#pragma once

#include <string>

#include "cmd/dlc-probe/steps.h"

namespace dlc {

/// The kinds "gpu-node" and "gpu-compute".
Result<std::string> RunGpuNode(const StepContext& context);
Result<std::string> RunGpuCompute(const StepContext& context);
Result<void> CheckGpuComputeStep(const std::string& parameters);

}  // namespace dlc
