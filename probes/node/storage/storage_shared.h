#pragma once

#include <string>

#include "probes/node/exchange.h"
#include "probes/node/process/experiment.h"
#include "probes/observations/deadline.h"
#include "probes/observations/plan.h"
#include "probes/observations/storage.h"

namespace dlc {

/// Who looks, for the others' observations.
struct StorageViewer {
  std::string run_id;
  std::string host;
  std::string node;
  bool flip_bit = false;  ///< planted: our nonce file differs in one bit from what we promise
};

/// Tries what a checkpoint needs of the configured path, writes a nonce file, and reads every other
/// rank's. What fails is part of the observation; an Error means that nothing could be tried.
/// Removes all that it made.
Result<StorageShared> ObserveStorageShared(const StorageSharedParameters& parameters,
                                           const StorageViewer& viewer, Exchange& exchange,
                                           Deadline deadline, const Progress& progress);

}  // namespace dlc
