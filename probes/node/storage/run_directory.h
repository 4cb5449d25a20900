#pragma once

#include <string>
#include <vector>

namespace dlc {

/// The one directory below the configured path that a run may write in: ".dlc-check-<run id>".
std::string RunDirectory(const std::string& path, const std::string& run_id);

/// Removes a run's directory with all that is in it, following no link. Gives what is still there
/// with the reason ("/fsx/.dlc-check-..: EACCES"); nothing when it was never there.
std::vector<std::string> RemoveRunDirectory(const std::string& directory);

}  // namespace dlc
