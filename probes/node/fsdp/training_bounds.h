#pragma once

#include "probes/node/fsdp/training_options.h"

namespace dlc {

/// How far sharded training may be from the unsharded model, which adds the same gradients in
/// another order. Relative, as FsdpComparison::error has it.
///
/// u is 2^-24 of float32 and 2^-8 of bfloat16. n gradients of independent batches, added one after
/// the other, are off by no more than 2 / 3 n u of their sum's 2-norm, and by n / 2 u where they
/// all agree. Sharded training adds ranks in the gradients' type, everything else is float32: E(1)
/// = 2 ranks u_gradients + 2 ranks micro_batches u_float32. Where gradients cancel, the error is
/// that of their parts, which is why FsdpComparison::error holds a parameter against the whole
/// shard.
///
/// m is linear in the gradients: E. v is quadratic: 2 E. AdamW moves a parameter by rate * m /
/// sqrt(v), up to rate whatever the gradient's size: a gradient below the difference may even turn
/// it round. Of gradients of mean square 1 about a share E is as small as that, so that the root
/// mean square of a parameter's difference is up to 2 sqrt(E) of steps * rate, beside its own
/// roundings. By that, relative to a weight's size, the next step's gradients differ, and by 8 more
/// roundings of the computing type: E(s) = E(s - 1) + 8 u_compute + 2 sqrt(E(s - 1)) rate / weight.
/// Losses are the same but for 4 roundings in the first step, and then no more sensitive than
/// gradients.
///
/// These bounds let small mistakes pass where there are many ranks or bfloat16: runs with whole
/// numbers have none.
struct TrainingBounds {
  double gradients = 0;  ///< E(steps); of norms and first moments
  double losses = 0;
  double second_moments = 0;
  double parameters = 0;  ///< of steps * rate
};
TrainingBounds TrainingBoundsFor(const TrainingOptions& options, int ranks);

}  // namespace dlc
