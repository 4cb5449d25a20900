#include "probes/node/fsdp/training_bounds.h"

#include <cmath>

namespace dlc {
namespace {

double UnitRoundoff(DataType type) {
  return type == DataType::kBfloat16 ? std::ldexp(1.0, -8) : std::ldexp(1.0, -24);
}

}  // namespace

TrainingBounds TrainingBoundsFor(const TrainingOptions& options, int ranks) {
  const double single = UnitRoundoff(DataType::kFloat32);
  const double compute = UnitRoundoff(options.shape.compute);
  const auto rate = static_cast<double>(options.adam.rate);
  // SyntheticNormal's variance is 1 / 3.
  const double weight = static_cast<double>(kWeightSpread) / std::sqrt(3.0);
  double error = 2.0 * ranks * UnitRoundoff(options.shape.gradients) +
                 2.0 * ranks * options.micro_batches * single;
  for (int step = 1; step < options.steps; ++step) {
    error += 8 * compute + 2 * std::sqrt(error) * rate / weight;
  }
  TrainingBounds bounds;
  bounds.gradients = error;
  bounds.losses = 4 * compute + (options.steps > 1 ? error : 0);
  bounds.second_moments = 2 * error;
  const double largest_weight = 2;
  bounds.parameters = 2 * std::sqrt(error) + largest_weight * single / rate;
  return bounds;
}

}  // namespace dlc
