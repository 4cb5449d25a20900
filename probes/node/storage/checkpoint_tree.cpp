#include "probes/node/storage/checkpoint_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "probes/node/sha256/sha256.h"
#include "probes/node/unique_fd.h"

namespace dlc {
namespace {

Error Failed(const std::string& path, int failure) {
  return {failure == ENOENT      ? ErrorCode::kNotFound
          : failure == EACCES    ? ErrorCode::kPermissionDenied
          : failure == ETIMEDOUT ? ErrorCode::kTimedOut
                                 : ErrorCode::kUnavailable,
          "cannot read " + path + ": " + strerrorname_np(failure), ""};
}

/// The rank in "__<rank>_<n>.distcp".
std::optional<int> RankOf(std::string_view name) {
  constexpr std::string_view kEnd = ".distcp";
  if (!name.starts_with("__") || !name.ends_with(kEnd)) {
    return std::nullopt;
  }
  const std::string_view middle = name.substr(2, name.size() - 2 - kEnd.size());
  const std::size_t bar = middle.find('_');
  const auto number = [](std::string_view text) {
    int value = -1;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    return status == std::errc() && end == text.data() + text.size() ? value : -1;
  };
  if (bar == std::string_view::npos || number(middle.substr(bar + 1)) < 0 ||
      number(middle.substr(0, bar)) < 0) {
    return std::nullopt;
  }
  return number(middle.substr(0, bar));
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

struct Content {
  std::int64_t size_bytes = 0;
  Digest digest;
};

Result<Content> ContentOf(const std::string& file, std::int64_t part, Deadline deadline) {
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!fd || fstat(fd.get(), &info) != 0) {
    return Failed(file, errno);
  }
  Content content{info.st_size, {}};
  if (part > 0) {
    Sha256 hash;
    const std::int64_t head = std::min(part, content.size_bytes);
    const std::int64_t tail = std::max(head, content.size_bytes - part);
    int failure = AddRange(fd.get(), 0, head, deadline, hash);
    failure = failure != 0 ? failure : AddRange(fd.get(), tail, content.size_bytes, deadline, hash);
    if (failure != 0) {
      return Failed(file, failure);
    }
    content.digest = hash.FinishDigest();
  }
  return content;
}

}  // namespace

Result<CheckpointTree> ObserveCheckpointTree(const CheckpointTreeParameters& parameters,
                                             Deadline deadline) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(parameters.path.c_str()), closedir);
  if (listing == nullptr) {
    return Failed(parameters.path, errno);
  }
  CheckpointTree tree;
  tree.path = parameters.path;
  tree.hashed_bytes_per_file = parameters.hashed_bytes_per_file;
  errno = 0;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): this stream has one reader
  while (const dirent* entry = readdir(listing.get())) {
    const std::string name = entry->d_name;
    const auto rank = RankOf(name);
    if (!rank && name != ".metadata") {
      continue;
    }
    auto content =
        ContentOf(parameters.path + "/" + name, parameters.hashed_bytes_per_file, deadline);
    if (!content) {
      return content.error();
    }
    if (rank) {
      tree.shards.push_back({name, *rank, content->size_bytes, content->digest});
    } else {
      tree.has_metadata = true;
      tree.metadata_bytes = content->size_bytes;
      tree.metadata_digest = content->digest;
    }
    errno = 0;
  }
  if (errno != 0) {
    return Failed(parameters.path, errno);
  }
  std::sort(tree.shards.begin(), tree.shards.end(), [](const ShardFile& a, const ShardFile& b) {
    return std::tie(a.rank, a.name) < std::tie(b.rank, b.name);
  });
  return tree;
}

}  // namespace dlc
