#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cmd/dlc-check/config.h"
#include "probes/control/ray/observe_ray.h"
#include "probes/observations/observations.h"
#include "reports/progress.h"

namespace dlc {

/// Whether and where Ray's dashboard is asked.
struct RayDashboard {
  std::optional<Url> address;  ///< absent: none is named; a live cluster's is asked
  RayLook look;                ///< no question for what files answer, or no selected stage reads
  std::chrono::milliseconds timeout = timeouts::kRay;  ///< of all questions
};

/// --ray-address, else the config's ray.address, else RAY_ADDRESS. A saved answer of the config
/// wins over RAY_ADDRESS, and together with the flag is an Error. kInvalidInput: also for an
/// address that is no dashboard's.
/// `for_ranks`: ranks are started through it too, so that RAY_ADDRESS counts in any case.
Result<RayDashboard> PlanRayDashboard(const std::string& flag, const Config* config,
                                      const std::vector<Stage>& stages, bool for_ranks);
/// Target ray without any.
Error NoDashboard(const Config& config);

/// Asks the named address, if there is one.
void ObserveRayDashboard(const RayDashboard& ray, RayFacts& facts, Progress& progress);

/// Asks the dashboard of the one RayCluster that was seen, unless an address is named. Where none
/// was seen, nothing is looked at.
void ObserveLiveRay(KubeClient& client, const RayDashboard& ray, Observations& observations,
                    Progress& progress);

}  // namespace dlc
