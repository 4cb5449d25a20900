#pragma once

#include <string>

#include "cmd/dlc-probe/steps.h"

namespace dlc {

/// The kinds "fabric-node", "fabric-pairs" and "fabric-collectives". Built without libfabric's
/// headers, each is an error that says so.
Result<std::string> RunFabricNode(const StepContext& context);
Result<std::string> RunFabricPairs(const StepContext& context);
Result<std::string> RunFabricCollectives(const StepContext& context);

}  // namespace dlc
