#pragma once

#include <string>
#include <vector>

#include "probes/control/kubernetes/kube_reply.h"
#include "probes/observations/run.h"

namespace dlc {

/// The rights that looking at a RayCluster needs for these stages, each once, in order: what
/// ObserveCluster asks for, and what `manifest rbac` prints. Those that are no `list` are for Ray's
/// dashboard; those of resource.k8s.io are only needed where a Ray pod has resource claims.
std::vector<KubeRight> RightsOf(const std::vector<Stage>& stages, const std::string& name_space);

inline constexpr const char* kDraGroup = "resource.k8s.io";

/// Whether it is asked for before anything is listed; `dashboard`: Ray's will be asked too.
bool IsFirstAsked(const KubeRight& right, bool dashboard);

/// Whether `resource` ("pods") is among them.
bool IsNeeded(const std::string& resource, const std::vector<Stage>& stages);

}  // namespace dlc
