#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checks/check.h"
#include "checks/rank_results.h"

namespace dlc {

/// Rules of storage-shared about the ranks' sight of each other's files.
inline constexpr std::string_view kFilesVisible = "storage-shared/files-visible";
inline constexpr std::string_view kBetweenNodes = "storage-shared/between-nodes";
inline constexpr std::string_view kExclusiveCreate = "storage-shared/exclusive-create";
inline constexpr std::string_view kVisibleInTime = "storage-shared/visible-in-time";
inline constexpr std::string_view kStaleHandles = "storage-shared/no-stale-handles";

/// What the checks of shared storage work on.
struct SharedStorage {
  const RankRun& run;
  const Policy& policy;
  std::vector<RankResult<StorageShared>> results;
  Judge judge;
  std::map<int, std::string> node_of;  ///< of ranks that were not lost
  std::string path;
};

/// Who reads whose file: all pairs, the pairs of different nodes, and how they came to read it.
void JudgeFileVisibility(SharedStorage& context);

}  // namespace dlc
