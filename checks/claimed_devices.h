#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checks/finding.h"
#include "checks/policy.h"
#include "checks/ray_cluster_view.h"
#include "probes/observations/cluster.h"

namespace dlc {

/// A cluster whose pods get GPUs or EFA interfaces by resource claims (DRA), as if they were
/// limits: what a claim of the Ray container was given counts as that container's limit of
/// `gpu.resource` or `fabric.resource`, what ResourceSlices publish for a node as its allocatable,
/// where the node has no such key. Without claims it is the cluster itself.
///
/// A group is given what all of its pods were given alike: its template does not tell.
class ClaimedCluster {
 public:
  /// `facts` must outlive it.
  ClaimedCluster(const ClusterFacts& facts, const Policy& policy);
  ClaimedCluster(const ClaimedCluster&) = delete;
  ClaimedCluster& operator=(const ClaimedCluster&) = delete;

  const ClusterFacts& Facts() const { return own_ ? *own_ : facts_; }
  /// ViewRayClusters of Facts(), with claims_unread where a unit's claims are not known.
  std::vector<RayClusterView> Views() const;
  /// Says of findings about units and nodes which of their numbers come from claims and slices.
  void Explain(const std::vector<RayClusterView>& views, std::vector<Finding>& findings) const;

 private:
  struct Given;
  std::string WhyUnread(const Pod& pod) const;
  std::string Add(const ContainerClaim& use, const ResourceClaim& claim, Given& given) const;
  Given GivenTo(const Pod& pod) const;
  Given GivenTo(const RayCluster& cluster, const RayGroup& group, bool head) const;
  const SliceDevice* Find(const ClaimedDevice& device) const;
  void Apply(const Given& given, PodSpec& spec);
  void AddToNodes();

  const ClusterFacts& facts_;
  std::string gpu_;
  std::string efa_;
  std::map<std::string, const SliceDevice*> devices_;        ///< by driver, pool and name
  std::map<std::string, std::map<std::string, int>> nodes_;  ///< node -> resource -> devices
  std::optional<ClusterFacts> own_;
  std::map<const PodSpec*, std::string>
      unread_;  ///< of own_: why what they were given is not known
  std::map<const PodSpec*, std::string> notes_;
  std::map<std::string, std::string> node_notes_;
};

/// The unit states no limit of `resource`, and claims that may stand for one were not read.
bool IsLimitUnknown(const RayUnit& unit, const std::string& resource);

}  // namespace dlc
