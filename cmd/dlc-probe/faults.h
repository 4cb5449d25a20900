#pragma once

#include <string>

#include "probes/observations/plan.h"
#include "probes/observations/ranks.h"
#include "probes/observations/result.h"

namespace dlc {

/// The fault that the plan has for this rank at this step ("": the start of the run), or nullptr.
const PlantedFault* FaultAt(const RankPlan& plan, int rank, const std::string& step);

/// Of a fault that no dlc-probe knows.
Result<void> CheckFaults(const RankPlan& plan);

/// In the step's own process: dies, hangs or mounts, as asked. "flip-bit" is the step's own affair.
/// `mount_over`: the path that "other-directory" hides.
Result<void> PlantInStep(const PlantedFault& fault, const std::string& mount_over);

}  // namespace dlc
