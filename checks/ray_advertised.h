#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checks/check.h"
#include "checks/ray_cluster_view.h"
#include "probes/observations/observations.h"

namespace dlc {

/// Holds the GPU count of every live Ray node against the limit of the pod that it runs in, joined
/// by address; where pods were not seen, against the head's or the workers' group. Unknown when
/// Ray's nodes were not seen or cannot be told apart. Precondition: `views` is not empty.
void JudgeAdvertisedGpus(Judge& judge, std::string_view rule, const std::string& resource,
                         const std::vector<RayClusterView>& views,
                         const Observations& observations);

}  // namespace dlc
