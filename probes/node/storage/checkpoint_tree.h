#pragma once

#include "probes/observations/checkpoint_tree.h"
#include "probes/observations/deadline.h"
#include "probes/observations/plan.h"

namespace dlc {

/// Looks at the checkpoint in `parameters.path`, or in the directory below that holds it: of
/// several `checkpoint_*` of Ray Train the newest by name, of DeepSpeed the one that `latest`
/// names, else the only one. Names, sizes, times and the ends of files; no file is taken for a
/// pickle, and no link below the path is followed. Errors: the path cannot be listed ("cannot read
/// PATH: ENOENT"), the deadline.
Result<CheckpointTree> ObserveCheckpointTree(const CheckpointTreeParameters& parameters,
                                             Deadline deadline);

}  // namespace dlc
