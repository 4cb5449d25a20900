#pragma once

#include <cstdint>
#include <vector>

#include "kernels/element.h"
#include "kernels/training/qwen2_shape.h"
#include "probes/node/fsdp/shard_layout.h"

namespace dlc {

/// What one rank sends in a training step over rings, the mean over ranks, filling included.
/// Parameters are gathered in bfloat16: by FSDP in forward and, but for the root, again in
/// backward; by ZeRO-3 in forward and in backward, but for those that stay whole, which are
/// gathered once, after the optimizer. Gradients are reduce-scattered over `shard_ranks`, and the
/// result is all-reduced over `copies` (of FSDP2: HSDP).
std::int64_t StepBytesPerRank(ShardLayout layout, const std::vector<ModelParameter>& parameters,
                              int shard_ranks, int copies, DataType gradients);

}  // namespace dlc
