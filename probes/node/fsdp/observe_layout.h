#pragma once

#include <functional>
#include <string>
#include <vector>

#include "probes/node/exchange.h"
#include "probes/observations/deadline.h"
#include "probes/observations/fsdp.h"
#include "probes/observations/plan.h"
#include "probes/observations/result.h"

namespace dlc {

/// How many ranks in a row hold one copy of a model that several copies are kept of: those of one
/// machine, where each machine has as many in a row; else the largest proper divisor of their
/// number.
int ChooseShardRanks(const std::vector<FabricRank>& ranks);

/// Every model cut by every layout over all ranks of `exchange`, over libfabric on host memory. All
/// ranks together; `flip_bit` is of one. An error ends it: what was proved before stands.
Result<FsdpLayoutExperiment> ObserveFsdpLayout(const FsdpLayoutParameters& parameters,
                                               bool flip_bit, Exchange& exchange, Deadline deadline,
                                               const std::function<void(const std::string&)>& say);

}  // namespace dlc
