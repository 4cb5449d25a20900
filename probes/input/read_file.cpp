#include "probes/input/read_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "probes/observations/deadline.h"

namespace dlc {
namespace {

constexpr std::size_t kPiece = 65536;
constexpr std::size_t kMebibyte = 1U << 20U;

class FileHandle {
 public:
  explicit FileHandle(int fd) : fd_(fd) {}
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  ~FileHandle() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Error SystemError(const std::string& path, int code) {
  switch (code) {
    case ENOENT:
    case ENOTDIR:
      return Error{ErrorCode::kNotFound, path + ": no such file", ""};
    case EACCES:
    case EPERM:
      return Error{ErrorCode::kPermissionDenied, path + ": permission denied", ""};
    default:
      return Error{ErrorCode::kUnavailable,
                   path + ": cannot be read: " + std::generic_category().message(code), ""};
  }
}

std::string SizeText(std::size_t bytes) {
  return bytes >= kMebibyte && bytes % kMebibyte == 0 ? std::to_string(bytes / kMebibyte) + " MiB"
                                                      : std::to_string(bytes) + " bytes";
}

Error TooLarge(const std::string& path, std::size_t max_bytes) {
  return Error{ErrorCode::kInvalidInput, path + ": larger than " + SizeText(max_bytes),
               "is this the right file?"};
}

/// Waits for bytes or the end of a pipe. A pipe that nobody writes to is the usual slip (a FIFO by
/// mistake).
Result<void> AwaitInput(const std::string& path, int fd, const Deadline& deadline) {
  pollfd wait{fd, POLLIN, 0};
  for (;;) {
    const int ready = ::poll(&wait, 1, static_cast<int>(deadline.Remaining().count()));
    if (ready > 0) {
      return {};
    }
    if (ready == 0) {
      return Error{ErrorCode::kTimedOut, path + ": nothing arrived through the pipe in time",
                   "save the output to a file first"};
    }
    if (errno != EINTR) {
      return SystemError(path, errno);
    }
  }
}

/// Refuses what is no file to read, before a byte of it is.
Result<void> CheckKind(const std::string& path, const struct stat& info, std::size_t max_bytes,
                       PipeInput pipe) {
  if (S_ISDIR(info.st_mode)) {
    return Error{ErrorCode::kInvalidInput, path + ": is a directory", "name a file in it"};
  }
  if (S_ISFIFO(info.st_mode) && pipe == PipeInput::kRefuse) {
    return Error{ErrorCode::kInvalidInput, path + ": is a pipe, not a regular file", ""};
  }
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode)) {
    return Error{ErrorCode::kInvalidInput, path + ": is not a regular file or a pipe", ""};
  }
  if (info.st_size > 0 && static_cast<std::size_t>(info.st_size) > max_bytes) {
    return TooLarge(path, max_bytes);
  }
  return {};
}

/// Appends what one read gives; false at the end of the file.
Result<bool> ReadPiece(const std::string& path, int fd, std::size_t max_bytes, std::string& bytes) {
  const std::size_t had = bytes.size();
  const std::size_t spare = bytes.capacity() - had;
  const std::size_t room = std::min(spare > 0 ? spare : kPiece, max_bytes + 1 - had);
  bytes.resize(had + room);
  const ssize_t got = ::read(fd, bytes.data() + had, room);
  const int code = errno;
  bytes.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0 && code != EINTR && code != EAGAIN) {
    return SystemError(path, code);
  }
  if (bytes.size() > max_bytes) {
    return TooLarge(path, max_bytes);
  }
  return got != 0;
}

}  // namespace

Result<std::string> ReadFileBytes(const std::string& path, std::size_t max_bytes, PipeInput pipe) {
  // Without O_NONBLOCK the open itself waits for a FIFO's writer, with no deadline.
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info = {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) {
    return SystemError(path, errno);
  }
  if (auto readable = CheckKind(path, info, max_bytes, pipe); !readable) {
    return std::move(readable).error();
  }
  const Deadline deadline = Deadline::After(timeouts::kInputPipe);
  std::string bytes;
  // One more than announced: the read that meets the end needs room, not a second allocation.
  bytes.reserve(static_cast<std::size_t>(std::max<off_t>(info.st_size, 0)) + 1);
  for (;;) {
    if (S_ISFIFO(info.st_mode)) {
      if (auto arrived = AwaitInput(path, file.get(), deadline); !arrived) {
        return std::move(arrived).error();
      }
    }
    const auto more = ReadPiece(path, file.get(), max_bytes, bytes);
    if (!more) {
      return more.error();
    }
    if (!*more) {
      return bytes;
    }
  }
}

}  // namespace dlc
