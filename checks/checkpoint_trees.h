#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checks/check.h"
#include "checks/rank_results.h"

namespace dlc {

/// Rules of storage-shared about an existing checkpoint directory.
inline constexpr std::string_view kTreeSameFiles = "storage-shared/checkpoint-same-files";
inline constexpr std::string_view kTreeSameContent = "storage-shared/checkpoint-same-content";
inline constexpr std::string_view kTreeComplete = "storage-shared/checkpoint-complete";
inline constexpr std::string_view kTreeMetadataLast = "storage-shared/checkpoint-metadata-last";

/// One look by each rank, or at each directory that the user named.
using TreeResults = std::vector<RankResult<CheckpointTree>>;

/// Judges what the ranks see of one checkpoint directory. `workers`: ranks that wrote it, 0 when
/// not stated.
void JudgeCheckpointTrees(const RankRun& run, int workers, Judge& judge);
/// The same of directories, each as one pod or node shows it.
void JudgeCheckpointViews(const std::vector<CheckpointView>& views, int workers, Judge& judge);

/// The file that is written last: ".metadata", "checkpoint.json", "latest".
std::string MetadataName(const CheckpointTree& tree);

// Parts of the two above; every result was seen.

/// Over all that was seen anywhere: a set that is split is not thereby incomplete.
void JudgeTreeComplete(const TreeResults& results, int workers, const Subject& subject,
                       Judge& judge);
/// Whether a file is newer than the one that is written last.
void JudgeMetadataLast(const TreeResults& results, Judge& judge);

}  // namespace dlc
