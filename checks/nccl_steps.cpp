#include "checks/nccl_steps.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace dlc {
namespace {

std::vector<std::string> StepNames(const RankRun& run) {
  std::vector<std::string> names;
  for (const RankReport& report : run.ranks) {
    if (const RankObservations* seen = report.seen.get()) {
      for (const auto& result : seen->nccl_collectives) {
        if (std::find(names.begin(), names.end(), result.step) == names.end()) {
          names.push_back(result.step);
        }
      }
    }
  }
  return names;
}

std::string ForcedNetwork(const NcclStep& step) {
  for (const auto& rank : step.ranks) {
    if (const NcclExperiment* seen = rank.seen.get()) {
      for (const NcclSetting& setting : seen->settings) {
        if (setting.name == "NCCL_NET" && setting.source == "dlc-probe") {
          return setting.value;
        }
      }
    }
  }
  return "";
}

/// What the rows of fabric-collectives and of NCCL have in common.
RankResult<FabricExperiment> AsFabric(const RankResult<NcclExperiment>& rank) {
  RankResult<FabricExperiment> same{rank.rank, rank.name, rank.node, {}, rank.end};
  if (const NcclExperiment* seen = rank.seen.get()) {
    same.seen = FabricExperiment{seen->library.library, seen->measured, seen->interfaces_before,
                                 seen->interfaces_after};
  } else if (rank.seen.failed()) {
    same.seen = rank.seen.error();
  } else {
    same.seen = rank.seen.why_not();
  }
  return same;
}

NcclStep StepNamed(const RankRun& run, const std::string& name) {
  NcclStep step;
  step.name = name;
  step.ranks = ResultsOf(run, &RankObservations::nccl_collectives, name);
  std::vector<RankResult<FabricExperiment>> fabric;
  fabric.reserve(step.ranks.size());
  for (const auto& rank : step.ranks) {
    fabric.push_back(AsFabric(rank));
  }
  step.rows = FabricRowsOf(fabric);
  step.forced_network = ForcedNetwork(step);
  return step;
}

/// Nodes as NCCL told them, or by what it tells them apart by.
int NodesOf(const NcclStep& step) {
  int nodes = 0;
  std::set<std::string> hosts;
  for (const auto& rank : step.ranks) {
    const NcclExperiment* seen = rank.seen.get();
    if (seen == nullptr) {
      return 0;
    }
    if (const NcclLog* log = seen->log.get()) {
      for (const NcclLoggedCommunicator& one : log->communicators) {
        nodes = std::max(nodes, one.ranks == static_cast<int>(step.ranks.size()) ? one.nodes : 0);
      }
    }
    std::string host;
    for (const NcclSetting& setting : seen->settings) {
      host = setting.name == "NCCL_HOSTID" ? setting.value : host;
    }
    const auto place = step.rows.places.find(rank.rank);
    if (host.empty() && place != step.rows.places.end()) {
      host = place->second.host + " " + place->second.boot_id;
    }
    hosts.insert(host);
  }
  return nodes > 0 ? nodes : static_cast<int>(hosts.size());
}

/// One network namespace, as all of its ranks read it: the first reading before, the last after.
struct Namespace {
  std::map<std::string, std::int64_t> before;
  std::map<std::string, std::int64_t> after;
};

void Take(const std::vector<InterfaceBytes>& read, bool first,
          std::map<std::string, std::int64_t>& kept) {
  for (const InterfaceBytes& one : read) {
    const auto [it, added] = kept.try_emplace(one.name, one.sent_bytes);
    if (!added) {
      it->second =
          first ? std::min(it->second, one.sent_bytes) : std::max(it->second, one.sent_bytes);
    }
  }
}

/// Why a rank's two readings cannot be told from one another, if so.
std::optional<Observed<std::int64_t>> NoReading(const RankResult<NcclExperiment>& rank) {
  const NcclExperiment* seen = rank.seen.get();
  if (seen == nullptr) {
    return rank.seen.failed() ? Observed<std::int64_t>(rank.seen.error())
                              : Observed<std::int64_t>(rank.seen.why_not());
  }
  for (const auto* reading : {&seen->interfaces_before, &seen->interfaces_after}) {
    if (reading->failed()) {
      return Observed<std::int64_t>(reading->error());
    }
    if (reading->not_looked_at()) {
      return Observed<std::int64_t>(reading->why_not());
    }
  }
  return std::nullopt;
}

void CountTcp(const NcclStep& step, NcclTraffic& traffic) {
  std::map<std::string, Namespace> namespaces;
  for (const auto& rank : step.ranks) {
    if (auto why = NoReading(rank)) {
      traffic.tcp_sent_bytes = std::move(*why);
      return;
    }
    const auto place = step.rows.places.find(rank.rank);
    if (place == step.rows.places.end()) {
      traffic.tcp_sent_bytes = NotLookedAt{rank.name + " did not say where it is", ""};
      return;
    }
    Namespace& own = namespaces[place->second.boot_id + " " + place->second.network_namespace];
    Take(rank.seen.value().interfaces_before.value(), true, own.before);
    Take(rank.seen.value().interfaces_after.value(), false, own.after);
  }
  traffic.loopback_counts = traffic.nodes > static_cast<int>(namespaces.size());
  std::int64_t sent = 0;
  for (const auto& [name, own] : namespaces) {
    for (const auto& [interface, after] : own.after) {
      const auto before = own.before.find(interface);
      const std::int64_t delta =
          after - (before == own.before.end() ? std::int64_t{0} : before->second);
      if (interface != "lo") {
        sent += std::max<std::int64_t>(delta, 0);
      } else if (traffic.loopback_counts) {
        traffic.loopback_sent_bytes += std::max<std::int64_t>(delta, 0);
      }
    }
  }
  traffic.tcp_sent_bytes = sent;
}

/// Why a rank's EFA counters cannot be told, if so.
std::optional<Observed<std::int64_t>> NoCounters(const RankResult<NcclExperiment>& rank) {
  const NcclExperiment* seen = rank.seen.get();
  if (seen == nullptr) {
    return NoReading(rank);
  }
  for (const auto* reading : {&seen->efa_counters_before, &seen->efa_counters_after}) {
    if (reading->failed()) {
      return Observed<std::int64_t>(reading->error());
    }
    if (reading->not_looked_at()) {
      return Observed<std::int64_t>(reading->why_not());
    }
  }
  return std::nullopt;
}

/// A device counts once, however many ranks see it: the first reading before, the last after.
void CountEfa(const NcclStep& step, NcclTraffic& traffic) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> sent;  // by machine and device
  for (const auto& rank : step.ranks) {
    if (auto why = NoCounters(rank)) {
      traffic.efa_sent_bytes = std::move(*why);
      return;
    }
    const NcclExperiment& seen = rank.seen.value();
    for (const EfaPortCounters& port : seen.efa_counters_before.value()) {
      const auto [it, added] = sent.try_emplace(rank.node + " " + port.device, port.sent_bytes, 0);
      it->second.first = std::min(it->second.first, port.sent_bytes);
    }
    for (const EfaPortCounters& port : seen.efa_counters_after.value()) {
      const auto it = sent.find(rank.node + " " + port.device);
      if (it == sent.end()) {
        traffic.efa_sent_bytes = NotLookedAt{port.device + " was not there before", ""};
        return;
      }
      it->second.second = std::max(it->second.second, port.sent_bytes);
    }
  }
  std::int64_t bytes = 0;
  for (const auto& [device, reading] : sent) {
    bytes += std::max<std::int64_t>(reading.second - reading.first, 0);
  }
  traffic.efa_sent_bytes = bytes;
}

}  // namespace

std::string NcclStep::Type() const {
  return rows.collectives.empty() ? "" : rows.collectives.front().type;
}

std::vector<NcclStep> NcclStepsOf(const RankRun& run) {
  std::vector<NcclStep> steps;
  for (const std::string& name : StepNames(run)) {
    steps.push_back(StepNamed(run, name));
  }
  return steps;
}

std::vector<const NcclStep*> AsTheJob(const std::vector<NcclStep>& steps) {
  std::vector<const NcclStep*> own;
  for (const NcclStep& step : steps) {
    if (step.name != kNcclOverEfa && step.name != kNcclOverTcp && step.forced_network.empty()) {
      own.push_back(&step);
    }
  }
  return own;
}

NcclTraffic TrafficOf(const NcclStep& step) {
  NcclTraffic traffic;
  traffic.nodes = NodesOf(step);
  CountTcp(step, traffic);
  CountEfa(step, traffic);
  if (!step.rows.unseen && traffic.nodes > 0) {
    traffic.expected = ExpectedWindow(step.rows.collectives, traffic.nodes);
  }
  return traffic;
}

bool JudgeWithoutNccl(const Observations& observations, const Policy& policy, std::string_view rule,
                      bool demanded, Judge& judge) {
  const Subject subject{"run", "ranks"};
  const Observed<RankRun>& ranks = observations.nccl_ranks;
  const bool required = demanded || policy.nccl.measure == "required";
  if (policy.nccl.measure == "no" || (policy.gpu.devices == "no" && !required)) {
    judge.NotApplicable(rule, subject,
                        policy.nccl.measure == "no"
                            ? "the policy asks for no collectives of NCCL (nccl.measure: no)"
                            : "the policy asks for no GPU (gpu.devices: no)");
    return true;
  }
  const bool not_asked =
      ranks.not_looked_at() && ranks.why_not().blocked_by.empty() && !observations.run.interrupted;
  if (not_asked && !required) {
    judge.NotApplicable(rule, subject,
                        "no ranks ran (" + ranks.why_not().reason +
                            "), and the policy demands nothing that they would show");
    return true;
  }
  if (!ranks.seen()) {
    judge.Unseen(rule, subject, "what NCCL does on the ranks", ranks);
    return true;
  }
  if (ranks.value().ranks.empty()) {
    judge.Unknown(rule, subject, {"not-looked-at", "the run had no ranks", ""});
    return true;
  }
  return false;
}

void JudgeNoSteps(const RankRun& run, const std::vector<NcclStep>& steps, std::string_view rule,
                  Judge& judge) {
  if (!steps.empty()) {
    return;
  }
  const Subject subject{"run", "ranks"};
  for (const RankReport& report : run.ranks) {
    if (!report.seen.seen()) {
      judge.Unseen(rule, subject, "what NCCL does on " + RankName(report), report.seen);
      return;
    }
  }
  judge.Unknown(rule, subject,
                {"not-looked-at", "the ranks were not asked to run collectives of NCCL", ""});
}

}  // namespace dlc
