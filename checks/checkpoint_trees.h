#pragma once

#include <string_view>
#include <vector>

#include "checks/check.h"
#include "checks/rank_results.h"

namespace dlc {

/// Rules of storage-shared about an existing checkpoint directory.
inline constexpr std::string_view kTreeSameFiles = "storage-shared/checkpoint-same-files";
inline constexpr std::string_view kTreeSameContent = "storage-shared/checkpoint-same-content";
inline constexpr std::string_view kTreeComplete = "storage-shared/checkpoint-complete";

/// Judges what the ranks see of one directory of torch.distributed.checkpoint. `workers`: ranks
/// that wrote it, 0 when not stated.
void JudgeCheckpointTrees(const RankRun& run, int workers, Judge& judge);

}  // namespace dlc
