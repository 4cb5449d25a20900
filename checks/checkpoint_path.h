#pragma once

#include <string_view>

#include "checks/file_visibility.h"

namespace dlc {

/// Rules of storage-shared about what the configured path is, beside what ranks see of each other.
inline constexpr std::string_view kNoLeftovers = "storage-shared/no-leftovers";
inline constexpr std::string_view kNotContainerLayer = "storage-shared/not-container-layer";

/// Directories that other runs of this tool left in the path.
void JudgeLeftovers(SharedStorage& context);
/// A path in the container's own layer, where the job has several nodes. `nodes`: of the workload,
/// 0 when not stated.
void JudgeContainerLayer(SharedStorage& context, int nodes);

}  // namespace dlc
