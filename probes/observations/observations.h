#pragma once

#include <vector>

#include "probes/observations/checkpoint_tree.h"
#include "probes/observations/cluster.h"
#include "probes/observations/image.h"
#include "probes/observations/nccl.h"
#include "probes/observations/nccl_tests.h"
#include "probes/observations/ranks.h"
#include "probes/observations/ray.h"
#include "probes/observations/run.h"

namespace dlc {

/// All that one run saw: facts in base units, no opinion. It travels inside the evidence, and
/// `judge` reads nothing else.
struct Observations {
  RunFacts run;
  Observed<ServedImage> served_image;
  ClusterFacts cluster;
  RayFacts ray;
  Observed<RankRun> gpu_ranks;
  Observed<RankRun> nccl_ranks;
  Observed<std::vector<NcclLogFile>> nccl_logs;  ///< of an earlier run, instead of ranks
  Observed<NcclTestsFile> nccl_tests;            ///< same
  Observed<RankRun> fsdp_ranks;
  Observed<RankRun> checkpoint_ranks;
  Observed<std::vector<CheckpointView>> checkpoint_views;  ///< --from-checkpoint, instead of ranks

  bool operator==(const Observations&) const = default;
};

/// What the ranks of a stage saw: each stage that starts ranks has a run of its own. nullptr for a
/// stage that starts none.
const Observed<RankRun>* RanksOf(const Observations& observations, Stage stage);
Observed<RankRun>* RanksOf(Observations& observations, Stage stage);

}  // namespace dlc
