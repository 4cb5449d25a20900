#include "probes/node/storage/storage_transfer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "probes/node/unique_fd.h"

namespace dlc {
namespace {

constexpr std::size_t kTransferPage = 4096;  // also O_DIRECT's alignment, wherever we know it

using Clock = Deadline::Clock;

double SecondsBetween(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

TransferBlock::TransferBlock(std::int64_t size)
    : size_(static_cast<std::size_t>(size)),
      bytes_(static_cast<char*>(std::aligned_alloc(kTransferPage, size_)), std::free) {
  // Bytes that no file system can compress; and no page of ours is met for the first time while
  // time is taken.
  std::uint64_t state = 0x9E3779B97F4A7C15U;
  for (std::size_t i = 0; i + sizeof state <= size_; i += sizeof state) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    std::memcpy(data() + i, &state, sizeof state);
  }
}

void TransferBlock::Mark(std::uint64_t owner, std::int64_t offset) {
  for (std::size_t page = 0; page < size_; page += kTransferPage) {
    const std::uint64_t mark[2] = {owner, static_cast<std::uint64_t>(offset) + page};
    std::memcpy(data() + page, mark, sizeof mark);
  }
}

namespace {

/// One pass; the first thing that goes wrong is kept, by name.
class TransferPass {
 public:
  TransferPass(const TransferTask& task, TransferBlocks& blocks, Clock::time_point met_at,
               Deadline deadline)
      : task_(task), blocks_(blocks), deadline_(deadline), met_at_(met_at) {
    seen_.direction = task.writing ? "write" : "read";
    seen_.block_bytes = task.block_bytes;
    seen_.direct = task.direct;
    seen_.resident_fraction = -1;
  }

  StorageTransfer Run() {
    const auto start = Clock::now();
    seen_.start_seconds = SecondsBetween(met_at_, start);
    bool done = Open() && Blocks();
    if (task_.writing && fd_) {
      done = SyncAndClose(done) && done;
    }
    seen_.seconds = SecondsBetween(start, Clock::now()) - idle_;
    seen_.bytes = done ? task_.bytes : 0;
    if (!done) {
      seen_.quarters.clear();
    }
    return std::move(seen_);
  }

 private:
  bool Fail(const char* operation, int failure) {
    return Fail(operation, StorageErrnoName(failure), strerrordesc_np(failure));
  }
  bool Fail(const char* operation, std::string name, const char* why) {
    if (seen_.error.empty()) {
      seen_.error = std::move(name);
      seen_.detail = std::string(operation) + ": " + (why != nullptr ? why : "unknown");
    }
    return false;
  }

  bool Open() {
    const int direction = task_.writing ? O_WRONLY | O_CREAT | O_EXCL : O_RDONLY;
    fd_.Reset(
        open(task_.file.c_str(), direction | (task_.direct ? O_DIRECT : 0) | O_CLOEXEC, 0666));
    if (!fd_) {
      return Fail("open", errno);
    }
    if (!task_.writing && !task_.direct) {
      // As whoever restores a checkpoint reads it: from end to end.
      posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
    }
    return true;
  }

  bool Blocks() {
    const std::int64_t blocks = task_.bytes / task_.block_bytes;
    std::int64_t quarter_begin = 0;
    auto since = Clock::now();
    double idle_before = 0;
    for (std::int64_t i = 0; i < blocks; ++i) {
      if (deadline_.Passed()) {
        return Fail(task_.writing ? "write" : "read", ETIMEDOUT);
      }
      if (!OneBlock(i * task_.block_bytes)) {
        return false;
      }
      const auto quarter = static_cast<std::int64_t>(seen_.quarters.size()) + 1;
      if (blocks >= 4 && i + 1 == blocks * quarter / 4) {
        const auto now = Clock::now();
        seen_.quarters.push_back({(i + 1 - quarter_begin) * task_.block_bytes,
                                  SecondsBetween(since, now) - (idle_ - idle_before)});
        quarter_begin = i + 1;
        since = now;
        idle_before = idle_;
      }
    }
    return true;
  }

  bool OneBlock(std::int64_t offset) {
    const auto start = Clock::now();
    blocks_.written.Mark(task_.owner, offset);
    LeftIdle(start);
    char* const bytes = task_.writing ? blocks_.written.data() : blocks_.read.data();
    std::size_t done = 0;
    const auto size = static_cast<std::size_t>(task_.block_bytes);
    while (done < size) {
      char* at = bytes + done;
      const std::size_t left = size - done;
      const off_t place = offset + static_cast<off_t>(done);
      const ssize_t count =
          task_.writing ? pwrite(fd_.get(), at, left, place) : pread(fd_.get(), at, left, place);
      if (count < 0 && errno != EINTR) {
        return Fail(task_.writing ? "write" : "read", errno);
      }
      if (count == 0) {
        return task_.writing ? Fail("write", "short-write", "took no byte")
                             : Fail("read", "short-read", "the file is shorter than was written");
      }
      done += count > 0 ? static_cast<std::size_t>(count) : 0;
    }
    return task_.writing || IsAsWritten(offset);
  }

  /// Where it is asked with O_DIRECT the file system has had nothing to do since then, and that is
  /// not its time. Else it reads ahead or writes behind, and our work is a part of it.
  void LeftIdle(Clock::time_point since) {
    idle_ += task_.direct ? SecondsBetween(since, Clock::now()) : 0;
  }

  bool IsAsWritten(std::int64_t offset) {
    const auto start = Clock::now();
    const char* const wanted = blocks_.written.data();
    const char* const found = blocks_.read.data();
    const auto size = static_cast<std::size_t>(task_.block_bytes);
    const bool same = std::memcmp(wanted, found, size) == 0;
    LeftIdle(start);
    if (same) {
      return true;
    }
    const auto at = std::mismatch(wanted, wanted + size, found).first - wanted;
    const std::string place =
        "byte " + std::to_string(offset + at) + " is another than was written";
    return Fail("read", "wrong-data", place.c_str());
  }

  /// NFS tells of a full disk or quota only here. Closed whatever came before; nothing that failed
  /// is synced.
  bool SyncAndClose(bool written) {
    const auto start = Clock::now();
    bool good = !written || fsync(fd_.get()) == 0 || Fail("fsync", errno);
    good = (close(fd_.Release()) == 0 || Fail("close", errno)) && good;
    seen_.sync_seconds = SecondsBetween(start, Clock::now());
    return good;
  }

  const TransferTask& task_;
  TransferBlocks& blocks_;
  Deadline deadline_;
  Clock::time_point met_at_;
  double idle_ = 0;  ///< seconds that are not the file system's
  UniqueFd fd_;
  StorageTransfer seen_;
};

}  // namespace

std::string StorageErrnoName(int failure) {
  const char* name = strerrorname_np(failure);
  return name != nullptr ? name : "errno " + std::to_string(failure);
}

StorageTransfer TimeTransfer(const TransferTask& task, TransferBlocks& blocks,
                             Clock::time_point met_at, Deadline deadline) {
  return TransferPass(task, blocks, met_at, deadline).Run();
}

}  // namespace dlc
