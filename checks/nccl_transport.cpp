#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "checks/check.h"
#include "checks/nccl_inside_node.h"
#include "checks/nccl_levels.h"
#include "checks/nccl_steps.h"
#include "checks/pod_devices.h"
#include "checks/transport_demand.h"
#include "checks/wording.h"

namespace dlc {

extern const Check kNcclTransport;  // the table in check_list.cpp finds it by this name

namespace {

constexpr std::string_view kForced = "nccl-transport/forced-network";
constexpr std::string_view kWire = "nccl-transport/bytes-on-the-wire";
constexpr std::string_view kLogsKept = "nccl-transport/logs-kept";

constexpr Rule kRules[] = {
    {kTransportLevel, Severity::kRequired, false, "NCCL's bytes went over what the policy asks for",
     "what NCCL and its plugin logged on each rank while the operations ran, every connection "
     "between nodes included, and what the counters that could be read say",
     "EFA_LOGGED: that the devices moved the bytes, where their counters were not readable; nor "
     "that "
     "a job with another environment takes the same way",
     "see what is missing in the finding; LD_LIBRARY_PATH, /dev/infiniband, FI_PROVIDER, the "
     "plugin's own warnings; then nccl-transport/forced-network for NCCL's reason"},
    {kGpuDirectRule, Severity::kRequired, false,
     "connections between nodes read GPU memory directly, where the instance type has it",
     "every network connection in the log carries GDRDMA", "how fast it is",
     "look at the plugin's GDR lines, the EFA kernel module's peer memory or DMA-BUF support"},
    {kNicsRule, Severity::kWarn, false, "the plugin found every EFA device of the pod",
     "the number of NICs in the plugin's log equals the devices that the rank can open",
     "that all of them carry bytes", "look at fi_info -p efa in the pod"},
    {kInsideNodeRule, Severity::kRequired, false, "ranks of one node reach each other GPU to GPU",
     "every connection inside a node that NCCL logged is P2P: over NVLink or PCIe, not through "
     "shared host memory or, of a run on one node, a network",
     "over which of the two; which connections over a network stay inside a node, where there are "
     "several",
     "look at gpu-peers, NCCL_P2P_DISABLE, NCCL_P2P_LEVEL and `nvidia-smi topo -m`; in containers "
     "at the namespaces that ranks of one node must share"},
    {kForced, Severity::kRequired, false,
     "NCCL starts when it may take no network but AWS's plugin",
     "with NCCL_NET naming the plugin, the communicator came up and ran an operation on all ranks",
     "that the job's own environment leads there", "read NCCL's reason in the finding"},
    {kWire, Severity::kWarn, false, "as many bytes were on the wire as the operations need",
     "bytes sent by the interfaces, or EFA devices, of all nodes together lie between what no "
     "algorithm does without and what a ring sends",
     "whose bytes they were: counters are of interfaces and devices, not of processes",
     "look for other traffic of the pods; repeat the run alone"},
    {kLogsKept, Severity::kRequired, false,
     "each rank's raw log of NCCL is kept where it was asked",
     "the file was written, and the log that was judged has the digest in the evidence",
     "that the file is still there, unchanged: compare its sha256 with the one here",
     "make the directory on every rank's host, writable for the job's user"},
};

struct Context {
  const Observations& observations;
  const RankRun& run;
  const Policy& policy;
  std::map<std::string, std::string> types;
  std::vector<NcclStep> steps;
  Judge judge;
};

Observed<NcclLog> LogOf(const RankResult<NcclExperiment>& rank) {
  return rank.seen.seen() ? rank.seen.value().log : UnseenAs<NcclLog>(rank.seen);
}

std::vector<RankTransport> TransportsOf(const Context& context, const NcclStep& step,
                                        const NcclTraffic& traffic) {
  std::vector<RankTransport> ranks;
  for (std::size_t i = 0; i < step.ranks.size(); ++i) {
    const auto& rank = step.ranks[i];
    RankTransport one;
    one.rank = rank.rank;
    one.name = rank.name;
    one.type = TypeOfRank(context.types, context.run.ranks[i]);
    one.evidence.rank = rank.rank;
    one.evidence.ranks = context.run.size;
    one.evidence.log = LogOf(rank);
    one.evidence.efa_sent_bytes = traffic.efa_sent_bytes;
    one.evidence.tcp_sent_bytes = traffic.tcp_sent_bytes;
    one.evidence.loopback_sent_bytes = traffic.loopback_sent_bytes;
    one.evidence.expected = traffic.expected;
    const Observed<NodeFabric> fabric = FabricOfRank(context.run.ranks[i]);
    one.demand = DemandOf(context.policy, one.type, fabric);
    one.usable_devices =
        fabric.seen() ? std::optional(UsableEfaDevices(fabric.value())) : std::nullopt;
    one.verdict = JudgeTransport(one.evidence);
    ranks.push_back(std::move(one));
  }
  return ranks;
}

std::string BytesText(double bytes) {
  return Fixed(bytes / 1e6, 1) + " MB";
}

/// Of the witness that carried them, where the level says which.
void JudgeWire(const NcclStep& step, const NcclTraffic& traffic,
               const std::vector<RankTransport>& ranks, Judge& judge) {
  const bool tcp = std::all_of(ranks.begin(), ranks.end(), [](const RankTransport& rank) {
    return rank.verdict.level == TransportLevel::kTcpProven;
  });
  const Observed<std::int64_t>& sent = tcp ? traffic.tcp_sent_bytes : traffic.efa_sent_bytes;
  const Subject subject{"run", "step " + step.name};
  const bool between =
      std::none_of(ranks.begin(), ranks.end(),
                   [](const RankTransport& rank) { return rank.verdict.one_node; }) &&
      traffic.nodes > 1;
  if (!between) {
    judge.NotApplicable(kWire, subject, "all ranks are on one node: nothing went between nodes");
    return;
  }
  if (!sent.seen()) {
    judge.Unseen(kWire, subject, tcp ? "the interfaces' bytes" : "the EFA devices' bytes", sent);
    return;
  }
  if (!traffic.expected || traffic.expected->most <= 0) {
    judge.Unknown(
        kWire, subject,
        {"not-looked-at", "how much the operations send is not known: they did not all run", ""});
    return;
  }
  const auto bytes = static_cast<double>(sent.value() + (tcp ? traffic.loopback_sent_bytes : 0));
  const char* metric = tcp ? "bytes sent by interfaces" : "bytes sent by EFA devices";
  const char* source = "observation:nccl_ranks.nccl_collectives";
  Finding& finding =
      judge.Decide(kWire, subject,
                   {{metric, Op::kGe, traffic.expected->least, bytes, "bytes", source},
                    {metric, Op::kLe, traffic.expected->most, bytes, "bytes", source}});
  if (finding.verdict == Verdict::kNotApplicable) {
    return;
  }
  finding.expected =
      BytesText(traffic.expected->least) + " to " + BytesText(traffic.expected->most);
  finding.actual = BytesText(bytes) + (tcp ? " over TCP" : " over EFA");
  if (tcp && traffic.loopback_counts) {
    finding.notes.emplace_back(
        "loopback is counted: several of NCCL's nodes share a network namespace");
  }
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = finding.actual + ", expected " + finding.expected;
  }
}

/// Says nothing where nobody asked for the logs.
void JudgeLogsKept(Context& context, const NcclStep& step) {
  const Subject subject{"run", "step " + step.name};
  std::vector<std::string> kept;
  for (const auto& rank : step.ranks) {
    const NcclExperiment* seen = rank.seen.get();
    if (seen != nullptr && seen->log_file.failed()) {
      context.judge.Unseen(kLogsKept, subject, "the raw log of " + rank.name, seen->log_file);
      return;
    }
    if (seen != nullptr && seen->log_file.seen()) {
      kept.push_back(seen->log_file.value() + " " + seen->log_digest.ToString());
    }
  }
  if (kept.empty()) {
    return;
  }
  Finding& finding = context.judge.Decide(
      kLogsKept, subject,
      {{"logs kept", Op::kEq, static_cast<std::int64_t>(step.ranks.size()),
        static_cast<std::int64_t>(kept.size()), "", "observation:nccl_ranks.nccl_collectives"}});
  finding.notes = std::move(kept);
}

/// NCCL's own words, where it could not start.
std::string WarningsOf(const NcclStep& step) {
  std::vector<std::string> warnings;
  for (const auto& rank : step.ranks) {
    const NcclLog* log = rank.seen.seen() ? rank.seen.value().log.get() : nullptr;
    for (const std::string& warning : log == nullptr ? std::vector<std::string>() : log->warnings) {
      if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) {
        warnings.push_back(warning);
      }
    }
  }
  return NameSome(warnings, 3);
}

void JudgeForced(Context& context, const NcclStep& step) {
  const Subject subject{"run", "step " + step.name};
  std::vector<std::string> stopped;
  const RankResult<NcclExperiment>* unseen = nullptr;
  for (const auto& rank : step.ranks) {
    const NcclExperiment* seen = rank.seen.get();
    if (seen == nullptr) {
      unseen = unseen == nullptr ? &rank : unseen;
    } else if (seen->measured.stopped_by) {
      stopped.push_back(rank.name);
    }
  }
  if (unseen != nullptr) {  // others stop for want of it, which says nothing of the network
    context.judge.Unseen(kForced, subject, "NCCL over " + step.forced_network, unseen->seen);
    return;
  }
  Finding& finding = context.judge.Decide(
      kForced, subject,
      {{"ranks where NCCL did not start or stopped", Op::kSubset, std::vector<std::string>{},
        stopped, "", "observation:nccl_ranks.nccl_collectives"},
       {"rows measured", Op::kGe, std::int64_t{1},
        static_cast<std::int64_t>(step.rows.collectives.size()), "",
        "observation:nccl_ranks.nccl_collectives"}});
  finding.expected = "NCCL starts and runs an operation on every rank";
  if (finding.verdict != Verdict::kFail) {
    finding.actual = "it did, over " + step.forced_network;
    return;
  }
  const std::string warnings = WarningsOf(step);
  finding.reason.message =
      (step.rows.unseen && step.rows.unseen->failed() ? step.rows.unseen->error().message
                                                      : "no operation ran") +
      (warnings.empty() ? "" : "; NCCL says: " + warnings);
}

std::vector<Finding> JudgeNcclTransport(const Observations& observations, const Policy& policy) {
  Judge judge(kNcclTransport, policy);
  if (observations.nccl_logs.seen()) {
    JudgeLoggedTransport(observations.nccl_logs.value(), policy, judge);
    return judge.Take();
  }
  if (JudgeWithoutNccl(observations, policy, kTransportLevel,
                       NamesTransport(policy) || policy.nccl.inside_node == "P2P", judge)) {
    return judge.Take();
  }
  const RankRun& run = observations.nccl_ranks.value();
  Context context{observations,     run,
                  policy,           InstanceTypesOfPods(observations.cluster),
                  NcclStepsOf(run), std::move(judge)};
  JudgeNoOwnSteps(run, context.steps, kTransportLevel, context.judge);
  for (const NcclStep* step : AsTheJob(context.steps)) {
    const NcclTraffic traffic = TrafficOf(*step);
    const auto ranks = TransportsOf(context, *step, traffic);
    JudgeLevels(ranks, {"run", "step " + step->name}, context.judge);
    JudgeGpuDirect(ranks, policy, {"run", "step " + step->name}, context.judge);
    JudgeInsideNode(ranks, policy, {"run", "step " + step->name}, context.judge);
    JudgeNics(ranks, context.judge);
    JudgeWire(*step, traffic, ranks, context.judge);
  }
  for (const NcclStep& step : context.steps) {
    if (step.name == kNcclOverEfa) {
      JudgeForced(context, step);
    }
    JudgeLogsKept(context, step);
  }
  std::vector<Finding> findings = context.judge.Take();
  NotePlantedFaults(run, findings);
  return findings;
}

}  // namespace

constinit const Check kNcclTransport{
    "nccl-transport",
    Stage::kNccl,
    false,
    "what carried NCCL's bytes between nodes",
    "EFA_PROVEN > EFA_LOGGED > NOT_PROVEN > TCP_PROVEN on each rank, by NCCL's and the plugin's "
    "own "
    "log, every channel line, counters of EFA ports and network interfaces against the bytes of "
    "the operations",
    kRules,
    JudgeNcclTransport,
};

}  // namespace dlc
