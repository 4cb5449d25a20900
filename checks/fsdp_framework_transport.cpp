#include "checks/fsdp_framework_transport.h"

#include <algorithm>
#include <string>
#include <utility>

#include "checks/nccl_levels.h"
#include "checks/pod_devices.h"
#include "checks/transport_demand.h"

namespace dlc {
namespace {

Observed<NcclLog> LogOf(const RankResult<FrameworkExperiment>& rank) {
  const FrameworkExperiment* seen = rank.seen.get();
  if (seen == nullptr) {
    return UnseenAs<NcclLog>(rank.seen);
  }
  const auto train =
      std::find_if(seen->processes.begin(), seen->processes.end(),
                   [](const FrameworkProcess& process) { return process.name == "train"; });
  return train == seen->processes.end()
             ? NotLookedAt{rank.name + " started no process of the framework", ""}
             : train->nccl_log;
}

Observed<NodeFabric> FabricOf(const RankReport& report) {
  const RankObservations* seen = report.seen.get();
  if (seen == nullptr || seen->fabric_node.empty()) {
    return NotLookedAt{"the rank did not look at its node's fabric", ""};
  }
  return seen->fabric_node.front().seen;
}

RankTransport TransportOf(const Policy& policy, const RankRun& run, const std::string& type,
                          const RankResult<FrameworkExperiment>& rank,
                          const Observed<NodeFabric>& fabric) {
  RankTransport one;
  one.rank = rank.rank;
  one.name = rank.name;
  one.type = type;
  one.evidence.rank = rank.rank;
  one.evidence.ranks = run.size;
  one.evidence.log = LogOf(rank);
  one.demand = DemandOf(policy, type, fabric);
  if (one.demand.least) {
    one.demand.least = std::min(*one.demand.least, TransportLevel::kEfaLogged);
  }
  one.verdict = JudgeTransport(one.evidence);
  return one;
}

}  // namespace

void JudgeFrameworkTransport(const Observations& observations, const Policy& policy,
                             const RankRun& run,
                             const std::vector<RankResult<FrameworkExperiment>>& results,
                             const Subject& subject, Judge& judge) {
  if (policy.fsdp.training.backend != "cuda") {
    judge.NotApplicable(kFrameworkTransport, subject,
                        "it trains on the CPU, without NCCL (fsdp.training.backend)");
    return;
  }
  const auto types = InstanceTypesOfPods(observations.cluster);
  std::vector<RankTransport> ranks;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const RankReport& report = run.ranks[i];
    ranks.push_back(
        TransportOf(policy, run, TypeOfRank(types, report), results[i], FabricOf(report)));
  }
  JudgeLevels(std::move(ranks), subject, judge, kFrameworkTransport);
}

}  // namespace dlc
