#pragma once

#include <cstdint>
#include <vector>

#include "kernels/training/qwen2_shape.h"
#include "kernels/training/training_backend.h"
#include "probes/node/fsdp/backend_memory.h"
#include "probes/node/fsdp/shard_layout.h"
#include "probes/node/fsdp/training_options.h"
#include "probes/observations/result.h"

namespace dlc {

/// Where this rank's part of each unit lies in one buffer of all units.
struct ShardPlan {
  std::vector<ModelParameter> parameters;
  std::vector<UnitLayout> layouts;     ///< FSDP2's, by unit
  std::vector<std::int64_t> offsets;   ///< of each unit's shard
  std::vector<std::int64_t> elements;  ///< UnitElements
  std::int64_t total = 0;              ///< elements of the buffer
  /// One rank, and no parameter of a unit lies elsewhere in the shard: the shard is the unit.
  bool direct = false;

  int Units() const { return static_cast<int>(layouts.size()); }
  int Root() const { return Units() - 1; }
  const UnitLayout& Layout(int unit) const { return layouts[static_cast<std::size_t>(unit)]; }
  std::int64_t Offset(int unit) const { return offsets[static_cast<std::size_t>(unit)]; }
  std::int64_t Elements(int unit) const { return elements[static_cast<std::size_t>(unit)]; }
  std::int64_t MostElements() const;
  /// Of `owned`'s parameter; its layout's index is that in `parameters`.
  const ModelParameter& ParameterOf(const OwnedPiece& piece) const {
    return parameters[static_cast<std::size_t>(piece.parameter)];
  }
};
ShardPlan MakeShardPlan(const Qwen2Shape& model, int ranks, int rank);

/// What a rank keeps from step to step: float32 parameters, their gradients, AdamW's moments, and
/// the parameters as they are gathered. What fills the shards is 0 in all of them.
struct ShardStates {
  TrainingMemory master;
  TrainingMemory gradient;
  TrainingMemory m;
  TrainingMemory v;
  TrainingMemory copy;  ///< not taken where they are gathered as float32: then `master` is

  /// What the unit's gather sends.
  const void* Sent(const ShardPlan& plan, int unit) const {
    return copy.Taken() ? copy.At(plan.Offset(unit)) : master.At(plan.Offset(unit));
  }
};

/// Takes the memory and gives the parameters their first values. `taken` grows by the bytes.
Result<void> MakeShardStates(TrainingBackend& backend, const ShardPlan& plan,
                             const TrainingOptions& options, ShardStates& states,
                             std::int64_t& taken);

/// Makes what is gathered anew from the parameters.
Result<void> RefreshCopy(TrainingBackend& backend, const ShardPlan& plan,
                         const TrainingOptions& options, const ShardStates& states);

/// `count` elements, where they are.
Result<int> PrepareWhole(TrainingBackend& backend, std::int64_t count);

}  // namespace dlc
