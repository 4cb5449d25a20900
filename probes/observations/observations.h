#pragma once

#include "probes/observations/cluster.h"
#include "probes/observations/image.h"
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
  Observed<RankRun> ranks;

  bool operator==(const Observations&) const = default;
};

}  // namespace dlc
