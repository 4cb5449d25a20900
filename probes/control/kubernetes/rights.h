#pragma once

#include <string>
#include <vector>

#include "probes/control/kubernetes/kube_reply.h"
#include "probes/observations/run.h"

namespace dlc {

/// The rights that looking at a RayCluster needs for these stages, each once, in order: what
/// ObserveCluster asks for, and what `manifest rbac` prints. Those that are no `list` are for Ray's
/// dashboard.
std::vector<KubeRight> RightsOf(const std::vector<Stage>& stages, const std::string& name_space);

/// Whether `resource` ("pods") is among them.
bool IsNeeded(const std::string& resource, const std::vector<Stage>& stages);

}  // namespace dlc
