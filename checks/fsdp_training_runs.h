#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checks/policy.h"
#include "checks/rank_results.h"
#include "probes/observations/fsdp.h"

namespace dlc {

/// One run of training, as each rank saw it.
struct FsdpRunRow {
  std::string name;
  /// By rank; nullptr: that rank has no such run, or it did not come to its comparisons.
  std::vector<const FsdpTrainingRun*> by_rank;
  /// Why the first rank that cannot vouch cannot; absent: every rank has a run, and as asked.
  std::optional<Observed<FsdpTrainingExperiment>> unseen;

  /// Of rank 0, or of the first that has one; nullptr: no rank has.
  const FsdpTrainingRun* Any() const;
};

/// `name`: "exact" or "training"; of the policy's model. A run on another backend than the
/// policy's, or of fewer steps or tokens, is in the row, for its faults are faults, and `unseen`
/// says that it shows nothing else. `results` outlives the row.
FsdpRunRow FsdpRunRowOf(const std::vector<RankResult<FsdpTrainingExperiment>>& results,
                        const std::string& name, const FsdpTrainingPolicy& policy);

/// "rank 1 on pod-1: wrong-average: ...", or what differs most: "rank 1 on pod-1: first-moments of
/// model.norm.weight are off by 0.52, allowed 0.001". Empty: nothing is beyond its bound.
std::string FsdpComparisonText(const RankRun& run, int rank, const FsdpTrainingRun& seen,
                               const std::vector<FsdpComparison>& comparisons);
bool BeyondBound(const FsdpComparison& comparison);

/// "step of 0.213 s: 0.180 s computing, 0.030 s waiting for communication, 0.003 s optimizer;
/// 19,000 tokens/s over 4 ranks": of the fastest step after the first, the slowest rank.
std::string FsdpStepText(const FsdpRunRow& row);

}  // namespace dlc
