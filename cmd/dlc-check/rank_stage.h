#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "probes/observations/observed.h"
#include "probes/observations/ranks.h"
#include "reports/progress.h"

namespace dlc {

/// What the stages that run ranks need. Made from the config and the policy.
struct RankSetup {
  std::string run_id;
  int ranks = 0;                ///< 0: none are started
  std::string checkpoint_path;  ///< empty: the storage experiments have nothing to look at
  double visible_within_seconds = 0;
};

struct RankStageResult {
  Observed<RankRun> run;
  std::vector<std::string> leftovers;  ///< what could not be removed, each with the reason
};

/// Starts dlc-probe on `setup.ranks` children of this host and collects what they saw of the
/// checkpoint path. Every wait has a deadline; an interruption stops the ranks, removes what they
/// made and keeps what they saw.
RankStageResult ObserveLocalRanks(const RankSetup& setup, const std::atomic<bool>& interrupted,
                                  Progress& progress);

}  // namespace dlc
