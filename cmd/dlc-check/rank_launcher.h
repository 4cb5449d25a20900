#pragma once

#include <memory>
#include <optional>

#include "cmd/dlc-check/live_cluster.h"
#include "cmd/dlc-check/rank_stage.h"
#include "cmd/dlc-check/ray_dashboard.h"
#include "probes/control/kubernetes/kube_client.h"
#include "probes/control/launcher/launcher.h"
#include "probes/observations/observed.h"
#include "reports/progress.h"

namespace dlc {

/// Makes a launcher for each stage of a run: all of them by one way to one dashboard, where the
/// ranks are Ray's. What it is given must outlive it, and it the launchers.
class RankLaunchers {
 public:
  RankLaunchers(const RankSetup& setup, const RayDashboard& ray,
                const std::optional<LiveCluster>& live, const ClusterFacts& cluster)
      : setup_(setup), ray_(ray), live_(live), cluster_(cluster) {}

  /// Not looked at: no way to the dashboard, a token or a right that is missing.
  Observed<std::unique_ptr<Launcher>> Make(Progress& progress);

 private:
  Observed<OpenRay> Open(Progress& progress);

  const RankSetup& setup_;
  const RayDashboard& ray_;
  const std::optional<LiveCluster>& live_;
  const ClusterFacts& cluster_;
  std::unique_ptr<KubeClient> kube_;  ///< of the way through the API server
  std::shared_ptr<RayClient> client_;
};

}  // namespace dlc
