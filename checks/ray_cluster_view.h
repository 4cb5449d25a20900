#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "checks/check.h"
#include "checks/finding.h"
#include "checks/ray_pods.h"
#include "probes/observations/cluster.h"

namespace dlc {

/// A group as the RayCluster asks for it, or a pod as it is: something with a role and a pod spec.
struct RayUnit {
  Subject subject;
  bool head = false;
  const PodSpec* spec = nullptr;
  const RayGroup* group = nullptr;  ///< the unit itself, or the group that the pod belongs to
  const Pod* pod = nullptr;         ///< null when the unit is a group
  /// Why it is not known what its resource claims give it; its limits then say too little.
  std::string claims_unread = "";
  bool by_claims = false;  ///< some of `spec`'s limits stand for claims: no manifest states them
};

/// One RayCluster: its object, its pods, or both. Points into the ClusterFacts that it was made
/// from.
struct RayClusterView {
  std::string name;                    ///< with the namespace in front when the facts span several
  const RayCluster* object = nullptr;  ///< null when only its pods were seen
  std::vector<RayUnit> groups;         ///< head first; suspended groups left out
  std::vector<std::string> suspended_groups;
  /// Live pods: neither finished nor being deleted; redis-cleanup pods are none of Ray's nodes.
  std::vector<RayUnit> pods;

  Subject ClusterSubject() const { return {"cluster", name}; }
  std::int64_t WorkerPodsAsked() const;  ///< of `groups`, 0 without the object
  std::vector<const RayUnit*> WorkerPods() const;
};

/// Clusters in the order of the facts; then those known from pod labels only.
std::vector<RayClusterView> ViewRayClusters(const ClusterFacts& facts);

/// Of the pod on that host: a pod's host name is its name. nullptr when it was not seen.
const RayUnit* UnitOfHost(const std::vector<RayClusterView>& views, std::string_view host);

/// Neither a RayCluster nor a Ray pod: one unknown for each of `rules`, with what was not seen.
void NothingOfRay(const ClusterFacts& facts, std::initializer_list<std::string_view> rules,
                  Judge& judge);

/// The Ray container runs: pod phase Running, and its container, where a status tells, is running.
bool RayContainerRuns(const Pod& pod);

}  // namespace dlc
