#pragma once

#include <string_view>
#include <vector>

#include "checks/check.h"
#include "checks/rank_results.h"
#include "probes/observations/framework.h"

namespace dlc {

inline constexpr std::string_view kFrameworkTransport = "fsdp-framework/transport";

/// What the NCCL of the framework's own processes logged, against what nccl-transport asks of the
/// ranks. Nobody counts these processes' bytes, so EFA_LOGGED is as much as can be asked.
void JudgeFrameworkTransport(const Observations& observations, const Policy& policy,
                             const RankRun& run,
                             const std::vector<RankResult<FrameworkExperiment>>& results,
                             const Subject& subject, Judge& judge);

}  // namespace dlc
