#pragma once

#include <optional>
#include <string_view>

#include "checks/check.h"
#include "checks/storage_passes.h"

namespace dlc {

inline constexpr std::string_view kStorageSaveTime = "storage-speed/save-time";
inline constexpr std::string_view kStorageRestoreTime = "storage-speed/restore-time";

/// How long the policy's models take to save and to restore at the rates of these passes; unknown,
/// and no time is told, where there is none. `why_none` says why.
void JudgeStorageTimes(const StoragePolicy& limits, int ranks,
                       const std::optional<StoragePass>& write,
                       const std::optional<StoragePass>& read, std::string_view why_no_write,
                       std::string_view why_no_read, Judge& judge);

}  // namespace dlc
