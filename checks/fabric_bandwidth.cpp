#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "checks/check.h"
#include "checks/fabric_limits.h"
#include "checks/fabric_rows.h"

namespace dlc {

extern const Check kFabricBandwidth;  // the table in check_list.cpp finds it by this name

namespace {

constexpr std::string_view kRightData = "fabric-bandwidth/right-data";
constexpr std::string_view kSameLibrary = "fabric-bandwidth/same-library";
constexpr std::string_view kProviderUsed = "fabric-bandwidth/provider";

constexpr std::string_view kHostMemory =
    "that NCCL takes the same way, nor anything of GPU memory: the messages are of host memory, by "
    "libfabric alone";

constexpr Rule kRules[] = {
    {kRightData, Severity::kRequired, false, "what ranks send each other arrives bit for bit",
     "every element of the checked messages and collectives was compared where it arrived",
     kHostMemory, "look at the rank named: its log, its node, its links; then run the pair alone"},
    {kSameLibrary, Severity::kRequired, false,
     "every rank has the same libfabric with the same providers",
     "version and build id of the library that was mapped, and names and versions of its "
     "providers, are equal on every rank",
     "that NCCL loads this copy", "run one image by digest on every node; look at LD_LIBRARY_PATH"},
    {kProviderUsed, Severity::kRequired, false, "messages went by the provider of the policy",
     "libfabric opened its endpoint with that provider on every rank", kHostMemory,
     "look at /dev/infiniband, `ulimit -l` and FI_PROVIDER in the pod, in this order"},
    {kPairLatencyRule, Severity::kRequired, false, "messages between two ranks are quick enough",
     "the mean half round trip of every pair on different machines", kHostMemory,
     "look at the pair named: placement, security groups, other load on its nodes"},
    {kPairBandwidthRule, Severity::kRequired, false, "two ranks reach the bandwidth of the policy",
     "the rate of windowed messages, each way, of every pair on different machines", kHostMemory,
     "look at the pair named: its provider, its interfaces, other load on its nodes"},
    {kBusBandwidthRule, Severity::kRequired, false,
     "collectives of all ranks reach the bandwidth of the policy",
     "busbw as nccl-tests counts it, mean time of all ranks", kHostMemory,
     "see which pair is slow (pair-bandwidth); then look at placement and interfaces"},
};

const Subject kPairs{"run", "pairs of ranks"};
const Subject kCollectives{"run", "collectives"};

struct Context {
  const RankRun& run;
  const Policy& policy;
  FabricRows pairs;
  FabricRows collectives;
  Judge judge;
};

bool Demands(const FabricPolicy& policy) {
  return !policy.provider.empty() || policy.min_pair_bandwidth || policy.max_pair_latency ||
         !policy.min_bus_bandwidth.empty();
}

/// A wrong element is wrong, however early the run ended; right ones are only all if it ended well.
void JudgeData(Context& context, const Subject& subject, const FabricRows& rows,
               const std::string& wrong_text, std::vector<Assertion> assertions,
               const std::string& seen_text) {
  if (wrong_text.empty() && rows.unseen) {
    context.judge.Unseen(kRightData, subject, "all that they move", *rows.unseen);
    return;
  }
  Finding& finding = context.judge.Decide(kRightData, subject, std::move(assertions));
  if (finding.verdict == Verdict::kNotApplicable) {
    return;
  }
  if (!wrong_text.empty()) {
    finding.expected = "every element arrives as it was sent";
    finding.actual = wrong_text;
    finding.reason.message = wrong_text;
  } else if (finding.verdict == Verdict::kPass) {
    finding.expected = "every element arrives as it was sent";
    finding.actual = seen_text;
  }
  finding.notes.push_back("over " + ProvidersText(context.run, rows));
}

void JudgePairData(Context& context) {
  std::int64_t wrong = 0;
  std::int64_t checked = 0;
  for (const PairMeasurement& pair : context.pairs.pairs) {
    wrong += pair.wrong_at_a + pair.wrong_at_b;
    checked += pair.checked_elements;
  }
  const std::int64_t ranks = context.run.size;
  const std::int64_t measured = CountPairs(context.pairs);
  const char* source = "observation:nccl_ranks.fabric_pairs";
  JudgeData(context, kPairs, context.pairs, WrongPairsText(context.run, context.pairs),
            {{"wrong elements", Op::kEq, std::int64_t{0}, wrong, "", source},
             {"elements compared", Op::kGe, std::int64_t{1}, checked, "", source},
             {"pairs of ranks measured", Op::kEq, ranks * (ranks - 1) / 2, measured, "", source}},
            std::to_string(checked) + " elements between " + std::to_string(measured) +
                " pairs of ranks did");
}

void JudgeCollectiveData(Context& context) {
  const auto [wrong, checked] = CheckedElements(context.collectives.collectives);
  const char* source = "observation:nccl_ranks.fabric_collectives";
  JudgeData(context, kCollectives, context.collectives,
            WrongCollectivesText(context.run, context.collectives),
            {{"wrong elements", Op::kEq, std::int64_t{0}, wrong, "", source},
             {"elements compared", Op::kGe, std::int64_t{1}, checked, "", source}},
            std::to_string(checked) + " elements of " +
                std::to_string(context.collectives.collectives.size()) +
                " rows of collectives did");
}

/// What has to be alike: the library, then its providers; where it did not load, that.
std::pair<std::string, std::string> Dialect(const NodeFabric& node) {
  if (!node.libfabric.seen()) {
    return {"no libfabric", ""};
  }
  const LoadedLibrary& library = node.libfabric.value();
  std::set<std::string> providers;
  if (const auto* offered = node.providers.get()) {
    for (const FabricProvider& provider : *offered) {
      providers.insert(provider.name + " " + provider.version);
    }
  }
  std::string names;
  for (const std::string& provider : providers) {
    names += (names.empty() ? "" : ", ") + provider;
  }
  const std::string id =
      library.build_id.empty() ? "" : " (" + library.build_id.substr(0, 12) + ")";
  return {"libfabric " + library.version + id, names.empty() ? "no provider" : names};
}

void JudgeSameLibrary(Context& context) {
  const Subject subject{"run", "all ranks"};
  std::map<std::string, std::vector<int>> libraries;
  std::map<std::string, std::vector<int>> providers;
  const auto nodes = ResultsOf(context.run, &RankObservations::fabric_node);
  const RankResult<NodeFabric>* unseen = nullptr;
  const Observed<LoadedLibrary>* not_loaded = nullptr;
  for (const auto& node : nodes) {
    if (!node.seen.seen()) {
      unseen = unseen == nullptr ? &node : unseen;
      continue;
    }
    not_loaded = node.seen.value().libfabric.seen() ? not_loaded : &node.seen.value().libfabric;
    const auto [library, offered] = Dialect(node.seen.value());
    libraries[library].push_back(node.rank);
    providers[offered].push_back(node.rank);
  }
  const bool differ = libraries.size() > 1 || providers.size() > 1;
  if (!differ && unseen != nullptr) {
    context.judge.Unseen(kSameLibrary, subject, "the libfabric of " + unseen->name, unseen->seen);
    return;
  }
  if (!differ && not_loaded != nullptr) {
    context.judge.Unseen(kSameLibrary, subject, "libfabric on any rank", *not_loaded);
    return;
  }
  const char* source = "observation:nccl_ranks.fabric_node";
  Finding& finding =
      context.judge.Decide(kSameLibrary, subject,
                           {{"different libraries", Op::kEq, std::int64_t{1},
                             static_cast<std::int64_t>(libraries.size()), "", source},
                            {"different sets of providers", Op::kEq, std::int64_t{1},
                             static_cast<std::int64_t>(providers.size()), "", source}});
  if (finding.verdict == Verdict::kNotApplicable) {
    return;
  }
  finding.expected = "one libfabric with one set of providers";
  finding.actual = GroupsText(context.run, libraries.size() > 1 ? libraries : providers);
  if (libraries.size() == 1) {
    finding.actual = libraries.begin()->first + "; " + finding.actual;
  }
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = finding.actual;
  }
}

void JudgeProvider(Context& context) {
  const std::string& wanted = context.policy.fabric.provider;
  const Subject subject{"run", "all ranks"};
  std::map<std::string, std::vector<int>> ranks_by_provider;
  std::vector<std::string> used;
  for (const auto& [rank, place] : context.pairs.places) {
    ranks_by_provider[place.provider.name].push_back(rank);
  }
  used.reserve(ranks_by_provider.size());
  for (const auto& [name, ranks] : ranks_by_provider) {
    used.push_back(name);
  }
  const std::string text = ProvidersText(context.run, context.pairs);
  if (wanted.empty()) {
    context.judge.NotApplicable(
        kProviderUsed, subject,
        "the policy demands no provider; " +
            (text.empty() ? "none was seen in use" : "messages went by " + text));
    return;
  }
  const bool others = used.size() > 1 || (used.size() == 1 && used.front() != wanted);
  if (!others && context.pairs.unseen) {
    context.judge.Unseen(kProviderUsed, subject, "the provider of every rank",
                         *context.pairs.unseen);
    return;
  }
  Finding& finding =
      context.judge.Decide(kProviderUsed, subject,
                           {{"ranks that told their provider", Op::kGe, std::int64_t{1},
                             static_cast<std::int64_t>(context.pairs.places.size()), "",
                             "observation:nccl_ranks.fabric_pairs"},
                            {"providers in use", Op::kSubset, std::vector<std::string>{wanted},
                             used, "", "policy:fabric.provider"}});
  if (finding.verdict == Verdict::kFail && others) {
    ranks_by_provider.erase(wanted);
    finding.actual = GroupsText(context.run, ranks_by_provider);
    finding.reason.message = "expected " + wanted + ", found " + finding.actual;
  }
  finding.notes.push_back(text);
}

void JudgeRanks(Context& context) {
  if (context.run.size < 2) {
    context.judge.NotApplicable(kRightData, kPairs, "one rank has nobody to send to");
    if (Demands(context.policy.fabric)) {
      context.judge.Unknown(
          kProviderUsed, {"run", "all ranks"},
          {"not-looked-at", "one rank moves nothing, and the policy demands that it be seen", ""});
    }
    return;
  }
  JudgePairData(context);
  JudgeCollectiveData(context);
  JudgeSameLibrary(context);
  JudgeProvider(context);
  JudgePairSpeed(context.run, context.pairs, context.policy.fabric, context.judge);
  JudgeBusSpeed(context.collectives, context.policy.fabric, context.judge);
}

std::vector<Finding> JudgeFabricBandwidth(const Observations& observations, const Policy& policy) {
  Judge judge(kFabricBandwidth, policy);
  const Observed<RankRun>& ranks = observations.nccl_ranks;
  if (JudgeWithoutRanks(observations, ranks, kRightData, "what the ranks move",
                        Demands(policy.fabric) ? "" : kNothingDemanded, judge)) {
    return judge.Take();
  }
  const RankRun& run = ranks.value();
  Context context{run, policy, FabricRowsOf(run, &RankObservations::fabric_pairs),
                  FabricRowsOf(run, &RankObservations::fabric_collectives), std::move(judge)};
  JudgeRanks(context);
  std::vector<Finding> findings = context.judge.Take();
  NotePlantedFaults(run, findings);
  return findings;
}

}  // namespace

constinit const Check kFabricBandwidth{
    "fabric-bandwidth",
    Stage::kNccl,
    false,
    "ranks reach each other over the fabric, with the right data and fast enough",
    "latency and bandwidth of every pair of ranks and busbw of collectives, over libfabric on host "
    "memory; every element compared",
    kRules,
    JudgeFabricBandwidth,
};

}  // namespace dlc
