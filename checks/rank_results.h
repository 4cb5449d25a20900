#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checks/check.h"
#include "checks/finding.h"
#include "probes/observations/ranks.h"

namespace dlc {

/// What one rank saw of one kind of step; for a rank that was lost, why it was not seen.
template <class T>
struct RankResult {
  int rank = 0;
  std::string name;  ///< "rank 2 on gpu-worker-1", or "rank 2"
  std::string node;  ///< RankFacts::node; empty when the rank was lost
  Observed<T> seen;
  ExperimentEnd end;  ///< of the rank's own process of the step; all empty when there was none
};

/// "rank 2 on gpu-worker-1".
std::string RankName(const RankReport& report);
/// "ranks 0, 2 and 3", "rank 1 on gpu-worker-1" for a single one.
std::string RankNames(const RankRun& run, const std::vector<int>& ranks);

/// One entry per rank of the run: of the step of that name, or of the first of the kind where
/// `step` is empty.
template <class T>
std::vector<RankResult<T>> ResultsOf(const RankRun& run,
                                     std::vector<ExperimentResult<T>> RankObservations::*kind,
                                     const std::string& step = "") {
  std::vector<RankResult<T>> results;
  for (const RankReport& report : run.ranks) {
    RankResult<T> result{report.rank, RankName(report), "", {}, {}};
    if (const RankObservations* seen = report.seen.get()) {
      result.node = seen->facts.node;
      const auto& list = seen->*kind;
      const auto own = std::find_if(list.begin(), list.end(), [&](const auto& one) {
        return step.empty() || one.step == step;
      });
      if (own == list.end()) {
        result.seen = NotLookedAt{
            seen->interrupted ? "the run was interrupted" : "the plan had no such step", ""};
      } else {
        result.seen = own->seen;
        result.end = own->end;
      }
    } else {
      result.seen = UnseenAs<T>(report.seen);
    }
    results.push_back(std::move(result));
  }
  return results;
}

/// Ranks by what they have in common, the fewest first, for they are the odd ones: "rank 2 on
/// pod-2: NCCL 2.26.5; ranks 0 and 1: NCCL 2.28.9".
std::string GroupsText(const RankRun& run, const std::map<std::string, std::vector<int>>& groups);

/// For JudgeWithoutRanks.
inline constexpr std::string_view kNothingDemanded =
    ", and the policy demands nothing that they would show";
/// Where `ranks` has nobody to judge: one finding of `rule` that says why, and true. Ranks that
/// were only not asked for are not applicable if `if_not_asked` is given ("no ranks ran (REASON)"
/// and that text) or if directories of --from-checkpoint are judged, else unknown like all others.
bool JudgeWithoutRanks(const Observations& observations, const Observed<RankRun>& ranks,
                       std::string_view rule, std::string_view what, std::string_view if_not_asked,
                       Judge& judge);

/// What the plan asked for, and what the ranks say that it did.
std::vector<PlantedFault> PlantedFaultsOf(const RankRun& run);
/// A remark on every finding if faults were planted: then the run judges the tool.
void NotePlantedFaults(const RankRun& run, std::vector<Finding>& findings);

}  // namespace dlc
