#include "checks/nccl_steps.h"

#include <algorithm>
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
  } else {
    same.seen = UnseenAs<FabricExperiment>(rank.seen);
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

/// A counter that several ranks read: the first reading before, the last after.
struct Counter {
  std::optional<std::int64_t> before;
  std::optional<std::int64_t> after;

  void Before(std::int64_t bytes) { before = std::min(before.value_or(bytes), bytes); }
  void After(std::int64_t bytes) { after = std::max(after.value_or(bytes), bytes); }
  /// One that was not there before has counted from 0.
  std::int64_t Sent() const {
    return std::max<std::int64_t>(after.value_or(0) - before.value_or(0), 0);
  }
};

/// Why a rank's two readings are not both there, if so.
template <class T>
std::optional<Observed<std::int64_t>> WhyUnread(const RankResult<NcclExperiment>& rank,
                                                Observed<T> NcclExperiment::*before,
                                                Observed<T> NcclExperiment::*after) {
  if (!rank.seen.seen()) {
    return UnseenAs<std::int64_t>(rank.seen);
  }
  for (const auto reading : {before, after}) {
    if (const Observed<T>& read = rank.seen.value().*reading; !read.seen()) {
      return UnseenAs<std::int64_t>(read);
    }
  }
  return std::nullopt;
}

void CountTcp(const NcclStep& step, NcclTraffic& traffic) {
  std::map<std::string, std::map<std::string, Counter>> namespaces;  // their interfaces by name
  for (const auto& rank : step.ranks) {
    if (auto why = WhyUnread(rank, &NcclExperiment::interfaces_before,
                             &NcclExperiment::interfaces_after)) {
      traffic.tcp_sent_bytes = std::move(*why);
      return;
    }
    const auto place = step.rows.places.find(rank.rank);
    if (place == step.rows.places.end()) {
      traffic.tcp_sent_bytes = NotLookedAt{rank.name + " did not say where it is", ""};
      return;
    }
    auto& own = namespaces[place->second.boot_id + " " + place->second.network_namespace];
    for (const InterfaceBytes& one : rank.seen.value().interfaces_before.value()) {
      own[one.name].Before(one.sent_bytes);
    }
    for (const InterfaceBytes& one : rank.seen.value().interfaces_after.value()) {
      own[one.name].After(one.sent_bytes);
    }
  }
  traffic.loopback_counts = traffic.nodes > static_cast<int>(namespaces.size());
  std::int64_t sent = 0;
  for (const auto& [name, interfaces] : namespaces) {
    for (const auto& [interface, counter] : interfaces) {
      if (interface != "lo") {
        sent += counter.Sent();
      } else if (traffic.loopback_counts) {
        traffic.loopback_sent_bytes += counter.Sent();
      }
    }
  }
  traffic.tcp_sent_bytes = sent;
}

/// A device counts once, however many ranks see it.
void CountEfa(const NcclStep& step, NcclTraffic& traffic) {
  std::map<std::string, Counter> devices;  // by machine and name
  for (const auto& rank : step.ranks) {
    if (auto why = WhyUnread(rank, &NcclExperiment::efa_counters_before,
                             &NcclExperiment::efa_counters_after)) {
      traffic.efa_sent_bytes = std::move(*why);
      return;
    }
    const NcclExperiment& seen = rank.seen.value();
    for (const EfaPortCounters& port : seen.efa_counters_before.value()) {
      devices[rank.node + " " + port.device].Before(port.sent_bytes);
    }
    for (const EfaPortCounters& port : seen.efa_counters_after.value()) {
      devices[rank.node + " " + port.device].After(port.sent_bytes);
    }
  }
  std::int64_t sent = 0;
  for (const auto& [device, counter] : devices) {
    if (!counter.before) {
      traffic.efa_sent_bytes = NotLookedAt{device + " was not there before", ""};
      return;
    }
    sent += counter.Sent();
  }
  traffic.efa_sent_bytes = sent;
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
  const bool required = demanded || policy.nccl.measure == "required";
  if (policy.nccl.measure == "no" || (policy.gpu.devices == "no" && !required)) {
    judge.NotApplicable(rule, {"run", "ranks"},
                        policy.nccl.measure == "no"
                            ? "the policy asks for no collectives of NCCL (nccl.measure: no)"
                            : "the policy asks for no GPU (gpu.devices: no)");
    return true;
  }
  return JudgeWithoutRanks(observations, observations.nccl_ranks, rule,
                           "what NCCL does on the ranks", required ? "" : kNothingDemanded, judge);
}

void JudgeNoOwnSteps(const RankRun& run, const std::vector<NcclStep>& steps, std::string_view rule,
                     Judge& judge) {
  if (!AsTheJob(steps).empty()) {
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
                {"not-looked-at",
                 "the ranks were not asked to run collectives of NCCL as the job would", ""});
}

}  // namespace dlc
