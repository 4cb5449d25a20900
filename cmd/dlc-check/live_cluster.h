#pragma once

#include <optional>
#include <string>

#include "cmd/dlc-check/config.h"
#include "cmd/dlc-check/ray_dashboard.h"
#include "probes/control/kubernetes/kube_access.h"
#include "probes/observations/observations.h"
#include "probes/observations/result.h"
#include "reports/progress.h"

namespace dlc {

/// The flags that name a cluster.
struct ClusterFlags {
  std::string kubeconfig;
  std::string context;
  std::string name_space;
  std::string ray_cluster;

  bool empty() const {
    return kubeconfig.empty() && context.empty() && name_space.empty() && ray_cluster.empty();
  }
};

/// An API server to ask, and which RayCluster of it.
struct LiveCluster {
  KubeAccess access;
  std::string ray_cluster;  ///< empty: the only one of the namespace
};

/// The flags, else the config's `cluster:`, else kubectl's own rules. kInvalidInput and kNotFound
/// are the user's to mend.
Result<LiveCluster> PlanLiveCluster(const ClusterFlags& flags, const Config* config);

/// Fills what the API server says into `observations`, and what the RayCluster's dashboard says,
/// unless `ray` names another. Errors are those of ObserveCluster.
Result<void> ObserveLiveCluster(const LiveCluster& live, const RayDashboard& ray,
                                Observations& observations, Progress& progress);

}  // namespace dlc
