#pragma once

#include <memory>
#include <string>
#include <vector>

#include "probes/node/fsdp/sharded_model.h"
#include "probes/node/fsdp/train_and_compare.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

/// All ranks together; an error where any rank has one.
Result<std::unique_ptr<ShardedModel>> OpenForTraining(const TrainingRanks& ranks,
                                                      const TrainingOptions& options,
                                                      Deadline deadline);

/// The model's next `steps`. `losses` gets this rank's mean of each, all finite: else
/// kUnavailable. An error has made the other ranks stop too.
Result<void> TrainSteps(const TrainingRanks& ranks, ShardedModel& model, int steps,
                        Deadline deadline, std::vector<double>& losses);

/// The lowest bit of a value on the device: the second time it is right again.
Result<void> FlipBitOf(TrainingBackend& backend, float* value);

/// One bit in the middle of a file.
Result<void> CorruptFile(const std::string& path);

}  // namespace dlc
