#include "checks/checkpoint_path.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "checks/wording.h"

namespace dlc {
namespace {

using Texts = std::vector<std::string>;

std::string AgeText(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  constexpr double kDay = 86'400;
  if (seconds < kHour) {
    return Fixed(std::max(seconds, 0.0) / kMinute, 0) + " min";
  }
  return seconds < kDay ? Fixed(seconds / kHour, 1) + " h" : Fixed(seconds / kDay, 1) + " days";
}

std::string LeftoverText(const LeftoverRun& run) {
  return "run " + run.run_id + ": " + (run.counted ? "" : "more than ") +
         Count(static_cast<std::size_t>(run.files), "file") + ", " + std::to_string(run.bytes) +
         " bytes, unchanged for " + AgeText(run.quiet_seconds);
}

}  // namespace

void JudgeLeftovers(SharedStorage& context) {
  const Subject subject{"run", context.path};
  const auto results = ResultsOf(context.run, &RankObservations::leftover_runs);
  std::map<std::string, LeftoverRun> runs;
  const RankResult<LeftoverRuns>* unseen = nullptr;
  bool asked = false;
  for (const auto& result : results) {
    asked = asked || !result.seen.not_looked_at();
    if (!result.seen.seen()) {
      unseen = unseen == nullptr ? &result : unseen;
      continue;
    }
    for (const LeftoverRun& run : result.seen.value().runs) {
      runs.emplace(run.run_id, run);
    }
  }
  if (!asked) {
    context.judge.NotApplicable(kNoLeftovers, subject, "nobody looked for other runs' directories");
    return;
  }
  // What was seen stays; what nobody could tell is no pass.
  if (runs.empty() && unseen != nullptr) {
    context.judge.Unseen(kNoLeftovers, subject, "what other runs left", unseen->seen);
    return;
  }
  Texts ids;
  Texts texts;
  for (const auto& [id, run] : runs) {
    ids.push_back(id);
    texts.push_back(LeftoverText(run));
  }
  Finding& finding =
      context.judge.Decide(kNoLeftovers, subject,
                           {{"runs with a directory there", Op::kSubset, Texts{}, ids, "",
                             "observation:checkpoint_ranks.leftover_runs"}});
  if (finding.verdict == Verdict::kFail) {
    finding.expected = "no directory of another run";
    finding.actual = NameSome(texts, 3);
    finding.reason.message = finding.actual;
    finding.hint = "if it does not run any more: dlc-check cleanup -c CONFIG --run-id " +
                   ids.front() + " --yes";
  }
}

void JudgeContainerLayer(SharedStorage& context, int nodes) {
  const Subject subject{"run", context.path};
  std::set<std::string> ranks_nodes;
  for (const auto& [rank, node] : context.node_of) {
    ranks_nodes.insert(node);
  }
  if (nodes < 2 && ranks_nodes.size() < 2) {
    context.judge.NotApplicable(kNotContainerLayer, subject,
                                "one node: neither the ranks nor the workload have more");
    return;
  }
  Texts in_layer;
  const RankResult<StorageShared>* unseen = nullptr;
  for (const auto& result : context.results) {
    const MountFacts* mount = result.seen.seen() ? result.seen.value().mount.get() : nullptr;
    if (mount == nullptr) {
      unseen = unseen == nullptr ? &result : unseen;
    } else if (mount->filesystem == "overlay") {
      in_layer.push_back(result.name);
    }
  }
  if (in_layer.empty() && unseen != nullptr) {
    context.judge.Unknown(
        kNotContainerLayer, subject,
        {"not-looked-at", "the mount at the path was not seen by " + unseen->name, ""});
    return;
  }
  Finding& finding = context.judge.Decide(
      kNotContainerLayer, subject,
      {{"ranks with the path in the container's own layer", Op::kSubset, Texts{}, in_layer, "",
        "observation:checkpoint_ranks.storage_shared.mount"}});
  if (finding.verdict == Verdict::kFail) {
    const bool ray_default = (context.path + "/").find("/ray_results/") != std::string::npos;
    finding.expected = "a mounted volume";
    finding.actual =
        "the container's own layer (overlay) on " + NameSome(in_layer) +
        (ray_default ? "; ~/ray_results is where Ray Train saves without storage_path" : "");
    finding.reason.message = finding.actual;
  }
}

}  // namespace dlc
