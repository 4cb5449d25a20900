#include "checks/transport_demand.h"

#include <algorithm>

#include "checks/instance_types.h"
#include "checks/node_fit.h"
#include "checks/pod_devices.h"

namespace dlc {
namespace {

/// "any" is a demand for nothing.
std::optional<TransportLevel> LevelNamed(const std::string& name) {
  if (name == TransportLevelName(TransportLevel::kEfaProven)) {
    return TransportLevel::kEfaProven;
  }
  if (name == TransportLevelName(TransportLevel::kEfaLogged)) {
    return TransportLevel::kEfaLogged;
  }
  return std::nullopt;
}

TransportDemand Named(const std::string& level, const char* source) {
  TransportDemand demand;
  demand.least = LevelNamed(level);
  demand.by_policy = demand.least.has_value();
  demand.source = source;
  demand.why = "the policy asks for " + level;
  return demand;
}

/// fabric.efa: when-available.
TransportDemand WhereAvailable(const std::string& type, const Observed<NodeFabric>& fabric) {
  TransportDemand demand;
  demand.source = "policy:fabric.efa";
  const InstanceType* known = FindInstanceType(type);
  if (known != nullptr) {
    demand.why = type + (known->efa_interfaces > 0 ? " has EFA" : " has no EFA");
    if (known->efa_interfaces > 0) {
      demand.least = TransportLevel::kEfaLogged;
    }
    return demand;
  }
  const NodeFabric* node = fabric.get();
  if (node != nullptr && UsableEfaDevices(*node) > 0) {
    demand.least = TransportLevel::kEfaLogged;
    demand.why = "the pod holds EFA devices";
    return demand;
  }
  const auto* functions = node == nullptr ? nullptr : node->efa_functions.get();
  if (functions == nullptr) {
    demand.unknown = true;
    demand.why = "whether the node has EFA was not seen";
  } else if (!functions->empty()) {
    demand.least = TransportLevel::kEfaLogged;
    demand.why = "the node has EFA devices";
  } else {
    demand.why = "there is no EFA device on the node";
  }
  return demand;
}

}  // namespace

TransportDemand DemandOf(const Policy& policy, const std::string& type,
                         const Observed<NodeFabric>& fabric) {
  const auto of_type = policy.nccl.transport_of_type.find(type);
  if (of_type != policy.nccl.transport_of_type.end()) {
    return Named(of_type->second, "policy:nccl.transportByInstanceType");
  }
  if (!policy.nccl.transport.empty()) {
    return Named(policy.nccl.transport, "policy:nccl.transport");
  }
  if (policy.fabric.efa == "required") {
    TransportDemand demand = Named("EFA_LOGGED", "policy:fabric.efa");
    demand.why = "the policy requires EFA (fabric.efa)";
    return demand;
  }
  if (policy.fabric.efa == "no") {
    TransportDemand demand;
    demand.source = "policy:fabric.efa";
    demand.why = "the policy asks for no EFA (fabric.efa: no)";
    return demand;
  }
  return WhereAvailable(type, fabric);
}

bool NamesTransport(const Policy& policy) {
  const auto& types = policy.nccl.transport_of_type;
  return LevelNamed(policy.nccl.transport).has_value() ||
         std::any_of(types.begin(), types.end(),
                     [](const auto& type) { return LevelNamed(type.second).has_value(); });
}

bool DemandsEfa(const Policy& policy) {
  return NamesTransport(policy) ||
         (policy.nccl.transport.empty() && policy.fabric.efa == "required");
}

std::map<std::string, std::string> InstanceTypesOfPods(const ClusterFacts& facts) {
  std::map<std::string, std::string> types;
  const auto* pods = facts.pods.get();
  const auto* nodes = facts.nodes.get();
  if (pods == nullptr || nodes == nullptr) {
    return types;
  }
  const NodesByName by_name = IndexNodes(*nodes);
  for (const Pod& pod : *pods) {
    const auto node = by_name.find(pod.node);
    if (node != by_name.end() && !node->second->instance_type.empty()) {
      types[pod.name] = node->second->instance_type;
    }
  }
  return types;
}

std::string TypeOfRank(const std::map<std::string, std::string>& types_of_pods,
                       const RankReport& report) {
  const RankObservations* seen = report.seen.get();
  const auto type = seen == nullptr ? types_of_pods.end() : types_of_pods.find(seen->facts.host);
  return type == types_of_pods.end() ? "" : type->second;
}

Observed<NodeFabric> FabricOfRank(const RankReport& report) {
  const RankObservations* seen = report.seen.get();
  if (seen == nullptr || seen->fabric_node.empty()) {
    return NotLookedAt{"the rank did not look at its node's fabric", ""};
  }
  return seen->fabric_node.front().seen;
}

}  // namespace dlc
