#pragma once

#include "checks/policy.h"
#include "cmd/dlc-check/config.h"
#include "cmd/dlc-check/rank_stage.h"

namespace dlc {

/// `config` may be null: no ranks then. Errors: a planted fault whose step no selected stage has;
/// it would not be planted, and a run that says that it was must not look like one that found it.
/// And a policy that asks for the workload's model where `model` is absent.
Result<RankSetup> MakeRankSetup(const Config* config, const Policy& policy, const RunFacts& run,
                                const std::optional<FsdpModel>& model);

/// Of target type ray.
RayRanksSetup RayRanksOf(const TargetConfig& target);

}  // namespace dlc
