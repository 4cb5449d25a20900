#pragma once

#include <string_view>

#include "checks/check.h"

namespace dlc {

/// Rule of gpu-allocation about what the ranks' pods hold.
inline constexpr std::string_view kHeldRule = "gpu-allocation/ranks-hold-limit";

/// Per host of the ranks: the limit of the pod of that name, else the policy's number, against the
/// GPUs that NVML permits, that CUDA shows and that computed. Emits nothing where no ranks
/// were asked for and the policy asks for GPUs.
void JudgeHeldGpus(const Observations& observations, const Policy& policy, Judge& judge);

/// Ranks ran on this host, and no cluster is named to hold them against.
bool IsHostAlone(const Observations& observations);
/// A rule about a cluster then: not applicable, unless the policy demands what it is about.
void JudgeHostAlone(const Observations& observations, std::string_view rule, bool demanded,
                    Judge& judge);

}  // namespace dlc
