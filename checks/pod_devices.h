#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "checks/check.h"
#include "checks/ray_cluster_view.h"
#include "probes/observations/fabric.h"

namespace dlc {

/// Rules of fabric-ready about what a rank sees in its own pod.
inline constexpr std::string_view kDevicesInPod = "fabric-ready/devices-in-pod";
inline constexpr std::string_view kEfaProvider = "fabric-ready/efa-provider";
inline constexpr std::string_view kMemlock = "fabric-ready/memlock";
inline constexpr std::string_view kHugePages = "fabric-ready/huge-pages";
inline constexpr std::string_view kInstallerOnNode = "fabric-ready/installer-in-pod";

/// EFA devices that the rank's process can open.
std::int64_t UsableEfaDevices(const NodeFabric& node);

/// One rank of each pod speaks for it. The pod's limit comes from the pod of that name in `views`,
/// else from the policy. Precondition: the policy does not say "no" to EFA.
void JudgePodDevices(const Observations& observations, const Policy& policy,
                     const std::vector<RayClusterView>& views, Judge& judge);

}  // namespace dlc
