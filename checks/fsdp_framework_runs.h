#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checks/policy.h"
#include "checks/rank_results.h"
#include "probes/observations/framework.h"

namespace dlc {

/// As ResultsOf. Under Ray Train each is named after the worker of that rank, which need not be
/// where the rank was: "worker 1 of Ray Train on pod-1".
std::vector<RankResult<FrameworkExperiment>> FrameworkResultsOf(const RankRun& run);

/// One process of the framework on each rank.
struct FrameworkRow {
  /// By rank; nullptr: the process did not come to its end.
  std::vector<const FrameworkRun*> by_rank;
  /// Ranks whose program ended by itself and with an error, the first to end first:
  /// "rank 1 on pod-1: RuntimeError: ...".
  std::vector<std::string> failed;
  /// Why the first rank that shows nothing does not; a rank that was only stopped for another's
  /// sake counts last. Absent: every rank has a run or has failed.
  std::optional<Observed<FrameworkExperiment>> unseen;

  bool whole() const { return failed.empty() && !unseen; }
};

/// nullptr: there is none. `name`: "train" or "resume".
const FrameworkProcess* FrameworkProcessNamed(const FrameworkExperiment& seen,
                                              const std::string& name);

/// `name`: "train" or "resume". What was done with another engine, strategy, backend or model than
/// the policy's shows nothing. `results` outlives the row.
FrameworkRow FrameworkRowOf(const std::vector<RankResult<FrameworkExperiment>>& results,
                            const std::string& name, const FsdpPolicy& policy);

/// The largest relative difference between two lists of losses, of all ranks.
struct LossDifference {
  double largest = 0;
  std::int64_t compared = 0;
  std::string where;  ///< "rank 1 on pod-1, step 2: 6.21 and not 6.25"; empty: all are equal
};
/// Adds those of one rank. `first_step` counts from 1. Lists of two lengths are compared as far as
/// both go.
void AddLossDifference(const std::string& rank, int first_step, const std::vector<double>& found,
                       const std::vector<double>& expected, LossDifference& all);

std::vector<double> LossesOf(const std::vector<FrameworkStep>& steps);

/// Steps per second after the first, each as slow as its slowest rank; 0: there are none.
double FrameworkStepsPerSecond(const FrameworkRow& row);

/// "Python 3.13.1, torch 2.13.0, transformers 5.13.0".
std::string FrameworkVersions(const FrameworkRun& run);

}  // namespace dlc
