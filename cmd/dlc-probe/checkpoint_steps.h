#pragma once

#include <string>

#include "cmd/dlc-probe/steps.h"

namespace dlc {

Result<std::string> RunCheckpointSave(const StepContext& context);
Result<std::string> RunCheckpointLoad(const StepContext& context);
/// Of both.
Result<void> CheckCheckpointTraining(const std::string& parameters);

}  // namespace dlc
