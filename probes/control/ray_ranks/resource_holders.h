#pragma once

#include <string>

#include "probes/control/ray/ray_client.h"
#include "probes/observations/deadline.h"

namespace dlc {

/// Who holds a cluster's `resource` ("GPU"), as far as its state API tells: "placement group 'x' of
/// job raysubmit_1: 8; actor Trainer of job 02000000: 1". Where it tells nobody, or cannot be
/// asked, the text says so. `own` is a submission_id to leave out.
std::string WhoHolds(RayClient& client, const std::string& resource, const std::string& own,
                     Deadline deadline);

}  // namespace dlc
