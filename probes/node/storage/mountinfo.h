#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/result.h"
#include "probes/observations/storage.h"

namespace dlc {

/// /proc/PID/mountinfo (proc(5)), in its order: a later line may hide an earlier one. A line that
/// is none is an error that quotes it.
Result<std::vector<MountFacts>> ParseMountInfo(std::string_view text);

/// The mount that `path` (absolute, without links and "..") is on, or nullptr.
const MountFacts* MountOf(const std::vector<MountFacts>& mounts, std::string_view path);

/// Of this process, for a path that exists.
Result<MountFacts> ObserveMount(const std::string& path);
Result<SpaceFacts> ObserveSpace(const std::string& path);

}  // namespace dlc
