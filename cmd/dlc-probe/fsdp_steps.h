#pragma once

#include <string>

#include "cmd/dlc-probe/steps.h"

namespace dlc {

/// The kind "fsdp-layout". Built without libfabric's headers, it is an error that says so.
Result<std::string> RunFsdpLayout(const StepContext& context);
/// The kind "fsdp-training"; same.
Result<std::string> RunFsdpTraining(const StepContext& context);
/// Whether a step of the kind can be done with these parameters; names what cannot.
Result<void> CheckFsdpLayoutParameters(const std::string& parameters);
Result<void> CheckFsdpTrainingParameters(const std::string& parameters);

}  // namespace dlc
