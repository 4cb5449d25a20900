// Definitions of an executable stand before those of libc for every library in it.
#include "tests/checkpoint/file_faults.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <utility>

namespace dlc {
namespace {

FileFaultHook& Hook() {
  static FileFaultHook hook;
  return hook;
}

template <class F>
F* Real(const char* name) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): dlsym gives no type
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

/// Of the call, with errno set; the hook's own calls are not asked about.
FileFault Ask(const char* call, const char* path, int fd = -1) {
  thread_local bool asking = false;
  if (asking || !Hook()) {
    return {};
  }
  asking = true;
  char of_fd[4096] = "";
  if (path == nullptr) {
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t size = readlink(link.c_str(), of_fd, sizeof of_fd - 1);
    of_fd[size > 0 ? size : 0] = '\0';
    path = of_fd;
  }
  const FileFault fault = Hook()(call, path);
  asking = false;
  errno = fault.failure;
  return fault;
}

std::size_t Bounded(std::size_t count, const FileFault& fault) {
  return fault.most_bytes != 0 ? std::min(count, fault.most_bytes) : count;
}

}  // namespace

PlantedFileFaults::PlantedFileFaults(FileFaultHook hook) {
  Hook() = std::move(hook);
}
PlantedFileFaults::~PlantedFileFaults() {
  Hook() = nullptr;
}

}  // namespace dlc

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  static auto* const kReal = dlc::Real<int(const char*, int, ...)>("open");
  return dlc::Ask("open", path).failure != 0 ? -1 : kReal(path, flags, mode);
}

ssize_t write(int fd, const void* bytes, size_t count) {
  static auto* const kReal = dlc::Real<ssize_t(int, const void*, size_t)>("write");
  const dlc::FileFault fault = dlc::Ask("write", nullptr, fd);
  return fault.failure != 0 ? -1 : kReal(fd, bytes, dlc::Bounded(count, fault));
}

ssize_t pread(int fd, void* bytes, size_t count, off_t offset) {
  static auto* const kReal = dlc::Real<ssize_t(int, void*, size_t, off_t)>("pread");
  const dlc::FileFault fault = dlc::Ask("pread", nullptr, fd);
  if (fault.failure != 0) {
    return -1;
  }
  const ssize_t got = kReal(fd, bytes, dlc::Bounded(count, fault), offset);
  if (got > 0 && fault.flip_bit) {
    char* last = static_cast<char*>(bytes) + got - 1;
    *last = static_cast<char>(*last ^ 1);
  }
  return got;
}

int fsync(int fd) {
  static auto* const kReal = dlc::Real<int(int)>("fsync");
  return dlc::Ask("fsync", nullptr, fd).failure != 0 ? -1 : kReal(fd);
}

int close(int fd) {
  static auto* const kReal = dlc::Real<int(int)>("close");
  const int failure = dlc::Ask("close", nullptr, fd).failure;
  const int closed = kReal(fd);
  errno = failure != 0 ? failure : errno;
  return failure != 0 ? -1 : closed;
}

int rename(const char* from, const char* to) noexcept {
  static auto* const kReal = dlc::Real<int(const char*, const char*)>("rename");
  return dlc::Ask("rename", from).failure != 0 ? -1 : kReal(from, to);
}

int unlink(const char* path) noexcept {
  static auto* const kReal = dlc::Real<int(const char*)>("unlink");
  return dlc::Ask("unlink", path).failure != 0 ? -1 : kReal(path);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const kReal = dlc::Real<int(const char*, mode_t)>("mkdir");
  return dlc::Ask("mkdir", path).failure != 0 ? -1 : kReal(path, mode);
}

int rmdir(const char* path) noexcept {
  static auto* const kReal = dlc::Real<int(const char*)>("rmdir");
  return dlc::Ask("rmdir", path).failure != 0 ? -1 : kReal(path);
}

}  // extern "C"
