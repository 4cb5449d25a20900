#include "probes/node/checkpoint/checkpoint_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace dlc {

std::string CheckpointErrnoName(int failure) {
  const char* name = strerrorname_np(failure);
  return name != nullptr ? name : "errno " + std::to_string(failure);
}

CheckpointFailure RefusedByErrno(const std::string& verb, const std::string& path, int failure) {
  const std::string name = CheckpointErrnoName(failure);
  return {CheckpointFault::kUnavailable, "cannot " + verb + " " + path + ": " + name, path, name};
}

CheckpointFailure CheckpointFaultOf(CheckpointFault fault, const std::string& path,
                                    const std::string& message) {
  return {fault, path + ": " + message, path, ""};
}

std::string ProblemOfBlockBytes(std::int64_t block_bytes) {
  constexpr std::int64_t kMost = 256 << 20;
  return block_bytes > 0 && block_bytes <= kMost &&
                 block_bytes % static_cast<std::int64_t>(kDirectAlignment) == 0
             ? ""
             : "block of " + std::to_string(block_bytes) +
                   " bytes is no multiple of 4096 up to 256 MiB";
}

int WriteAllBytes(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) {
      return errno;
    }
    if (count == 0) {
      return EIO;  // no progress and no reason: it would go on for ever
    }
    bytes.remove_prefix(count > 0 ? static_cast<std::size_t>(count) : 0);
  }
  return 0;
}

int SyncDirectory(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) {
    return errno;
  }
  const int failure = fsync(fd.get()) != 0 ? errno : 0;
  return failure;
}

int CloseFile(UniqueFd& fd) {
  // Linux has closed it also when it says EINTR: nothing was lost then.
  return close(fd.Release()) != 0 && errno != EINTR ? errno : 0;
}

CheckpointResult<std::vector<std::string>> NamesIn(const std::string& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(directory.c_str()), closedir);
  if (listing == nullptr) {
    return RefusedByErrno("list", directory, errno);
  }
  std::vector<std::string> names;
  errno = 0;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): this stream has one reader
  while (const dirent* entry = readdir(listing.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") {
      names.push_back(name);
    }
    errno = 0;
  }
  if (errno != 0) {
    return RefusedByErrno("list", directory, errno);
  }
  std::sort(names.begin(), names.end());
  return names;
}

CheckpointResult<std::string> ReadSmallFile(const std::string& path, std::size_t most) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    return RefusedByErrno("open", path, errno);
  }
  std::string bytes;
  char chunk[65'536];
  while (true) {
    const ssize_t count = read(fd.get(), chunk, sizeof chunk);
    if (count < 0 && errno != EINTR) {
      return RefusedByErrno("read", path, errno);
    }
    if (count == 0) {
      return bytes;
    }
    bytes.append(chunk, count > 0 ? static_cast<std::size_t>(count) : 0);
    if (bytes.size() > most) {
      return CheckpointFaultOf(CheckpointFault::kDamaged, path,
                               "longer than " + std::to_string(most) + " bytes");
    }
  }
}

}  // namespace dlc
