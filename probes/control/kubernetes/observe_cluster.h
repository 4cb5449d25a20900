#pragma once

#include <functional>
#include <string>
#include <vector>

#include "probes/control/kubernetes/kube_client.h"
#include "probes/observations/observations.h"

namespace dlc {

/// What to look for.
struct ClusterLook {
  std::string name_space;
  std::string ray_cluster;  ///< empty: the only one there
  std::vector<Stage> stages;
  bool dashboard = false;  ///< Ray's will be asked through the API server too
};

/// Tells what is being done. Not called from several threads at once.
struct ClusterTalk {
  std::function<void(const std::string&)> step;
  std::function<void(const std::string&)> warn;
};

/// Asks first what it may, then lists what the checks of the stages read: the RayCluster, its
/// RayJobs and pods, and the nodes, several lists at a time. Each is an observation of its own: a
/// right that is missing leaves that one not looked at, with the right's name. Fills
/// `observations.cluster` and `observations.ray.job_objects`.
///
/// Errors are the user's to mend (kInvalidInput): no RayCluster of that name, none at all, or
/// several and no name; they list what is there.
Result<void> ObserveCluster(KubeClient& client, const ClusterLook& look, Deadline deadline,
                            const ClusterTalk& talk, Observations& observations);

}  // namespace dlc
