#pragma once

#include <string_view>
#include <vector>

#include "checks/gpu_ranks.h"

namespace dlc {

/// Rules of gpu-compute about how fast. Beside another user of the GPU no number means anything,
/// and none is judged.
inline constexpr std::string_view kSpeedRule = "gpu-compute/speed";
inline constexpr std::string_view kAlikeRule = "gpu-compute/alike";

/// Somebody else computes on the GPU, or holds its memory: why, or "" when nothing shows it.
/// Precondition: node.nvml.gpus.seen().
std::string OtherUseOf(const GpuNode& node, const GpuWork& work, const GpuPolicy& policy);

void JudgeGpuSpeed(const std::vector<GpuRankView>& ranks, const GpuPolicy& policy, Judge& judge);

}  // namespace dlc
