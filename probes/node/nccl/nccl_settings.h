#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/nccl.h"
#include "probes/observations/result.h"

namespace dlc {

/// Of the variables that NCCL, its plugin and libfabric read.
inline constexpr std::array<std::string_view, 3> kNcclPrefixes = {"NCCL_", "OFI_NCCL_", "FI_"};

/// "NAME=VALUE" of a step's parameters, with source "dlc-probe". kInvalidInput, which begins with
/// "$.settings[0]", for whatever is no NCCL_*, FI_* or OFI_NCCL_* variable, for what the experiment
/// sets itself, and for a name that comes twice.
Result<std::vector<NcclSetting>> ParseNcclSettings(const std::vector<std::string>& lines);

/// What tells NCCL that this rank is a node by itself.
NcclSetting NcclHostIdOf(int rank);

/// Into the environment of this process: before NCCL is loaded, and before there is a second
/// thread.
void SetNcclSettings(const std::vector<NcclSetting>& ours);

/// Gives those of `settings` that are `ours` the source "dlc-probe".
void NameOurSettings(const std::vector<NcclSetting>& ours, std::vector<NcclSetting>& settings);

/// Of the job's settings, those that `ours` took the place of with another value.
std::vector<NcclSetting> ReplacedSettings(const std::vector<NcclSetting>& jobs,
                                          const std::vector<NcclSetting>& ours);

}  // namespace dlc
