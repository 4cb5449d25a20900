#include "checks/fsdp_framework_transport.h"

#include <algorithm>
#include <string>
#include <utility>

#include "checks/fsdp_framework_runs.h"
#include "checks/nccl_levels.h"
#include "checks/transport_demand.h"

namespace dlc {
namespace {

const FrameworkProcess* TrainOf(const RankResult<FrameworkExperiment>& rank) {
  const FrameworkExperiment* seen = rank.seen.get();
  return seen == nullptr ? nullptr : FrameworkProcessNamed(*seen, "train");
}

Observed<NcclLog> LogOf(const RankResult<FrameworkExperiment>& rank) {
  if (!rank.seen.seen()) {
    return UnseenAs<NcclLog>(rank.seen);
  }
  const FrameworkProcess* train = TrainOf(rank);
  return train == nullptr ? NotLookedAt{rank.name + " started no process of the framework", ""}
                          : train->nccl_log;
}

/// Of a rank on the process's host; Ray Train's worker need not be where the rank of its number
/// was.
RankReport ReportWhere(const RankRun& run, std::size_t rank,
                       const RankResult<FrameworkExperiment>& result) {
  const FrameworkProcess* train = TrainOf(result);
  if (train == nullptr || train->host.empty()) {
    return run.ranks[rank];
  }
  const auto there =
      std::find_if(run.ranks.begin(), run.ranks.end(), [&](const RankReport& report) {
        return report.seen.seen() && report.seen.value().facts.host == train->host;
      });
  return there == run.ranks.end() ? RankReport{} : *there;
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
    const RankReport report = ReportWhere(run, i, results[i]);
    ranks.push_back(
        TransportOf(policy, run, TypeOfRank(types, report), results[i], FabricOfRank(report)));
  }
  JudgeLevels(std::move(ranks), subject, judge, kFrameworkTransport);
}

}  // namespace dlc
