#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/training/qwen2_shape.h"
#include "kernels/training/training_backend.h"
#include "probes/node/fsdp/backend_memory.h"
#include "probes/node/fsdp/training_options.h"
#include "probes/observations/deadline.h"

namespace dlc {

struct UnshardedStep {
  std::vector<float> losses;  ///< of each rank's micro-batches, rank by rank
  double gradient_norm = 0;
};

/// What sharded training must come to: the whole model on one device. All ranks' micro-batches, one
/// after the other, the mean of their gradients in that order, clipping and AdamW. No shards, no
/// layouts, no collectives, and none of ShardedModel's code; the model itself is the backend's.
class UnshardedModel {
 public:
  static Result<std::unique_ptr<UnshardedModel>> Open(TrainingBackend& backend,
                                                      const TrainingOptions& options, int ranks);
  /// The next one of options.steps. The backend's model must be prepared.
  Result<UnshardedStep> Step(Deadline deadline);

  /// Of one parameter, all of it.
  const float* Master(const ModelParameter& parameter) const { return At(master_, parameter); }
  const float* FirstMoment(const ModelParameter& parameter) const { return At(m_, parameter); }
  const float* SecondMoment(const ModelParameter& parameter) const { return At(v_, parameter); }

  /// What Open takes.
  static std::int64_t Bytes(const TrainingShape& shape);

 private:
  using UnitMemory = std::vector<TrainingMemory>;  ///< by unit

  UnshardedModel(TrainingBackend& backend, const TrainingOptions& options, int ranks)
      : backend_(backend),
        options_(options),
        ranks_(ranks),
        parameters_(Qwen2Parameters(options.shape.model)) {}

  static const float* At(const UnitMemory& memory, const ModelParameter& parameter) {
    return memory[static_cast<std::size_t>(parameter.unit)].Floats(parameter.unit_offset);
  }
  const void* Computed(int unit) const;
  Result<void> TakeMemory();
  Result<void> AddMicroBatch(std::uint64_t micro_batch, bool first, float& loss);
  Result<void> AddGradient(int unit, const TrainingMemory& gradient, bool first);
  Result<void> Optimize(double& norm);

  TrainingBackend& backend_;
  TrainingOptions options_;
  int ranks_;
  std::vector<ModelParameter> parameters_;
  UnitMemory master_, gradient_, m_, v_, copy_;
  TrainingMemory layer_gradient_, root_gradient_;
  TrainingMemory loss_, sums_, scale_;
  std::vector<int> whole_;  ///< pieces, by unit
  int step_ = 0;
};

}  // namespace dlc
