#include "probes/node/fsdp/training_memory.h"

#include <algorithm>
#include <cstdio>

#include "probes/node/fsdp/shard_states.h"
#include "probes/node/fsdp/unsharded_model.h"

namespace dlc {
namespace {

/// Buffers of the comparisons, and what is small: losses, norms, lists of pieces.
constexpr std::int64_t kForComparisons = std::int64_t{96} << 20;

std::string Gibibytes(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB",
                static_cast<double>(bytes) / static_cast<double>(std::int64_t{1} << 30));
  return text;
}

}  // namespace

std::int64_t TrainingBytes::Sharded() const {
  return states + gathered + gradients + activations + kForComparisons;
}

TrainingBytes EstimateTraining(const TrainingBackend& backend, const TrainingOptions& options,
                               int ranks) {
  const ShardPlan plan = MakeShardPlan(options.shape.model, ranks, 0);
  const auto compute = static_cast<std::int64_t>(ElementBytes(options.shape.compute));
  const auto reduced = static_cast<std::int64_t>(ElementBytes(options.shape.gradients));
  const bool narrow = options.shape.compute != DataType::kFloat32;
  const bool straight = options.micro_batches == 1 && options.shape.gradients == DataType::kFloat32;
  const UnitLayout& layer = plan.Layout(0);
  const UnitLayout& root = plan.Layout(plan.Root());
  const int buffers = std::min(plan.Root(), 2);
  const std::int64_t units = buffers * plan.Elements(0) + plan.Elements(plan.Root());
  const std::int64_t most = std::max(layer.GatheredElements(), root.GatheredElements());
  TrainingBytes bytes;
  bytes.states = plan.total * (16 + (narrow ? compute : 0));
  bytes.gathered = plan.direct ? 0 : (units + (ranks > 1 ? most : 0)) * compute;
  bytes.gradients = plan.direct && straight ? 0 : units * reduced;
  if (!plan.direct) {
    bytes.gradients += (layer.GatheredElements() + root.GatheredElements()) * reduced;
  }
  if (ranks > 1 && !straight) {
    bytes.gradients += 2 * std::max(layer.shard_elements, root.shard_elements) * reduced;
  }
  bytes.activations = static_cast<std::int64_t>(backend.ActivationBytes(options.shape));
  bytes.unsharded = UnshardedModel::Bytes(options.shape);
  return bytes;
}

std::string TooLittleMemory(const TrainingBackend& backend, const TrainingOptions& options,
                            int ranks, int sharers, std::int64_t free_bytes) {
  const std::int64_t own = free_bytes / std::max(sharers, 1);
  std::string text = "needs " + Gibibytes(EstimateTraining(backend, options, ranks).Sharded()) +
                     " on this rank's device, has " + Gibibytes(free_bytes) + " free" +
                     (sharers > 1 ? " for " + std::to_string(sharers) + " ranks" : std::string());
  constexpr int kMostRanks = 4096;
  for (int more = 2 * ranks; more <= kMostRanks; more *= 2) {
    if (EstimateTraining(backend, options, more).Sharded() <= own) {
      return text + "; would fit with " + std::to_string(more) + " ranks that have as much each";
    }
  }
  return text + "; no number of ranks would do: a smaller model, or fewer rows or tokens";
}

}  // namespace dlc
