#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checks/node_fit.h"
#include "checks/ray_cluster_view.h"

namespace dlc {

enum class HasEfa : std::uint8_t { kNo, kYes, kUnknown };

/// The nodes that a unit's pods run on or may run on, and what is known of their EFA.
struct UnitNodes {
  std::vector<const Node*> nodes;
  bool placed = false;
  std::string type;  ///< if all nodes (or the nodeSelector) name one
  HasEfa efa = HasEfa::kUnknown;
  std::string why_unknown;
};

/// Which nodes the worker units of a cluster have.
class EfaNodes {
 public:
  /// `resource` is the one by which nodes offer EFA interfaces. Points into `facts`.
  EfaNodes(const ClusterFacts& facts, std::string resource);

  bool seen() const { return facts_.nodes.seen(); }
  UnitNodes OfGroup(const RayClusterView& view, const RayUnit& unit) const;
  /// A pod on no node that was seen is taken like its group: the group's entry then, else `own`.
  /// Nodes are searched and copied once per group, never once per pod.
  const UnitNodes& OfPod(const RayUnit& unit, const std::map<const RayGroup*, UnitNodes>& by_group,
                         UnitNodes& own) const;

 private:
  HasEfa EfaOf(const Node& node) const;
  void DescribeNodes(UnitNodes& unit) const;
  void DescribeSelector(const PodSpec& spec, UnitNodes& unit) const;

  const ClusterFacts& facts_;
  std::string resource_;
  NodesByName by_name_;
};

}  // namespace dlc
