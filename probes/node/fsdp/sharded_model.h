#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "probes/node/fsdp/backend_memory.h"
#include "probes/node/fsdp/shard_states.h"
#include "probes/node/fsdp/training_options.h"
#include "probes/node/fsdp/unit_collectives.h"
#include "probes/node/fsdp/unit_exchange.h"

namespace dlc {

/// One training step, as this rank saw it.
struct ShardedStep {
  std::vector<float> losses;  ///< of this rank's micro-batches; none in exact mode
  double gradient_norm = 0;   ///< of all ranks' mean, before it is clipped
  double seconds = 0;
  double exposed_seconds = 0;    ///< of those, waiting for communication
  double optimizer_seconds = 0;  ///< of those: norm, clipping, AdamW
  std::int64_t sent_bytes = -1;  ///< by this rank; -1: nobody counted
};

/// A Qwen2 decoder cut over ranks as torch's fully_shard cuts it, a unit for each layer and one for
/// the rest, with reshard_after_forward: trained with synthetic weights and tokens by AdamW on
/// float32 shards. Every rank makes the same calls. For one thread.
class ShardedModel {
 public:
  /// Takes all its memory but that for activations, which is `backend.PrepareModel`'s.
  static Result<std::unique_ptr<ShardedModel>> Open(TrainingBackend& backend,
                                                    UnitCollectives& collectives,
                                                    const TrainingOptions& options);

  /// The next one of options.steps.
  Result<ShardedStep> Step(Deadline deadline);

  /// Gathers a unit as a forward would, and waits for it. UnitElements of type `compute`, until the
  /// next call.
  Result<const void*> Gathered(int unit, Deadline deadline);

  /// Goes on after `steps` steps with what was put into States(): master and both moments.
  Result<void> Resume(int steps);

  const ShardPlan& Plan() const { return plan_; }
  const ShardStates& States() const { return states_; }
  /// Bytes of the device.
  std::int64_t TakenBytes() const { return taken_; }

 private:
  ShardedModel(TrainingBackend& backend, UnitCollectives& collectives,
               const TrainingOptions& options)
      : backend_(backend),
        collectives_(collectives),
        options_(options),
        plan_(MakeShardPlan(options.shape.model, collectives.Size(), collectives.Rank())),
        exchange_(backend, collectives, plan_, states_, options_) {}

  Result<void> TakeMemory();
  Result<void> Gradients(int micro_batch, Deadline deadline);
  Result<void> Forward(int micro_batch, Deadline deadline);
  Result<void> Backward(int micro_batch, Deadline deadline);
  Result<void> IntegerGradients(int micro_batch, Deadline deadline);
  Result<void> Optimize(Deadline deadline);
  Result<void> Await(int mark, Deadline deadline);
  Result<void> Report(ShardedStep& step);

  TrainingBackend& backend_;
  UnitCollectives& collectives_;
  TrainingOptions options_;
  ShardPlan plan_;
  ShardStates states_;
  UnitExchange exchange_;
  TrainingMemory losses_;  ///< of each step and micro-batch
  TrainingMemory sums_;    ///< doubles: of squares, of each step
  TrainingMemory scale_;
  std::int64_t taken_ = 0;
  int step_ = 0;  ///< steps done
};

}  // namespace dlc
