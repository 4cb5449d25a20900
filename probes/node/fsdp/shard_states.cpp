#include "probes/node/fsdp/shard_states.h"

#include <algorithm>

namespace dlc {
namespace {

/// Of each unit's shard in the buffer of all: 256 bytes of bfloat16.
constexpr std::int64_t kShardAlignment = 128;

bool StaysInPlace(const UnitLayout& layout) {
  return layout.ranks == 1 &&
         std::all_of(layout.unshard.begin(), layout.unshard.end(),
                     [](const Piece& piece) { return piece.from == piece.to; });
}

}  // namespace

std::int64_t ShardPlan::MostElements() const {
  return *std::max_element(elements.begin(), elements.end());
}

ShardPlan MakeShardPlan(const Qwen2Shape& model, int ranks, int rank) {
  ShardPlan plan;
  plan.parameters = Qwen2Parameters(model);
  plan.direct = true;
  for (int unit = 0; unit <= plan.parameters.back().unit; ++unit) {
    plan.layouts.push_back(Fsdp2Layout(plan.parameters, unit, ranks, rank));
    plan.offsets.push_back(plan.total);
    plan.elements.push_back(UnitElements(plan.parameters, unit));
    plan.total += (plan.layouts.back().shard_elements + kShardAlignment - 1) / kShardAlignment *
                  kShardAlignment;
    plan.direct = plan.direct && StaysInPlace(plan.layouts.back());
  }
  return plan;
}

Result<int> PrepareWhole(TrainingBackend& backend, std::int64_t count) {
  int handle = 0;
  const auto prepared = TrainingResult(backend.PreparePieces({{0, 0, count}}, handle));
  return prepared ? Result<int>(handle) : Result<int>(prepared.error());
}

Result<void> MakeShardStates(TrainingBackend& backend, const ShardPlan& plan,
                             const TrainingOptions& options, ShardStates& states,
                             std::int64_t& taken) {
  for (TrainingMemory* memory : {&states.master, &states.gradient, &states.m, &states.v}) {
    if (auto done = memory->Take(backend, plan.total, DataType::kFloat32, taken); !done) {
      return done;
    }
  }
  for (int unit = 0; unit < plan.Units(); ++unit) {
    for (const OwnedPiece& piece : plan.Layout(unit).owned) {
      const auto index = static_cast<std::size_t>(piece.parameter);
      if (auto done = TrainingResult(backend.FillNormal(
              states.master.Floats(plan.Offset(unit) + piece.offset), WeightKey(options, index),
              piece.first, piece.count, InitialMean(plan.ParameterOf(piece)), kWeightSpread));
          !done) {
        return done;
      }
    }
  }
  if (options.shape.compute == DataType::kFloat32) {
    return {};
  }
  if (auto done = states.copy.Take(backend, plan.total, options.shape.compute, taken); !done) {
    return done;
  }
  return RefreshCopy(backend, plan, options, states);
}

Result<void> RefreshCopy(TrainingBackend& backend, const ShardPlan& plan,
                         const TrainingOptions& options, const ShardStates& states) {
  if (!states.copy.Taken()) {
    return {};
  }
  const auto whole = PrepareWhole(backend, plan.total);
  return whole ? TrainingResult(backend.Move(*whole, states.master.At(0), DataType::kFloat32,
                                             states.copy.At(0), options.shape.compute,
                                             TrainingQueue::kCompute))
               : Result<void>(whole.error());
}

}  // namespace dlc
