#include "reports/evidence/new_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace dlc {
namespace {

std::string ErrnoText(int number) {
  return std::generic_category().message(number);
}

Error FileError(int number, const std::string& doing, const std::string& path) {
  ErrorCode code = ErrorCode::kUnavailable;
  std::string hint;
  if (number == ENOENT || number == ENOTDIR) {
    code = ErrorCode::kNotFound;
  } else if (number == EACCES || number == EPERM || number == EROFS) {
    code = ErrorCode::kPermissionDenied;
  } else if (number == EEXIST) {
    code = ErrorCode::kInvalidInput;
    hint = "nothing is overwritten: choose another directory, or move the file away";
  } else if (number == ENOSPC || number == EDQUOT) {
    hint = "free some space, or choose another directory";
  }
  return Error{code, "cannot " + doing + " '" + path + "': " + ErrnoText(number), hint};
}

class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  ~OpenFile() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int Get() const { return fd_; }
  /// False with errno: a network file system may tell of a full disk only now.
  bool Close() { return close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) {
      return false;
    }
    bytes.remove_prefix(count < 0 ? 0 : static_cast<std::size_t>(count));
  }
  return true;
}

/// Removes what is still on the list when it goes out of scope.
class Undo {
 public:
  Undo() = default;
  ~Undo() {
    for (const std::string& path : paths_) {
      unlink(path.c_str());
    }
  }
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;

  void Add(std::string path) { paths_.push_back(std::move(path)); }
  void Forget() { paths_.clear(); }

 private:
  std::vector<std::string> paths_;
};

Result<void> WriteTemporary(const std::string& path, const NewFile& file, Undo& undo) {
  OpenFile out(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (out.Get() < 0) {
    return FileError(errno, "create", path);
  }
  undo.Add(path);
  if (!WriteAll(out.Get(), file.bytes) || fchmod(out.Get(), file.mode) != 0 ||
      fsync(out.Get()) != 0 || !out.Close()) {
    return FileError(errno, "write", path);
  }
  return {};
}

/// Renames without replacing. Some file systems cannot (EINVAL); there a check comes first, which
/// leaves a gap that only another writer of the same directory can hit.
int MoveIntoPlace(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
    return 0;
  }
  if (errno != EINVAL && errno != ENOSYS) {
    return errno;
  }
  struct stat status {};
  if (lstat(to.c_str(), &status) == 0) {
    return EEXIST;
  }
  return rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

}  // namespace

Result<void> WriteNewFiles(const std::string& directory, const std::vector<NewFile>& files) {
  std::error_code made;
  std::filesystem::create_directories(directory, made);
  if (made) {
    return FileError(made.value(), "create directory", directory);
  }
  Undo undo;
  const std::string suffix = ".new." + std::to_string(getpid());
  for (const NewFile& file : files) {
    const std::string place = directory + "/" + file.name;
    if (auto written = WriteTemporary(place + suffix, file, undo); !written) {
      return written;
    }
  }
  Undo moved;
  for (const NewFile& file : files) {
    const std::string place = directory + "/" + file.name;
    if (const int failed = MoveIntoPlace(place + suffix, place); failed != 0) {
      return FileError(failed, "write", place);
    }
    moved.Add(place);
  }
  const OpenFile folder(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Not every file system lets a directory be synced (EINVAL); the files themselves are.
  if (folder.Get() < 0 || (fsync(folder.Get()) != 0 && errno != EINVAL)) {
    return FileError(errno, "sync directory", directory);
  }
  moved.Forget();
  return {};
}

}  // namespace dlc
