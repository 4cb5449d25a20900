#pragma once

#include "cmd/dlc-check/plan.h"
#include "reports/progress.h"

namespace dlc {

/// Runs the probes of the selected stages in order and fills `plan.observations`. A stage whose
/// ground failed is not looked at, and the observation says by which finding it was blocked. An
/// interruption ends the looking and is recorded; what was seen stays. Errors are only those that
/// the user must mend (a bad reference, CA or docker config).
Result<void> Observe(Plan& plan, Progress& progress);

}  // namespace dlc
