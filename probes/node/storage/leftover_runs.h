#pragma once

#include <string>

#include "probes/node/exchange.h"
#include "probes/observations/checkpoint_tree.h"
#include "probes/observations/deadline.h"
#include "probes/observations/plan.h"

namespace dlc {

/// What earlier runs left below the path: directories (no links) with a name that RunDirectory
/// gives, `own_run_id`'s not counted. Removing happens after all ranks have looked, so that one
/// rank's removal is not another's recent change. Errors: the path cannot be listed, the ranks lost
/// each other before anything was removed.
Result<LeftoverRuns> ObserveLeftoverRuns(const LeftoverRunsParameters& parameters,
                                         const std::string& own_run_id, Exchange& exchange,
                                         Deadline deadline);

}  // namespace dlc
