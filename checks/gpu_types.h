#pragma once

#include <string_view>
#include <vector>

#include "checks/gpu_ranks.h"

namespace dlc {

/// Rules of gpu-visible about what kind of GPUs there are.
inline constexpr std::string_view kOneKind = "gpu-visible/one-kind";
inline constexpr std::string_view kAsPolicy = "gpu-visible/as-policy";
inline constexpr std::string_view kAsInstance = "gpu-visible/as-instance-type";

void JudgeGpuTypes(const Observations& observations, const Policy& policy,
                   const std::vector<GpuRankView>& ranks, Judge& judge);

}  // namespace dlc
