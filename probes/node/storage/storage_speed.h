#pragma once

#include <string>

#include "probes/node/exchange.h"
#include "probes/node/process/experiment.h"
#include "probes/node/storage/storage_shared.h"
#include "probes/observations/deadline.h"
#include "probes/observations/plan.h"
#include "probes/observations/storage.h"

namespace dlc {

/// All ranks write a file each at the same time (fsync included in the time), then all read one:
/// another node's where there is one, else their own after its pages were dropped; then rank 0
/// alone writes and one rank reads, and all make, list and delete small files, as the parameters
/// say. What fails is part of the observation; an Error means that nothing was measured. An eighth
/// of the time is kept for the end. Removes all that it made.
Result<StorageSpeed> ObserveStorageSpeed(const StorageSpeedParameters& parameters,
                                         const StorageViewer& viewer, Exchange& exchange,
                                         Deadline deadline, const Progress& progress);

/// Part of the file's pages that are in this node's page cache, by mincore(2): 0 to 1, or -1 when
/// it cannot be told. mincore lies upwards for files that we may not write.
double ResidentFraction(int fd, std::int64_t size_bytes);

}  // namespace dlc
