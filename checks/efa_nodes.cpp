#include "checks/efa_nodes.h"

#include <set>
#include <utility>

#include "checks/instance_types.h"

namespace dlc {

EfaNodes::EfaNodes(const ClusterFacts& facts, std::string resource)
    : facts_(facts), resource_(std::move(resource)) {
  if (facts.nodes.seen()) {
    by_name_ = IndexNodes(facts.nodes.value());
  }
}

HasEfa EfaNodes::EfaOf(const Node& node) const {
  if (WholeQuantity(node.allocatable, resource_).value_or(0) > 0) {
    return HasEfa::kYes;
  }
  const InstanceType* type = FindInstanceType(node.instance_type);
  if (type == nullptr) {
    return HasEfa::kUnknown;
  }
  return type->efa_interfaces > 0 ? HasEfa::kYes : HasEfa::kNo;
}

void EfaNodes::DescribeNodes(UnitNodes& unit) const {
  std::set<std::string> types;
  std::set<HasEfa> answers;
  for (const Node* node : unit.nodes) {
    types.insert(node->instance_type);
    answers.insert(EfaOf(*node));
  }
  unit.type = types.size() == 1 ? *types.begin() : "";
  if (answers.size() == 1) {
    unit.efa = *answers.begin();
  }
  if (unit.efa != HasEfa::kUnknown) {
    return;
  }
  if (answers.size() > 1) {
    unit.why_unknown = "its nodes differ: some have EFA and some have not";
  } else {
    unit.why_unknown = unit.type.empty()
                           ? "its nodes carry no single instance type that is known here"
                           : "instance type " + unit.type + " is not in this version's table";
  }
}

/// Without nodes, the nodeSelector may still name the type.
void EfaNodes::DescribeSelector(const PodSpec& spec, UnitNodes& unit) const {
  const auto it = spec.node_selector.find("node.kubernetes.io/instance-type");
  if (it != spec.node_selector.end()) {
    unit.type = it->second;
    const InstanceType* type = FindInstanceType(unit.type);
    if (type != nullptr) {
      unit.efa = type->efa_interfaces > 0 ? HasEfa::kYes : HasEfa::kNo;
      return;
    }
    unit.why_unknown = "instance type " + unit.type + " is not in this version's table";
    return;
  }
  unit.why_unknown = seen() ? "no node fits its nodeSelector and tolerations"
                            : "the nodes were not seen, so their type is not known";
}

UnitNodes EfaNodes::OfGroup(const RayClusterView& view, const RayUnit& unit) const {
  UnitNodes result;
  std::set<const Node*> placed;
  for (const RayUnit& pod : view.pods) {
    if (pod.group == unit.group) {
      if (const auto it = by_name_.find(pod.pod->node); it != by_name_.end()) {
        placed.insert(it->second);
      }
    }
  }
  result.placed = !placed.empty();
  if (result.placed) {
    result.nodes.assign(placed.begin(), placed.end());
  } else if (seen()) {
    result.nodes = FitNodes(*unit.spec, facts_.nodes.value()).nodes;
  }
  if (result.nodes.empty()) {
    DescribeSelector(*unit.spec, result);
  } else {
    DescribeNodes(result);
  }
  return result;
}

const UnitNodes& EfaNodes::OfPod(const RayUnit& unit,
                                 const std::map<const RayGroup*, UnitNodes>& by_group,
                                 UnitNodes& own) const {
  own = {};
  if (const auto it = by_name_.find(unit.pod->node); it != by_name_.end()) {
    own.placed = true;
    own.nodes = {it->second};
    DescribeNodes(own);
    return own;
  }
  if (const auto it = by_group.find(unit.group); it != by_group.end()) {
    return it->second;
  }
  DescribeSelector(*unit.spec, own);
  return own;
}

}  // namespace dlc
