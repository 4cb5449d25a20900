#pragma once

#include <string_view>

#include "checks/gpu_ranks.h"

namespace dlc {

/// Rules of gpu-compute about what NVML tells of a GPU that was put to work.
inline constexpr std::string_view kHealthRule = "gpu-compute/health";
inline constexpr std::string_view kUnoccupiedRule = "gpu-compute/unoccupied";
inline constexpr std::string_view kSlowdownRule = "gpu-compute/not-slowed-down";
inline constexpr std::string_view kPcieRule = "gpu-compute/pcie-link";

void JudgeGpuHealth(const GpuRankView& rank, const GpuWork& work, const GpuPolicy& policy,
                    Judge& judge);

}  // namespace dlc
