#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checks/finding.h"
#include "probes/observations/observations.h"

namespace dlc {

/// The pods of one RayCluster that a check judges.
struct RayPodGroup {
  std::string name;                     ///< label ray.io/cluster, or kNoClusterLabel
  const RayCluster* cluster = nullptr;  ///< nullptr when the RayCluster object was not seen
  std::vector<const Pod*> pods;
};
inline constexpr const char* kNoClusterLabel = "(no label ray.io/cluster)";

/// Head and worker pods by RayCluster, in the order of the observations. Pointers are into the
/// observations.
struct RayPods {
  std::vector<RayPodGroup> groups;  ///< first every RayCluster that was seen, also without pods
  /// What is not judged and why, one line a reason: ended or deleting pods, redis-cleanup, pods of
  /// a RayCluster that is not under test, pods without label that run another image.
  std::vector<std::string> left_out;
  std::size_t count = 0;
};

/// Precondition: observations.cluster.pods.seen(). When RayClusters were seen, only their pods are
/// judged. Linear in pods and RayClusters.
RayPods SelectRayPods(const Observations& observations);

/// Names a pod; with the namespace when the pods of `groups` come from more than one.
class PodSubjects {
 public:
  explicit PodSubjects(const RayPods& pods);
  Subject Of(const Pod& pod) const { return {"pod", NameOf(pod)}; }
  std::string NameOf(const Pod& pod) const;

 private:
  bool several_namespaces_ = false;
};

/// containers[0], which KubeRay makes the Ray container; nullptr when the pod lists none.
const ContainerSpec* RayContainer(const Pod& pod);
/// By name: the order of statuses is not the spec's. nullptr when there is none yet.
const ContainerStatus* FindStatus(const std::vector<ContainerStatus>& statuses,
                                  const std::string& name);
const ContainerStatus* RayStatus(const Pod& pod);

/// Phase Succeeded or Failed: the pod will run nothing any more.
bool PodEnded(const Pod& pod);

/// Pods that KubeRay keeps for a group: replicas within min..max, times hosts per replica.
std::int64_t PodsOfGroup(const RayGroup& group);
/// Pods that the RayCluster asks for (head included); with autoscaling the least it may have, 0
/// when suspended.
std::int64_t AskedPods(const RayCluster& cluster);

}  // namespace dlc
