#include "probes/node/checkpoint/write_checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>

#include "probes/node/checkpoint/hashed_blocks.h"
#include "probes/node/checkpoint/read_checkpoint.h"
#include "probes/node/checkpoint/shard_metadata.h"

namespace dlc {
namespace {

using Clock = Deadline::Clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

CheckpointFailure Invalid(const std::string& message) {
  return {CheckpointFault::kInvalid, message, "", ""};
}

using Filler = std::function<CheckpointResult<std::monostate>(
    HashedBlocks& blocks, const std::string& path, CheckpointWriteTimes& times)>;

/// One file, from its creation to its durable name.
class NewFile {
 public:
  NewFile(const std::string& directory, const std::string& name,
          const CheckpointWriteOptions& options)
      : options_(options), directory_(directory), name_(name), path_(directory + "/" + name) {
    writing_ = options.strategy.publish == CheckpointPublish::kRename
                   ? directory + "/." + name + ".tmp"
                   : path_;
  }

  CheckpointResult<WrittenCheckpointFile> Write(const Filler& fill) {
    auto done = Try(fill);
    if (!done && created_) {
      unlink(writing_.c_str());
      if (renamed_) {
        unlink(path_.c_str());
      }
    }
    return done;
  }

 private:
  CheckpointResult<WrittenCheckpointFile> Try(const Filler& fill);
  int Create();
  CheckpointResult<std::monostate> Publish();

  const CheckpointWriteOptions& options_;
  std::string directory_;
  std::string name_;
  std::string path_;
  std::string writing_;  ///< its name while it is not whole
  UniqueFd fd_;
  bool created_ = false;
  bool renamed_ = false;
  WrittenCheckpointFile written_;
};

/// 0 or an errno.
int NewFile::Create() {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  // By fcntl, not by open: open(2) with O_DIRECT may create the file and then refuse.
  fd_.Reset(open(writing_.c_str(), kFlags, 0666));
  if (!fd_) {
    return errno;
  }
  created_ = true;
  if (options_.direct) {
    const int flags = fcntl(fd_.get(), F_GETFL);
    written_.direct = flags >= 0 && fcntl(fd_.get(), F_SETFL, flags | O_DIRECT) == 0;
    written_.direct_refused = written_.direct ? "" : CheckpointErrnoName(errno);
  }
  return 0;
}

CheckpointResult<WrittenCheckpointFile> NewFile::Try(const Filler& fill) {
  auto start = Clock::now();
  if (const int failure = Create(); failure != 0) {
    return RefusedByErrno("create", writing_, failure);
  }
  HashedBlocks blocks(fd_.get(), options_.block_bytes, written_.direct);
  written_.times.write_seconds = SecondsSince(start);
  if (auto filled = fill(blocks, writing_, written_.times); !filled) {
    return filled.error();
  }
  if (const int failure = blocks.Finish(); failure != 0) {
    return RefusedByErrno("write", writing_, failure);
  }
  written_.times.write_seconds += blocks.write_seconds();
  if (!blocks.direct_refused().empty()) {
    written_.direct = false;
    written_.direct_refused = blocks.direct_refused();
  }
  start = Clock::now();
  if (fsync(fd_.get()) != 0) {
    return RefusedByErrno("fsync", writing_, errno);
  }
  written_.times.fsync_seconds = SecondsSince(start);
  start = Clock::now();
  if (auto published = Publish(); !published) {
    return published.error();
  }
  written_.times.publish_seconds = SecondsSince(start);
  written_.file = {name_, blocks.bytes(), blocks.TakeDigest()};
  return std::move(written_);
}

CheckpointResult<std::monostate> NewFile::Publish() {
  if (const int failure = CloseFile(fd_); failure != 0) {
    return RefusedByErrno("close", writing_, failure);
  }
  if (writing_ != path_) {
    if (rename(writing_.c_str(), path_.c_str()) != 0) {
      return RefusedByErrno("rename", writing_, errno);
    }
    renamed_ = true;
  }
  if (options_.strategy.directory_fsync) {
    if (const int failure = SyncDirectory(directory_); failure != 0) {
      return RefusedByErrno("fsync", directory_, failure);
    }
  }
  return std::monostate();
}

/// Asks the source for what the header promises, in its order.
class ShardFiller {
 public:
  ShardFiller(const CheckpointShard& shard, const CheckpointSource& source, std::string header,
              std::int64_t block_bytes, Deadline deadline)
      : shard_(shard),
        source_(source),
        header_(std::move(header)),
        block_bytes_(block_bytes),
        deadline_(deadline) {}

  CheckpointResult<std::monostate> operator()(HashedBlocks& blocks, const std::string& path,
                                              CheckpointWriteTimes& times) const {
    if (const int failure = blocks.Add(header_); failure != 0) {
      return RefusedByErrno("write", path, failure);
    }
    for (std::size_t i = 0; i < shard_.tensors.size(); ++i) {
      if (auto done = Tensor(i, blocks, path, times); !done) {
        return done;
      }
    }
    return std::monostate();
  }

 private:
  CheckpointResult<std::monostate> Tensor(std::size_t index, HashedBlocks& blocks,
                                          const std::string& path,
                                          CheckpointWriteTimes& times) const {
    const std::int64_t all = BytesOfRows(shard_.tensors[index], shard_.tensors[index].rows);
    for (std::int64_t offset = 0; offset < all; offset += block_bytes_) {
      if (deadline_.Passed()) {
        return CheckpointFaultOf(CheckpointFault::kTimedOut, path, "not written in time");
      }
      const std::int64_t count = std::min(block_bytes_, all - offset);
      const auto start = Clock::now();
      const auto bytes = source_(index, offset, count);
      times.source_seconds += SecondsSince(start);
      if (!bytes) {
        return CheckpointFaultOf(CheckpointFault::kCaller, path, bytes.error().message);
      }
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes as chars
      const auto* chars = reinterpret_cast<const char*>(*bytes);
      if (const int failure = blocks.Add({chars, static_cast<std::size_t>(count)}); failure != 0) {
        return RefusedByErrno("write", path, failure);
      }
    }
    return std::monostate();
  }

  const CheckpointShard& shard_;
  const CheckpointSource& source_;
  std::string header_;
  std::int64_t block_bytes_;
  Deadline deadline_;
};

}  // namespace

CheckpointResult<std::string> PrepareCheckpointStep(const std::string& root, std::int64_t step,
                                                    const CheckpointStrategy& strategy) {
  if (step < 0) {
    return Invalid("step " + std::to_string(step));
  }
  std::string directory = root + "/" + CheckpointStepName(step);
  int failure = mkdir(directory.c_str(), 0777) != 0 ? errno : 0;
  if (failure == EEXIST) {
    const auto there = OpenCheckpoint(directory);
    if (there) {
      return Invalid(directory + " holds a whole checkpoint already");
    }
    if (there.error().fault == CheckpointFault::kUnavailable) {
      return there.error();  // it may be whole
    }
    if (auto removed = RemoveCheckpoint(directory, strategy); !removed) {
      return removed.error();
    }
    failure = mkdir(directory.c_str(), 0777) != 0 ? errno : 0;
  }
  if (failure != 0) {
    return RefusedByErrno("make", directory, failure);
  }
  if (strategy.directory_fsync) {
    if (const int synced = SyncDirectory(root); synced != 0) {
      return RefusedByErrno("fsync", root, synced);
    }
  }
  return directory;
}

CheckpointResult<WrittenCheckpointFile> WriteCheckpointShard(const std::string& directory,
                                                             const CheckpointShard& shard,
                                                             const CheckpointSource& source,
                                                             const CheckpointWriteOptions& options,
                                                             Deadline deadline) {
  if (const std::string problem = ProblemOfBlockBytes(options.block_bytes); !problem.empty()) {
    return Invalid(problem);
  }
  const auto described = SafetensorsOfShard(shard);
  auto header =
      described ? WriteSafetensorsHeader(*described) : Result<std::string>(described.error());
  if (!header) {
    return Invalid("rank " + std::to_string(shard.rank) + ": " + header.error().message);
  }
  NewFile file(directory, CheckpointShardName(shard.rank, shard.identity.ranks), options);
  return file.Write(ShardFiller(shard, source, std::move(*header), options.block_bytes, deadline));
}

CheckpointResult<WrittenCheckpointFile> PublishCheckpoint(const std::string& directory,
                                                          const CheckpointManifest& manifest,
                                                          const CheckpointWriteOptions& options) {
  const auto text = WriteCheckpointManifest(manifest);
  if (!text) {
    return Invalid(text.error().message);
  }
  CheckpointWriteOptions small = options;
  small.block_bytes = kDirectAlignment;
  small.direct = false;
  NewFile file(directory, std::string(kCheckpointManifestName), small);
  return file.Write([&](HashedBlocks& blocks, const std::string& path,
                        CheckpointWriteTimes& /*times*/) -> CheckpointResult<std::monostate> {
    if (const int failure = blocks.Add(*text); failure != 0) {
      return RefusedByErrno("write", path, failure);
    }
    return std::monostate();
  });
}

}  // namespace dlc
