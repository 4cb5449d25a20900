#include "probes/control/registry/bounded_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "probes/control/process/file_descriptor.h"

namespace dlc {
namespace {

Error CannotRead(const std::string& path, int code) {
  const ErrorCode kind = code == ENOENT || code == ENOTDIR ? ErrorCode::kNotFound
                         : code == EACCES || code == EPERM ? ErrorCode::kPermissionDenied
                                                           : ErrorCode::kUnavailable;
  return {kind, "cannot read '" + path + "': " + std::generic_category().message(code), ""};
}

}  // namespace

Result<std::string> ReadBoundedFile(const std::string& path, std::size_t max_bytes) {
  // O_NONBLOCK: opening a pipe without a writer would wait for ever.
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (fd.Get() < 0 || fstat(fd.Get(), &info) != 0) {
    return CannotRead(path, errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return Error{ErrorCode::kInvalidInput, "'" + path + "' is not a regular file", ""};
  }
  std::string bytes(max_bytes + 1, '\0');
  std::size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t count = read(fd.Get(), bytes.data() + size, bytes.size() - size);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return CannotRead(path, errno);
    }
    if (count == 0) {
      break;
    }
    size += static_cast<std::size_t>(count);
  }
  if (size > max_bytes) {
    return Error{ErrorCode::kInvalidInput,
                 "'" + path + "' is longer than " + std::to_string(max_bytes) + " bytes", ""};
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace dlc
