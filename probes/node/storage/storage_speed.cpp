#include "probes/node/storage/storage_speed.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "probes/node/storage/mountinfo.h"
#include "probes/node/storage/run_directory.h"
#include "probes/node/unique_fd.h"

namespace dlc {
namespace {

constexpr std::size_t kPage = 4096;  // also O_DIRECT's alignment, for every file system we know
constexpr int kWrongData = EBADMSG;

using Clock = Deadline::Clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string ErrnoName(int failure) {
  const char* name = strerrorname_np(failure);
  return name != nullptr ? name : "errno " + std::to_string(failure);
}

/// Page-aligned bytes that no file system can compress, each page marked with its place and owner.
class Block {
 public:
  explicit Block(std::size_t size)
      : size_(size), bytes_(static_cast<char*>(std::aligned_alloc(kPage, size)), std::free) {
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
    for (std::size_t page = 0; page < size_; page += kPage) {
      const std::uint64_t mark[2] = {owner, static_cast<std::uint64_t>(offset) + page};
      std::memcpy(data() + page, mark, sizeof mark);
    }
  }
  bool IsMarked(std::uint64_t owner, std::int64_t offset) {
    for (std::size_t page = 0; page < size_; page += kPage) {
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

/// 0 or an errno.
int Transfer(int fd, bool writing, Block& block, std::int64_t bytes, std::uint64_t owner,
             Deadline deadline) {
  for (std::int64_t offset = 0; offset < bytes; offset += static_cast<std::int64_t>(block.size())) {
    if (deadline.Passed()) {
      return ETIMEDOUT;
    }
    if (writing) {
      block.Mark(owner, offset);
    }
    std::size_t done = 0;
    while (done < block.size()) {
      char* at = block.data() + done;
      const std::size_t left = block.size() - done;
      const off_t place = offset + static_cast<off_t>(done);
      const ssize_t count = writing ? pwrite(fd, at, left, place) : pread(fd, at, left, place);
      if (count < 0 && errno != EINTR) {
        return errno;
      }
      if (count == 0) {
        return kWrongData;  // shorter than what was written
      }
      done += count > 0 ? static_cast<std::size_t>(count) : 0;
    }
    if (!writing && !block.IsMarked(owner, offset)) {
      return kWrongData;
    }
  }
  return writing && fsync(fd) != 0 ? errno : 0;
}

class SpeedProbe {
 public:
  SpeedProbe(const StorageSpeedParameters& parameters, const StorageViewer& viewer,
             Exchange& exchange, Deadline deadline, const Progress& progress)
      : parameters_(parameters),
        exchange_(exchange),
        deadline_(deadline),
        progress_(progress),
        directory_(RunDirectory(parameters.path, viewer.run_id)) {}

  Result<void> Run(const std::string& node);
  StorageSpeed Take() {
    seen_.path = parameters_.path;
    seen_.leftovers = RemoveRunDirectory(directory_);
    return std::move(seen_);
  }

 private:
  std::string FileOf(int rank, std::size_t pass) const {
    return directory_ + "/speed-" + std::to_string(pass) + "-" + std::to_string(rank);
  }
  Result<void> CheckSpace() const;
  Result<void> ChooseSource(const std::string& node);
  Result<void> Pass(std::size_t pass, std::int64_t block_bytes, bool direct);
  void Write(const std::string& file, std::int64_t block_bytes, bool direct);
  void Read(const std::string& file, std::int64_t block_bytes, bool direct);
  StorageTransfer Time(const std::string& file, int flags, bool writing, std::int64_t block_bytes);

  const StorageSpeedParameters& parameters_;
  Exchange& exchange_;
  Deadline deadline_;
  const Progress& progress_;
  std::string directory_;
  int source_ = 0;  ///< the rank whose file we read
  bool other_node_ = false;
  Clock::time_point met_at_;
  StorageSpeed seen_;
};

Result<void> SpeedProbe::CheckSpace() const {
  auto space = ObserveSpace(parameters_.path);
  if (!space) {
    return std::move(space).error();
  }
  const std::int64_t needed = parameters_.file_bytes * exchange_.size();
  if (space->available_bytes < needed + needed / 8) {
    return Error{ErrorCode::kUnavailable,
                 parameters_.path + " has " + std::to_string(space->available_bytes) +
                     " bytes free; the measurement needs " + std::to_string(needed) +
                     " and an eighth to spare",
                 "free some space, or measure with smaller files"};
  }
  return {};
}

/// The next rank of another node, going round; our own file when there is none.
Result<void> SpeedProbe::ChooseSource(const std::string& node) {
  const auto nodes = exchange_.AllGather(node, deadline_);
  if (!nodes) {
    return nodes.error();
  }
  source_ = exchange_.rank();
  for (int step = 1; step < exchange_.size() && !other_node_; ++step) {
    const int candidate = (exchange_.rank() + step) % exchange_.size();
    if ((*nodes)[static_cast<std::size_t>(candidate)] != node) {
      source_ = candidate;
      other_node_ = true;
    }
  }
  return {};
}

Result<void> SpeedProbe::Run(const std::string& node) {
  Result<void> space = CheckSpace();
  // All decide together, or some would wait for those that gave up.
  const auto all = exchange_.AllGather(space ? "" : space.error().message, deadline_);
  if (!space) {
    return space;
  }
  if (!all) {
    return all.error();
  }
  for (int rank = 0; rank < exchange_.size(); ++rank) {
    if (const std::string& refusal = (*all)[static_cast<std::size_t>(rank)]; !refusal.empty()) {
      return Error{ErrorCode::kUnavailable, "rank " + std::to_string(rank) + ": " + refusal, ""};
    }
  }
  if (auto chosen = ChooseSource(node); !chosen) {
    return chosen;
  }
  if (mkdir(directory_.c_str(), 0777) != 0 && errno != EEXIST) {
    seen_.transfers.push_back(
        {"write", 0, 0, false, 0, 0, "", -1, ErrnoName(errno), "cannot make " + directory_});
  }
  std::size_t pass = 0;
  for (const std::int64_t block_bytes : parameters_.block_bytes) {
    if (auto done = Pass(pass++, block_bytes, false); !done) {
      return done;
    }
  }
  if (parameters_.direct) {
    return Pass(pass, parameters_.block_bytes.back(), true);
  }
  return {};
}

Result<void> SpeedProbe::Pass(std::size_t pass, std::int64_t block_bytes, bool direct) {
  const std::string own = FileOf(exchange_.rank(), pass);
  progress_.Say("writing " + own + (direct ? " with O_DIRECT" : ""));
  if (auto met = exchange_.Barrier(deadline_); !met) {
    return met;
  }
  met_at_ = Clock::now();
  Write(own, block_bytes, direct);
  progress_.Say("waiting for the other ranks' writes");
  if (auto met = exchange_.Barrier(deadline_); !met) {
    return met;
  }
  met_at_ = Clock::now();
  const std::string source = FileOf(source_, pass);
  progress_.Say("reading " + source);
  Read(source, block_bytes, direct);
  if (auto met = exchange_.Barrier(deadline_); !met) {
    return met;
  }
  unlink(own.c_str());
  return {};
}

StorageTransfer SpeedProbe::Time(const std::string& file, int flags, bool writing,
                                 std::int64_t block_bytes) {
  StorageTransfer transfer;
  transfer.direction = writing ? "write" : "read";
  transfer.block_bytes = block_bytes;
  transfer.direct = (flags & O_DIRECT) != 0;
  transfer.resident_fraction = -1;
  // Allocated before the clock starts: its pages are ours to touch, not the file system's time.
  Block block(static_cast<std::size_t>(block_bytes));
  const auto start = Clock::now();
  transfer.start_seconds = std::chrono::duration<double>(start - met_at_).count();
  const UniqueFd fd(open(file.c_str(), flags | O_CLOEXEC, 0666));
  int failure = fd ? 0 : errno;
  const auto owner = static_cast<std::uint64_t>(writing ? exchange_.rank() : source_);
  if (failure == 0) {
    failure = Transfer(fd.get(), writing, block, parameters_.file_bytes, owner, deadline_);
  }
  transfer.seconds = SecondsSince(start);
  transfer.bytes = failure == 0 ? parameters_.file_bytes : 0;
  if (failure != 0) {
    transfer.error = failure == kWrongData ? "wrong-data" : ErrnoName(failure);
    transfer.detail =
        failure == kWrongData ? "other bytes than were written" : strerrordesc_np(failure);
  }
  return transfer;
}

void SpeedProbe::Write(const std::string& file, std::int64_t block_bytes, bool direct) {
  seen_.transfers.push_back(
      Time(file, O_WRONLY | O_CREAT | O_EXCL | (direct ? O_DIRECT : 0), true, block_bytes));
}

void SpeedProbe::Read(const std::string& file, std::int64_t block_bytes, bool direct) {
  double resident = -1;
  if (const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC)); fd && !direct) {
    // Works on clean pages only: the writer has synced them.
    posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    resident = ResidentFraction(fd.get(), parameters_.file_bytes);
  }
  StorageTransfer transfer = Time(file, O_RDONLY | (direct ? O_DIRECT : 0), false, block_bytes);
  transfer.resident_fraction = resident;
  transfer.cold_because = other_node_     ? "other-node"
                          : direct        ? "direct"
                          : resident == 0 ? "evicted"
                                          : "";
  seen_.transfers.push_back(std::move(transfer));
}

Error BadParameters(const std::string& message) {
  return {ErrorCode::kInvalidInput, "storage-speed: " + message, ""};
}

}  // namespace

double ResidentFraction(int fd, std::int64_t size_bytes) {
  const auto size = static_cast<std::size_t>(size_bytes);
  struct stat info {};
  if (size == 0 || fstat(fd, &info) != 0 || info.st_size < size_bytes) {
    return -1;
  }
  void* map = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) {
    return -1;
  }
  std::vector<unsigned char> pages((size + kPage - 1) / kPage);
  const int status = mincore(map, size, pages.data());
  munmap(map, size);
  if (status != 0) {
    return -1;
  }
  const auto resident = std::count_if(pages.begin(), pages.end(),
                                      [](unsigned char page) { return (page & 1U) != 0; });
  return static_cast<double>(resident) / static_cast<double>(pages.size());
}

Result<StorageSpeed> ObserveStorageSpeed(const StorageSpeedParameters& parameters,
                                         const StorageViewer& viewer, Exchange& exchange,
                                         Deadline deadline, const Progress& progress) {
  if (parameters.file_bytes <= 0 || parameters.block_bytes.empty()) {
    return BadParameters("fileBytes and blockBytes are needed");
  }
  for (const std::int64_t block : parameters.block_bytes) {
    constexpr std::int64_t kMaxBlock = 256 << 20;
    if (block <= 0 || block > kMaxBlock || block % static_cast<std::int64_t>(kPage) != 0 ||
        parameters.file_bytes % block != 0) {
      return BadParameters("block of " + std::to_string(block) +
                           " bytes is no multiple of 4096 that divides fileBytes");
    }
  }
  SpeedProbe probe(parameters, viewer, exchange, deadline, progress);
  const auto done = probe.Run(viewer.node);
  StorageSpeed seen = probe.Take();
  if (!done) {
    return done.error();
  }
  return seen;
}

}  // namespace dlc
