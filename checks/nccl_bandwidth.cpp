#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "checks/check.h"
#include "checks/instance_types.h"
#include "checks/nccl_imports.h"
#include "checks/nccl_steps.h"
#include "checks/transport_demand.h"
#include "checks/wording.h"

namespace dlc {

extern const Check kNcclBandwidth;  // the table in check_list.cpp finds it by this name

namespace {

constexpr std::string_view kPlausible = "nccl-bandwidth/plausible";
constexpr std::string_view kControl = "nccl-bandwidth/tcp-control";

constexpr std::string_view kNotTransport =
    "what carried the bytes: a fast fallback is a fallback (nccl-transport says what it was)";

constexpr Rule kRules[] = {
    {kNcclBusBandwidth, Severity::kRequired, false, "collectives reach the bandwidth of the policy",
     "busbw as nccl-tests 2.19 counts it, of that collective, type and size: host time over all "
     "iterations, mean of all ranks, the slower placement",
     kNotTransport,
     "compare with nccl-bandwidth/tcp-control; look at placement, NICs found, NCCL_PROTO and "
     "NCCL_ALGO"},
    {kUncalibrated, Severity::kWarn, false,
     "collectives reach a share of the line rate for which no published number exists",
     "busbw as nccl-tests 2.19 counts it, against a share that nobody has calibrated on this type",
     kNotTransport, "measure once on a cluster that you trust, and put that number in the policy"},
    {kPlausible, Severity::kRequired, false, "no number is above what the line can carry",
     "no collective between nodes was faster than any algorithm can be on the instance's network",
     kNotTransport,
     "the measurement is wrong: are the ranks on the nodes that they are thought to be on?"},
    {kControl, Severity::kWarn, false, "the job's network is faster than sockets",
     "the same operation in the same run over NET/Socket, on the same ranks", kNotTransport,
     "a ratio near 1 says that both runs took the same way"},
    {kMeasurementValid, Severity::kRequired, false,
     "the imported output is one whole test between nodes",
     "one table of ranks 0 to N-1 on several hosts, every row read, results compared and right",
     kNotTransport, "build nccl-tests with MPI=1 and run it to its end with -c 1"},
};

struct Context {
  const Observations& observations;
  const RankRun& run;
  const Policy& policy;
  std::vector<NcclStep> steps;
  const InstanceType* type = nullptr;  ///< of all ranks' nodes; null: not known, or they differ
  std::string type_name;
  Judge judge;
};

void FindType(Context& context) {
  const auto types = InstanceTypesOfPods(context.observations.cluster);
  std::set<std::string> names;
  for (const RankReport& report : context.run.ranks) {
    names.insert(TypeOfRank(types, report));
  }
  if (names.size() == 1) {
    context.type_name = *names.begin();
    context.type = FindInstanceType(context.type_name);
  }
}

bool OnSeveralMachines(const CollectiveMeasurement& row) {
  return row.machines > 1 && row.ranks > 1;
}

std::string RowText(const CollectiveMeasurement& row) {
  return row.collective + " of " + std::to_string(row.size_bytes) + " bytes, " + row.type +
         (row.in_place ? ", in place" : "") + ": " +
         Fixed(row.bus_bandwidth_bytes_per_second / 1e9, 3) + " GB/s busbw, " +
         Fixed(row.mean_seconds * 1e6, 1) + " us (" + Fixed(row.min_seconds * 1e6, 1) + " to " +
         Fixed(row.max_seconds * 1e6, 1) + " over ranks)";
}

const CollectiveMeasurement* SlowestRow(const Context& context, const NcclBandwidthLimit& limit) {
  const CollectiveMeasurement* slowest = nullptr;
  for (const NcclStep* step : AsTheJob(context.steps)) {
    for (const CollectiveMeasurement& row : step->rows.collectives) {
      const bool asked = row.collective == limit.collective && row.type == limit.type &&
                         row.asked_bytes == limit.size_bytes && OnSeveralMachines(row);
      if (asked && (slowest == nullptr ||
                    row.bus_bandwidth_bytes_per_second < slowest->bus_bandwidth_bytes_per_second)) {
        slowest = &row;
      }
    }
  }
  return slowest;
}

std::optional<Observed<FabricExperiment>> WhyNoRow(const Context& context) {
  for (const NcclStep* step : AsTheJob(context.steps)) {
    if (step->rows.unseen) {
      return step->rows.unseen;
    }
  }
  return std::nullopt;
}

void DecideLimit(Context& context, const NcclBandwidthLimit& limit) {
  const std::string what =
      limit.collective + " of " + std::to_string(limit.size_bytes) + " bytes, " + limit.type;
  const Subject subject{"run", what};
  const LimitInBytes bytes = InBytes(limit, context.type, context.type_name);
  const std::string_view rule = bytes.calibrated ? kNcclBusBandwidth : kUncalibrated;
  if (!bytes.why_not.empty()) {
    context.judge.Unknown(rule, subject, {"not-looked-at", bytes.why_not, ""});
    return;
  }
  if (const CollectiveMeasurement* row = SlowestRow(context, limit)) {
    Finding& finding = context.judge.Decide(
        rule, subject,
        {{"busbw of " + what, Op::kGe, bytes.bytes_per_second, row->bus_bandwidth_bytes_per_second,
          "bytes/s", "policy:nccl.minBusBandwidth"}});
    finding.notes.push_back(RowText(*row) + ", " +
                            Count(static_cast<std::size_t>(row->ranks), "rank") + " on " +
                            Count(static_cast<std::size_t>(row->machines), "machine"));
    if (!bytes.note.empty()) {
      finding.notes.push_back(bytes.note);
    }
    return;
  }
  if (const auto unseen = WhyNoRow(context)) {
    context.judge.Unseen(rule, subject, what, *unseen);
    return;
  }
  context.judge.Unknown(
      rule, subject,
      {"not-looked-at", "no such row of ranks on several machines was measured", ""});
}

void ShowRows(Context& context) {
  for (const NcclStep* step : AsTheJob(context.steps)) {
    std::vector<std::string> notes;
    bool across = false;
    for (const CollectiveMeasurement& row : step->rows.collectives) {
      if (row.ranks > 1) {
        notes.push_back(RowText(row));
        across = across || OnSeveralMachines(row);
      }
    }
    if (notes.empty()) {
      continue;
    }
    context.judge
        .NotApplicable(kNcclBusBandwidth, {"run", "step " + step->name},
                       across ? "measured; limits are judged apart"
                              : "all ranks are on one machine: such numbers are no fabric's, so no "
                                "limit applies")
        .notes = std::move(notes);
  }
}

/// Between nodes alone: what stays inside a node has no line to be held against.
void JudgePlausible(Context& context) {
  const Subject subject{"run", "collectives between nodes"};
  std::vector<Assertion> above;
  std::optional<Assertion> nearest;
  for (const NcclStep& step : context.steps) {
    for (const CollectiveMeasurement& row : step.rows.collectives) {
      const double bound = context.type == nullptr || !OnSeveralMachines(row)
                               ? 0
                               : BusBandwidthBound(row.collective, row.ranks, row.machines,
                                                   context.type->line_rate_gbps);
      if (bound <= 0) {
        continue;
      }
      Assertion assertion{"busbw of " + row.collective + " of " + std::to_string(row.size_bytes) +
                              " bytes, " + row.type,
                          Op::kLe,
                          bound,
                          row.bus_bandwidth_bytes_per_second,
                          "bytes/s",
                          "constant"};
      if (!Holds(assertion)) {
        above.push_back(assertion);
      }
      const double share = row.bus_bandwidth_bytes_per_second / bound;
      if (!nearest ||
          share > std::get<double>(nearest->observed) / std::get<double>(nearest->limit)) {
        nearest = std::move(assertion);
      }
    }
  }
  if (nearest) {
    context.judge.Decide(kPlausible, subject, above.empty() ? std::vector{*nearest} : above)
        .notes.push_back(context.type_name + ": " + Fixed(context.type->line_rate_gbps, 0) +
                         " Gbit/s");
    return;
  }
  context.judge.NotApplicable(kPlausible, subject,
                              context.type == nullptr || context.type->line_rate_gbps <= 0
                                  ? "the instance type's line rate is not known"
                                  : "no row of ranks on several machines was measured");
}

/// The largest all-reduce that both steps have.
void JudgeControl(Context& context) {
  const NcclStep* control = nullptr;
  for (const NcclStep& step : context.steps) {
    control = step.name == kNcclOverTcp ? &step : control;
  }
  if (control == nullptr) {
    return;
  }
  const CollectiveMeasurement* slow = nullptr;
  const CollectiveMeasurement* own = nullptr;
  for (const CollectiveMeasurement& row : control->rows.collectives) {
    for (const NcclStep* step : AsTheJob(context.steps)) {
      for (const CollectiveMeasurement& other : step->rows.collectives) {
        const bool same = row.collective == "all_reduce" && other.collective == row.collective &&
                          other.type == row.type && other.size_bytes == row.size_bytes &&
                          other.in_place == row.in_place;
        if (same && (slow == nullptr || row.size_bytes > slow->size_bytes)) {
          slow = &row;
          own = &other;
        }
      }
    }
  }
  const Subject subject{"run", "step " + control->name};
  if (slow == nullptr || slow->bus_bandwidth_bytes_per_second <= 0) {
    if (control->rows.unseen) {
      context.judge.Unseen(kControl, subject, "the run over sockets", *control->rows.unseen);
    } else {
      context.judge.Unknown(kControl, subject,
                            {"not-looked-at", "the two runs have no all_reduce in common", ""});
    }
    return;
  }
  const double ratio = own->bus_bandwidth_bytes_per_second / slow->bus_bandwidth_bytes_per_second;
  const std::string text = "the job's network is " + Fixed(ratio, 2) +
                           " times as fast as sockets at " + std::to_string(slow->size_bytes) +
                           " bytes";
  if (!OnSeveralMachines(*slow)) {
    context.judge.NotApplicable(kControl, subject, "on one machine: " + text);
    return;
  }
  Finding& finding = context.judge.Decide(
      kControl, subject, {{"busbw over that of sockets", Op::kGt, 1.0, ratio, "", "constant"}});
  finding.notes = {text, RowText(*own), "over sockets: " + RowText(*slow)};
}

std::vector<Finding> JudgeNcclBandwidth(const Observations& observations, const Policy& policy) {
  Judge judge(kNcclBandwidth, policy);
  if (observations.nccl_tests.seen()) {
    JudgeNcclTests(observations.nccl_tests.value(), policy, judge);
    return judge.Take();
  }
  if (JudgeWithoutNccl(observations, policy, kNcclBusBandwidth,
                       !policy.nccl.min_bus_bandwidth.empty(), judge)) {
    return judge.Take();
  }
  const RankRun& run = observations.nccl_ranks.value();
  Context context{observations, run, policy, NcclStepsOf(run), nullptr, "", std::move(judge)};
  FindType(context);
  JudgeNoOwnSteps(run, context.steps, kNcclBusBandwidth, context.judge);
  for (const NcclBandwidthLimit& limit : policy.nccl.min_bus_bandwidth) {
    DecideLimit(context, limit);
  }
  ShowRows(context);
  JudgePlausible(context);
  JudgeControl(context);
  std::vector<Finding> findings = context.judge.Take();
  NotePlantedFaults(run, findings);
  return findings;
}

}  // namespace

constinit const Check kNcclBandwidth{
    "nccl-bandwidth",
    Stage::kNccl,
    false,
    "NCCL's collectives between nodes are fast enough, and not faster than the line",
    "busbw at a named size, type and number of nodes, measured as nccl-tests measures; limits in "
    "bytes/s or as a share of the instance type's line rate",
    kRules,
    JudgeNcclBandwidth,
};

}  // namespace dlc
