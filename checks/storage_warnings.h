#pragma once

#include <string_view>
#include <vector>

#include "checks/check.h"
#include "checks/storage_passes.h"

namespace dlc {

inline constexpr std::string_view kStorageMetadataDone = "storage-speed/small-files-complete";
inline constexpr std::string_view kStorageMetadataRate = "storage-speed/metadata-rate";
inline constexpr std::string_view kStoragePastBurst = "storage-speed/past-burst";
inline constexpr std::string_view kStorageRateHeld = "storage-speed/rate-held";

/// What a new EFS file system has in burst credits: 2.1 TiB.
inline constexpr std::int64_t kEfsFirstCredits = 2'308'974'418'330;

/// Whether small files were made, listed and removed, on each rank.
void JudgeSmallFiles(const RankResult<StorageSpeed>& result, Judge& judge);
/// What makes a good rate worth less than it looks, and how fast names are made and removed.
void JudgeStorageWarnings(const StorageSpeedResults& results,
                          const std::vector<StoragePass>& passes, const StoragePolicy& limits,
                          Judge& judge);

}  // namespace dlc
