#pragma once

#include <string>

#include "probes/control/kubernetes/kube_client.h"
#include "probes/control/ray/ray_token.h"
#include "probes/observations/cluster.h"
#include "probes/observations/deadline.h"
#include "probes/observations/observed.h"

namespace dlc {

/// The Secret with the token of a RayCluster in authentication mode "token": the one that it names,
/// else the one that KubeRay (1.5.1) makes of the cluster's name.
std::string RayTokenSecretName(const std::string& cluster, const std::string& named);

/// Its key auth_token. Not looked at: the right to get this one Secret is missing. No Error holds
/// anything of what the Secret holds.
Observed<RayToken> ReadRayTokenSecret(KubeClient& client, const RayCluster& cluster,
                                      Deadline deadline);

}  // namespace dlc
