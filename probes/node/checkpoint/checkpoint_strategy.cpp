#include "probes/node/checkpoint/checkpoint_strategy.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string_view>

#include "probes/node/checkpoint/checkpoint_files.h"

namespace dlc {
namespace {

constexpr std::string_view kContent = "what a checkpoint may do here\n";

/// Of an operation that the file system does not have, not of one that failed.
bool IsLacking(int failure) {
  return failure == ENOSYS || failure == EPERM || failure == EOPNOTSUPP || failure == EXDEV ||
         failure == EINVAL;
}

/// Removes a name when the attempt is over, however it ends.
class TriedName {
 public:
  explicit TriedName(std::string path) : path_(std::move(path)) {}
  TriedName(const TriedName&) = delete;
  TriedName& operator=(const TriedName&) = delete;
  ~TriedName() { Remove(); }
  const std::string& path() const { return path_; }
  /// 0 or an errno.
  int Remove() const { return unlink(path_.c_str()) != 0 && errno != ENOENT ? errno : 0; }

 private:
  std::string path_;
};

CheckpointResult<std::monostate> WriteNew(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd) {
    return RefusedByErrno("create", path, errno);
  }
  if (const int failure = WriteAllBytes(fd.get(), kContent); failure != 0) {
    return RefusedByErrno("write", path, failure);
  }
  if (fsync(fd.get()) != 0) {
    return RefusedByErrno("fsync", path, errno);
  }
  if (const int failure = CloseFile(fd); failure != 0) {
    return RefusedByErrno("close", path, failure);
  }
  return std::monostate();
}

CheckpointResult<std::monostate> ReadBack(const std::string& path) {
  const auto found = ReadSmallFile(path, kContent.size());
  if (!found) {
    return found.error();
  }
  if (*found != kContent) {
    return CheckpointFaultOf(CheckpointFault::kDamaged, path, "reads back as something else");
  }
  return std::monostate();
}

/// 0 or the errno of a rename that the file system does not have.
CheckpointResult<int> TryRename(const std::string& from, const std::string& to) {
  if (auto written = WriteNew(from); !written) {
    return written.error();
  }
  if (rename(from.c_str(), to.c_str()) == 0) {
    return 0;
  }
  const int failure = errno;
  if (!IsLacking(failure)) {
    return RefusedByErrno("rename", from, failure);
  }
  return failure;
}

}  // namespace

const char* CheckpointPublishName(CheckpointPublish publish) {
  return publish == CheckpointPublish::kRename ? "rename" : "in-place";
}

CheckpointResult<CheckpointStrategy> TryCheckpointStrategy(const std::string& directory,
                                                           const std::string& tag) {
  const TriedName final_name(directory + "/.dlc-try-" + tag);
  const TriedName temporary(final_name.path() + ".tmp");
  if (final_name.Remove() != 0 || temporary.Remove() != 0) {
    // An earlier attempt's: creating it anew is about to say what is wrong.
    errno = 0;
  }
  CheckpointStrategy strategy;
  const auto renamed = TryRename(temporary.path(), final_name.path());
  if (!renamed) {
    return renamed.error();
  }
  if (*renamed != 0) {
    strategy.publish = CheckpointPublish::kInPlace;
    strategy.notes.push_back("rename refused: " + CheckpointErrnoName(*renamed));
    if (auto written = WriteNew(final_name.path()); !written) {
      return written.error();
    }
  }
  if (auto same = ReadBack(final_name.path()); !same) {
    return same.error();
  }
  if (const int failure = SyncDirectory(directory); failure != 0) {
    if (!IsLacking(failure)) {
      return RefusedByErrno("fsync", directory, failure);
    }
    strategy.directory_fsync = false;
    strategy.notes.push_back("directory fsync refused: " + CheckpointErrnoName(failure));
  }
  const int kept = final_name.Remove();
  const int half = temporary.Remove();
  if (const int failure = kept != 0 ? kept : half; failure != 0) {
    strategy.removes = false;
    strategy.notes.push_back("unlink refused: " + CheckpointErrnoName(failure));
  }
  return strategy;
}

}  // namespace dlc
