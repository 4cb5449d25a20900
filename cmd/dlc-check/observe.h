#pragma once

#include "cmd/dlc-check/plan.h"
#include "reports/progress.h"

namespace dlc {

/// Runs the probes of the selected stages in order and fills `plan.observations`. A stage whose
/// ground failed is not looked at, and the observation says by which finding it was blocked. An
/// interruption ends the looking and is recorded; what was seen stays. Errors are only those that
/// the user must mend (a bad reference, CA or docker config).
Result<void> Observe(Plan& plan, Progress& progress);

/// Of a rank whose evidence another one writes (RankSetup::takes_part_only): runs its rank of each
/// stage and tells what went wrong. False: rank 0 does not have all that this rank was to show.
/// What blocks a stage is rank 0's to know; this one then waits for it in vain.
bool TakePart(Plan& plan, Progress& progress);

}  // namespace dlc
