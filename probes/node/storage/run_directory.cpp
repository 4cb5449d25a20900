#include "probes/node/storage/run_directory.h"

#include <poll.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace dlc {

std::string RunDirectory(const std::string& path, const std::string& run_id) {
  return path + (path.ends_with('/') ? "" : "/") + ".dlc-check-" + run_id;
}

std::vector<std::string> RemoveRunDirectory(const std::string& directory) {
  // Other ranks may be removing the same directory and win some of its files; on NFS what they
  // removed may show for a moment. Both end soon; a refusal does not.
  constexpr int kAttempts = 100;
  constexpr int kPauseMs = 20;
  std::error_code failure;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    failure.clear();
    std::filesystem::remove_all(directory, failure);
    std::error_code look;
    if (std::filesystem::symlink_status(directory, look).type() ==
        std::filesystem::file_type::not_found) {
      return {};
    }
    const bool may_end = !failure || failure.value() == ENOENT || failure.value() == ENOTEMPTY ||
                         failure.value() == EBUSY || failure.value() == ESTALE;
    if (!may_end) {
      break;
    }
    poll(nullptr, 0, kPauseMs);
  }
  // EPERM for a file may mean that it is a directory; remove_all tries that, and fails with
  // ENOTDIR.
  const int reason = failure.value() == ENOTDIR ? EPERM : failure.value();
  const char* name = failure ? strerrorname_np(reason) : nullptr;
  return {directory + ": " + (name != nullptr ? name : "still there")};
}

}  // namespace dlc
