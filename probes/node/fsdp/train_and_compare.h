#pragma once

#include <functional>
#include <string>

#include "probes/node/exchange.h"
#include "probes/node/fsdp/training_options.h"
#include "probes/node/fsdp/unit_collectives.h"
#include "probes/observations/fsdp.h"

namespace dlc {

/// Whom a rank trains with, and on what.
struct TrainingRanks {
  TrainingBackend& backend;
  UnitCollectives& collectives;
  Exchange& exchange;
  /// Names the memory that the backend takes from: ranks with the same one share it.
  std::string device;
  std::function<void(const std::string&)> say;
};

/// One run of FSDP2 training and what it is held against. All ranks together. Memory is asked for
/// before it is taken: where one rank has too little, none starts, and `not_looked_at` says so.
/// `model` names the shape; `reference`: train the unsharded model as well where it fits. An error
/// has made the other ranks stop too; `run` is filled as far as it got.
Result<void> TrainAndCompare(const TrainingRanks& ranks, const TrainingOptions& options,
                             const std::string& model, bool reference, Deadline deadline,
                             FsdpTrainingRun& run);

/// Payload that all ranks send in one step: parameters gathered in forward and, but for the root,
/// again in backward, of each micro-batch; gradients reduced and scattered; the sum of squares.
std::int64_t TrainingStepBytes(const TrainingOptions& options, int ranks);

/// Gathers and scatters the largest unit by itself: bytes that each rank sends in a second.
struct UnitBandwidth {
  double gather_bytes_per_second = 0;
  double reduce_bytes_per_second = 0;
};
Result<UnitBandwidth> MeasureUnitBandwidth(const TrainingRanks& ranks,
                                           const TrainingOptions& options, Deadline deadline);

/// What a step of `model` sends at that bandwidth, with gradients of the type.
FsdpPrediction PredictStep(const std::string& name, const Qwen2Shape& model, int ranks,
                           DataType gradients, const UnitBandwidth& bandwidth);

}  // namespace dlc
