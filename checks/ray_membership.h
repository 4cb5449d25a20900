#pragma once

#include "checks/check.h"
#include "checks/ray_pods.h"

namespace dlc {

/// Of the check ray-version: who is a node of the Ray cluster. What each of them runs is judged in
/// ray_version.cpp.

inline constexpr Rule kRayNodesAlive{
    "ray-version/ray-nodes-alive",
    Severity::kRequired,
    true,
    "every ready pod is an alive node of the Ray cluster",
    "Ray lists at least as many alive nodes as there are ready pods",
    "that the nodes' resources are what the pods can see (gpu-allocation, gpu-visible)",
    "read the log of the Ray container of the missing pod: a node that is refused for its version "
    "says so there"};

/// `pods` is empty when they were not seen; `one_cluster`: Ray's node list can be attributed.
void JudgeRayNodesAlive(const Observations& o, const RayPods& pods, bool one_cluster, Judge& judge);

}  // namespace dlc
