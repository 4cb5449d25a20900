#pragma once

#include <string>

#include "probes/observations/deadline.h"
#include "probes/observations/plan.h"
#include "probes/observations/storage.h"

namespace dlc {

/// Reads a directory of torch.distributed.checkpoint (filesystem.py): `.metadata` and
/// `__<rank>_<n>.distcp`; other names are passed over. Never opens the pickle as one.
Result<CheckpointTree> ObserveCheckpointTree(const CheckpointTreeParameters& parameters,
                                             Deadline deadline);

}  // namespace dlc
