#include "probes/node/fsdp/training_bounds.h"

#include <algorithm>
#include <cmath>

namespace dlc {
namespace {

double UnitRoundoff(DataType type) {
  return type == DataType::kBfloat16 ? std::ldexp(1.0, -8) : std::ldexp(1.0, -24);
}

}  // namespace

TrainingBounds TrainingBoundsFor(const TrainingOptions& options, int ranks) {
  const double n = static_cast<double>(ranks) * options.micro_batches;
  const double compute = UnitRoundoff(options.shape.compute);
  const double later = (options.steps - 1) * kStepGrowth * compute;
  TrainingBounds bounds;
  bounds.gradients = 4 * n * std::sqrt(n) * UnitRoundoff(options.shape.gradients) + later;
  bounds.losses = 4 * compute + later;
  bounds.second_moments = 2 * bounds.gradients;
  const double weight = 4.0;  // no synthetic weight is as large
  const double rounding =
      weight * UnitRoundoff(DataType::kFloat32) / static_cast<double>(options.adam.rate);
  bounds.parameters = 2 * std::sqrt(bounds.gradients) + rounding;
  return bounds;
}

}  // namespace dlc
