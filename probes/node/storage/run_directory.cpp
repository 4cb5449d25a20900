#include "probes/node/storage/run_directory.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace dlc {

std::string RunDirectory(const std::string& path, const std::string& run_id) {
  return path + (path.ends_with('/') ? "" : "/") + ".dlc-check-" + run_id;
}

std::vector<std::string> RemoveRunDirectory(const std::string& directory) {
  std::error_code failure;
  // Another rank may be removing the same directory, and may win or lose each file of it.
  for (int attempt = 0; attempt < 3; ++attempt) {
    failure.clear();
    std::filesystem::remove_all(directory, failure);
    if (!failure || failure.value() == ENOENT) {
      break;
    }
  }
  std::error_code look;
  if (!std::filesystem::exists(std::filesystem::symlink_status(directory, look))) {
    return {};
  }
  const char* name = failure ? strerrorname_np(failure.value()) : nullptr;
  return {directory + ": " + (name != nullptr ? name : "still there")};
}

}  // namespace dlc
