#pragma once

#include <cstddef>

#include "kernels/element.h"

namespace dlc {

/// out[i] = a[i] op b[i] for `count` elements; kAvg adds. `out` may be `a` or `b`, otherwise the
/// three do not overlap. bfloat16 is computed in float32 and rounded once. For floats the result
/// does not depend on the order of a and b unless both are NaN; kMax keeps `a` when either is NaN.
void Reduce(DataType type, ReduceOp op, void* out, const void* a, const void* b, std::size_t count);

/// The end of kAvg: data[i] = data[i] / divisor, rounded as ReduceOp says. divisor > 0.
void DivideBy(DataType type, void* data, std::size_t count, int divisor);

}  // namespace dlc
