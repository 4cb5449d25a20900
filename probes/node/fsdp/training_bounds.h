#pragma once

#include "probes/node/fsdp/training_options.h"

namespace dlc {

/// How far sharded training may be from the unsharded model, which adds the same gradients in
/// another order. Relative, as FsdpComparison::error has it.
///
/// n is the number of ranks times the micro-batches of each; u is 2^-24 of float32 and 2^-8 of
/// bfloat16. Two orders of a mean of n gradients g_i are apart by at most 2 (n - 1) u sum|g_i| / n,
/// with u of the gradients' type. sum|g_i| / n is the mean's size where the g_i agree and, where
/// they do not, in the 2-norm about sqrt(n) of it: E(1) = 4 n sqrt(n) u, twice that and more than
/// the roundings of factors and clipping. Parameters then differ by rounding, and so do the
/// next step's gradients by what the model makes of that: kStepGrowth roundings of the computing
/// type and step, E(s) = E(1) + (s - 1) kStepGrowth u_compute.
///
/// m is linear in the gradients: E(s). v is quadratic: 2 E(s). AdamW moves a parameter by rate * m
/// / sqrt(v), up to rate whatever the gradient's size: where |g| is below the difference it may
/// even go the other way. Of gradients of mean square 1, about a share E is as small as that: their
/// root mean square is up to 2 sqrt(E), beside the roundings of float32 parameters.
struct TrainingBounds {
  double gradients = 0;  ///< E(steps); of norms and moments
  double losses = 0;
  double second_moments = 0;
  double parameters = 0;  ///< of steps * rate
};
TrainingBounds TrainingBoundsFor(const TrainingOptions& options, int ranks);

inline constexpr double kStepGrowth = 64;

}  // namespace dlc
