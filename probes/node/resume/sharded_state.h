#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/training/training_backend.h"
#include "probes/node/checkpoint/checkpoint_set.h"
#include "probes/node/exchange.h"
#include "probes/node/fsdp/shard_states.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

/// A rank's part of one tensor of the state: a parameter, or one of its AdamW moments.
struct StateTensor {
  CheckpointTensor tensor;  ///< "model.norm.weight", "exp_avg.model.norm.weight", "exp_avg_sq...."
  std::size_t index = 0;    ///< among the tensors of all ranks: 3 * parameter + 0, 1 or 2
  std::int64_t first = 0;   ///< element of the whole tensor
  std::int64_t count = 0;
  /// In the buffer of the parameters (or of the moments): see ShardStates.
  std::int64_t offset = 0;
};

/// Of all parameters that this rank has rows of, in the order of a file.
std::vector<StateTensor> StateTensorsOf(const ShardPlan& plan);
/// Of all ranks together.
std::size_t StateTensorCount(const ShardPlan& plan);
/// What `index` is called.
std::string StateTensorName(const ShardPlan& plan, std::size_t index);
float* PlaceOf(const ShardStates& states, const StateTensor& tensor);

/// A number for each tensor of all ranks, by index: the same however the tensor is cut, another
/// one when a bit of it changes (TrainingBackend::AddHash).
using StateHashes = std::vector<std::uint64_t>;

/// Adds one part of a tensor, of the backend's memory.
Result<void> AddHashOf(TrainingBackend& backend, const StateTensor& tensor, const float* values,
                       StateHashes& hashes);
/// Adds what this rank has of each tensor.
Result<void> AddStateHashes(TrainingBackend& backend, const std::vector<StateTensor>& tensors,
                            const ShardStates& states, StateHashes& hashes);
/// The sum over all ranks, on all of them.
Result<StateHashes> SumStateHashes(const StateHashes& mine, Exchange& exchange, Deadline deadline);
/// 16 hex digits each.
std::string StateHashText(std::uint64_t hash);
/// One for all: the sha256 of their text.
std::string StateHashOf(const StateHashes& hashes);

}  // namespace dlc
