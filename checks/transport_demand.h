#pragma once

#include <map>
#include <optional>
#include <string>

#include "checks/nccl_evidence.h"
#include "checks/policy.h"
#include "probes/observations/cluster.h"
#include "probes/observations/fabric.h"
#include "probes/observations/observed.h"
#include "probes/observations/ranks.h"

namespace dlc {

/// What must be known at least of what carried a rank's bytes.
struct TransportDemand {
  std::optional<TransportLevel> least;  ///< nullopt: nothing is asked for, or it is not known
  bool by_policy = false;               ///< the policy names the level, or requires EFA
  bool unknown = false;                 ///< whether the rank should have EFA could not be seen
  std::string source;                   ///< "policy:nccl.transport"
  std::string why;                      ///< "g6.12xlarge has EFA"
};

/// `type`: of the rank's node, empty where it is not known. `fabric`: what the rank's pod holds.
TransportDemand DemandOf(const Policy& policy, const std::string& type,
                         const Observed<NodeFabric>& fabric);

/// The policy names a level, so that ranks must have shown it.
bool NamesTransport(const Policy& policy);
/// That, or it requires EFA: ranks that run are asked for it, wherever they are.
bool DemandsEfa(const Policy& policy);

/// Instance types of the nodes that pods run on, by pod name, which is a rank's host name.
std::map<std::string, std::string> InstanceTypesOfPods(const ClusterFacts& facts);

/// Empty where it is not known, and for a rank that was lost.
std::string TypeOfRank(const std::map<std::string, std::string>& types_of_pods,
                       const RankReport& report);

/// What the rank's pod holds, by its step fabric-node.
Observed<NodeFabric> FabricOfRank(const RankReport& report);

}  // namespace dlc
