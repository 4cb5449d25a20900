#include "probes/node/fsdp/step_traffic.h"

namespace dlc {
namespace {

/// Elements that each rank gives to all gathers of a step.
std::int64_t GivenToGathers(ShardLayout layout, const std::vector<ModelParameter>& parameters,
                            int ranks) {
  const int root = parameters.back().unit;
  std::int64_t given = 0;
  if (layout == ShardLayout::kZero3) {
    for (const ModelParameter& parameter : parameters) {
      const std::int64_t times = parameter.Elements() <= kZero3PersistenceThreshold ? 1 : 2;
      given += times * ((parameter.Elements() + ranks - 1) / ranks);
    }
    return given;
  }
  for (int unit = 0; unit <= root; ++unit) {
    given +=
        (unit == root ? 1 : 2) * MakeUnitLayout(layout, parameters, unit, ranks, 0).shard_elements;
  }
  return given;
}

}  // namespace

std::int64_t StepBytesPerRank(ShardLayout layout, const std::vector<ModelParameter>& parameters,
                              int shard_ranks, int copies, DataType gradients) {
  std::int64_t shard = 0;
  for (int unit = 0; unit <= parameters.back().unit; ++unit) {
    shard += MakeUnitLayout(layout, parameters, unit, shard_ranks, 0).shard_elements;
  }
  const auto gathered = static_cast<std::int64_t>(ElementBytes(DataType::kBfloat16));
  const auto reduced = static_cast<std::int64_t>(ElementBytes(gradients));
  return (shard_ranks - 1) *
             (GivenToGathers(layout, parameters, shard_ranks) * gathered + shard * reduced) +
         2 * (copies - 1) * shard * reduced / copies;
}

}  // namespace dlc
