#include "probes/node/storage/checkpoint_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "probes/node/sha256/sha256.h"

namespace dlc {
namespace {

constexpr std::size_t kMostEntries = 200'000;

Error Failed(const std::string& what, int failure) {
  const char* name = strerrorname_np(failure);
  return {failure == ENOENT                        ? ErrorCode::kNotFound
          : failure == EACCES || failure == EPERM  ? ErrorCode::kPermissionDenied
          : failure == ENOTDIR || failure == ELOOP ? ErrorCode::kInvalidInput
          : failure == ETIMEDOUT                   ? ErrorCode::kTimedOut
                                                   : ErrorCode::kUnavailable,
          what + ": " + (name != nullptr ? name : "errno " + std::to_string(failure)), ""};
}

/// 0 or an errno.
int AddRange(int fd, std::int64_t from, std::int64_t to, Deadline deadline, Sha256& hash) {
  char chunk[65'536];
  while (from < to) {
    if (deadline.Passed()) {
      return ETIMEDOUT;
    }
    const auto wanted = static_cast<std::size_t>(std::min<std::int64_t>(to - from, sizeof chunk));
    const ssize_t count = pread(fd, chunk, wanted, from);
    if (count < 0 && errno != EINTR) {
      return errno;
    }
    if (count == 0) {
      return EIO;  // shorter than it said
    }
    if (count > 0) {
      hash.Add({chunk, static_cast<std::size_t>(count)});
      from += count;
    }
  }
  return 0;
}

Result<DirectoryListing> List(int parent, const std::string& name, int flags,
                              const std::string& shown, Deadline deadline) {
  DirectoryListing listing;
  listing.fd = UniqueFd(openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags));
  UniqueFd own(listing.fd ? openat(listing.fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(own ? fdopendir(own.get()) : nullptr, closedir);
  if (stream == nullptr) {
    return Failed("cannot read " + shown, errno);
  }
  own.Release();
  errno = 0;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): this stream has one reader
  while (const dirent* entry = readdir(stream.get())) {
    DirectoryEntry one;
    one.name = entry->d_name;
    if (one.name == "." || one.name == "..") {
      continue;
    }
    if (deadline.Passed()) {
      return Failed("cannot read " + shown, ETIMEDOUT);
    }
    if (listing.entries.size() == kMostEntries) {
      return Error{ErrorCode::kInvalidInput,
                   shown + " holds more than " + std::to_string(kMostEntries) + " files", ""};
    }
    // What is gone by now was never there.
    if (fstatat(listing.fd.get(), one.name.c_str(), &one.info, AT_SYMLINK_NOFOLLOW) == 0) {
      listing.entries.push_back(std::move(one));
    } else if (errno != ENOENT) {
      return Failed("cannot read " + shown + "/" + one.name, errno);
    }
    errno = 0;
  }
  if (errno != 0) {
    return Failed("cannot read " + shown, errno);
  }
  std::sort(listing.entries.begin(), listing.entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return listing;
}

UniqueFd OpenRegular(const DirectoryListing& listing, const std::string& name, struct stat& info) {
  UniqueFd fd(
      openat(listing.fd.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (fd && fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode)) {
    return fd;
  }
  errno = fd ? EINVAL : errno;
  return UniqueFd(-1);
}

}  // namespace

Result<DirectoryListing> ListDirectory(const std::string& path, Deadline deadline) {
  return List(AT_FDCWD, path, 0, path, deadline);
}

Result<DirectoryListing> ListBelow(const DirectoryListing& listing, const std::string& name,
                                   const std::string& shown, Deadline deadline) {
  return List(listing.fd.get(), name, O_NOFOLLOW, shown, deadline);
}

Result<FileEnds> DigestEnds(const DirectoryListing& listing, const std::string& name,
                            std::int64_t part, Deadline deadline) {
  FileEnds ends;
  const UniqueFd fd = OpenRegular(listing, name, ends.info);
  if (!fd) {
    return Failed(name, errno);
  }
  if (part > 0) {
    Sha256 hash;
    const std::int64_t size = ends.info.st_size;
    const std::int64_t head = std::min(part, size);
    const std::int64_t tail = std::max(head, size - part);
    int failure = AddRange(fd.get(), 0, head, deadline, hash);
    failure = failure != 0 ? failure : AddRange(fd.get(), tail, size, deadline, hash);
    if (failure != 0) {
      return Failed(name, failure);
    }
    ends.digest = hash.FinishDigest();
  }
  return ends;
}

std::string ReadSmallFile(const DirectoryListing& listing, std::string_view name,
                          std::size_t most) {
  struct stat info {};
  const UniqueFd fd = OpenRegular(listing, std::string(name), info);
  if (!fd || info.st_size < 0 || static_cast<std::size_t>(info.st_size) > most) {
    return "";
  }
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t count =
        pread(fd.get(), text.data() + filled, text.size() - filled, static_cast<off_t>(filled));
    if (count <= 0 && !(count < 0 && errno == EINTR)) {
      return "";
    }
    filled += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  return text;
}

}  // namespace dlc
