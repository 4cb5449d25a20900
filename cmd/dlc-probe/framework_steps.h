#pragma once

#include <string>

#include "cmd/dlc-probe/steps.h"

namespace dlc {

/// The kind "fsdp-framework".
Result<std::string> RunFsdpFramework(const StepContext& context);
/// Whether a step of the kind can be done with these parameters; names what cannot.
Result<void> CheckFsdpFrameworkParameters(const std::string& parameters);

}  // namespace dlc
