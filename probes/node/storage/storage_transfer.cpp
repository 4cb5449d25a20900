#include "probes/node/storage/storage_transfer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "probes/node/unique_fd.h"

namespace dlc {
namespace {

constexpr std::size_t kTransferPage = 4096;  // also O_DIRECT's alignment, wherever we know it

using Clock = Deadline::Clock;

double SecondsBetween(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Page-aligned bytes that no file system can compress, each page marked with its place and owner.
class MarkedBlock {
 public:
  explicit MarkedBlock(std::size_t size)
      : size_(size),
        bytes_(static_cast<char*>(std::aligned_alloc(kTransferPage, size)), std::free) {
    std::uint64_t state = 0x9E3779B97F4A7C15U;
    for (std::size_t i = 0; i + sizeof state <= size; i += sizeof state) {
      state ^= state << 13U;
      state ^= state >> 7U;
      state ^= state << 17U;
      std::memcpy(data() + i, &state, sizeof state);
    }
  }
  char* data() { return bytes_.get(); }
  std::size_t size() const { return size_; }

  void Mark(std::uint64_t owner, std::int64_t offset) {
    for (std::size_t page = 0; page < size_; page += kTransferPage) {
      const std::uint64_t mark[2] = {owner, static_cast<std::uint64_t>(offset) + page};
      std::memcpy(data() + page, mark, sizeof mark);
    }
  }
  bool IsMarked(std::uint64_t owner, std::int64_t offset) {
    for (std::size_t page = 0; page < size_; page += kTransferPage) {
      const std::uint64_t mark[2] = {owner, static_cast<std::uint64_t>(offset) + page};
      if (std::memcmp(data() + page, mark, sizeof mark) != 0) {
        return false;
      }
    }
    return true;
  }

 private:
  std::size_t size_;
  std::unique_ptr<char, void (*)(void*)> bytes_;
};

/// One pass; the first thing that goes wrong is kept, by name.
class TransferPass {
 public:
  TransferPass(const TransferTask& task, Clock::time_point met_at, Deadline deadline)
      : task_(task),
        deadline_(deadline),
        block_(static_cast<std::size_t>(task.block_bytes)),
        met_at_(met_at) {
    seen_.direction = task.writing ? "write" : "read";
    seen_.block_bytes = task.block_bytes;
    seen_.direct = task.direct;
    seen_.resident_fraction = -1;
  }

  StorageTransfer Run() {
    // The block's pages are ours to touch, not the file system's time: they were filled before.
    const auto start = Clock::now();
    seen_.start_seconds = SecondsBetween(met_at_, start);
    bool done = Open() && Blocks();
    if (task_.writing && fd_) {
      done = SyncAndClose(done) && done;
    }
    seen_.seconds = SecondsBetween(start, Clock::now());
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
        seen_.quarters.push_back(
            {(i + 1 - quarter_begin) * task_.block_bytes, SecondsBetween(since, now)});
        quarter_begin = i + 1;
        since = now;
      }
    }
    return true;
  }

  bool OneBlock(std::int64_t offset) {
    if (task_.writing) {
      block_.Mark(task_.owner, offset);
    }
    std::size_t done = 0;
    while (done < block_.size()) {
      char* at = block_.data() + done;
      const std::size_t left = block_.size() - done;
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
    return task_.writing || block_.IsMarked(task_.owner, offset) ||
           Fail("read", "wrong-data", "other bytes than were written");
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
  Deadline deadline_;
  MarkedBlock block_;
  Clock::time_point met_at_;
  UniqueFd fd_;
  StorageTransfer seen_;
};

}  // namespace

std::string StorageErrnoName(int failure) {
  const char* name = strerrorname_np(failure);
  return name != nullptr ? name : "errno " + std::to_string(failure);
}

StorageTransfer TimeTransfer(const TransferTask& task, Clock::time_point met_at,
                             Deadline deadline) {
  return TransferPass(task, met_at, deadline).Run();
}

}  // namespace dlc
