#include "probes/node/storage/storage_speed.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <vector>

#include "probes/node/storage/mountinfo.h"
#include "probes/node/storage/run_directory.h"
#include "probes/node/storage/storage_metadata.h"
#include "probes/node/storage/storage_transfer.h"
#include "probes/node/unique_fd.h"

namespace dlc {
namespace {

constexpr std::size_t kPage = 4096;  // also O_DIRECT's alignment, for every file system we know

using Clock = Deadline::Clock;

/// What one pass is to be.
struct PassKind {
  std::size_t number = 0;
  std::int64_t block_bytes = 0;
  bool direct = false;
  bool alone = false;
};

/// An eighth of the time is left to tell what did not end, and to clean up.
Deadline WorkPart(Deadline deadline) {
  return Deadline::After(deadline.Remaining() * 7 / 8);
}

class SpeedProbe {
 public:
  SpeedProbe(const StorageSpeedParameters& parameters, const StorageViewer& viewer,
             Exchange& exchange, Deadline deadline, const Progress& progress)
      : parameters_(parameters),
        exchange_(exchange),
        deadline_(deadline),
        work_(WorkPart(deadline)),
        progress_(progress),
        directory_(RunDirectory(parameters.path, viewer.run_id)),
        blocks_(*std::max_element(parameters.block_bytes.begin(), parameters.block_bytes.end())) {}

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
  Result<void> CheckSpace();
  Result<void> AgreeOnSpace();
  Result<void> ChooseSource(const std::string& node);
  Result<void> Passes();
  Result<void> Pass(const PassKind& kind);
  std::string Write(const PassKind& kind);
  void Read(const PassKind& kind, const std::vector<std::string>& failures);
  Result<void> SmallFiles();

  const StorageSpeedParameters& parameters_;
  Exchange& exchange_;
  Deadline deadline_;
  Deadline work_;
  const Progress& progress_;
  std::string directory_;
  int source_ = 0;  ///< the rank whose file we read
  bool other_node_ = false;
  int lone_reader_ = 0;  ///< of rank 0's file: the first rank of another node, else rank 0
  TransferBlocks blocks_;
  Clock::time_point met_at_;
  StorageSpeed seen_;
};

Result<void> SpeedProbe::CheckSpace() {
  seen_.mount = ObserveMount(parameters_.path);
  auto space = ObserveSpace(parameters_.path);
  seen_.space = space;
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
  const std::int64_t inodes = (std::int64_t{2} * parameters_.metadata_files + 4) * exchange_.size();
  if (space->total_inodes > 0 && space->available_inodes < inodes) {
    return Error{ErrorCode::kUnavailable,
                 parameters_.path + " has " + std::to_string(space->available_inodes) +
                     " inodes free; the measurement needs " + std::to_string(inodes),
                 "remove some files, or measure with fewer"};
  }
  return {};
}

/// All decide together, or some would wait for those that gave up.
Result<void> SpeedProbe::AgreeOnSpace() {
  Result<void> space = CheckSpace();
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
  const auto elsewhere = std::find_if(nodes->begin(), nodes->end(), [&](const std::string& other) {
    return other != nodes->front();
  });
  lone_reader_ =
      elsewhere == nodes->end() ? 0 : static_cast<int>(std::distance(nodes->begin(), elsewhere));
  return {};
}

Result<void> SpeedProbe::Run(const std::string& node) {
  if (auto space = AgreeOnSpace(); !space) {
    return space;
  }
  if (auto chosen = ChooseSource(node); !chosen) {
    return chosen;
  }
  if (mkdir(directory_.c_str(), 0777) != 0 && errno != EEXIST) {
    StorageTransfer refused;
    refused.direction = "write";
    refused.resident_fraction = -1;
    refused.error = StorageErrnoName(errno);
    refused.detail = "cannot make " + directory_;
    seen_.transfers.push_back(std::move(refused));
  }
  if (auto done = Passes(); !done || parameters_.metadata_files == 0) {
    return done;
  }
  return SmallFiles();
}

Result<void> SpeedProbe::Passes() {
  std::vector<PassKind> kinds;
  for (const std::int64_t block_bytes : parameters_.block_bytes) {
    kinds.push_back({kinds.size(), block_bytes, false, false});
  }
  const std::int64_t last = parameters_.block_bytes.back();
  if (parameters_.direct) {
    kinds.push_back({kinds.size(), last, true, false});
  }
  // Last, for they are not on every rank's list.
  if (parameters_.alone) {
    kinds.push_back({kinds.size(), last, false, true});
  }
  for (const PassKind& kind : kinds) {
    if (auto done = Pass(kind); !done) {
      return done;
    }
  }
  return {};
}

Result<void> SpeedProbe::Pass(const PassKind& kind) {
  const std::string own = FileOf(exchange_.rank(), kind.number);
  const std::string how =
      std::string(kind.direct ? " with O_DIRECT" : "") + (kind.alone ? ", one rank alone" : "");
  progress_.Say("writing " + own + how);
  if (auto met = exchange_.Barrier(deadline_); !met) {
    return met;
  }
  met_at_ = Clock::now();
  const std::string failure = !kind.alone || exchange_.rank() == 0 ? Write(kind) : "";
  progress_.Say("waiting for the other ranks' writes");
  const auto failures = exchange_.AllGather(failure, deadline_);
  if (!failures) {
    return failures.error();
  }
  met_at_ = Clock::now();
  if (!kind.alone || exchange_.rank() == lone_reader_) {
    Read(kind, *failures);
  }
  progress_.Say("waiting for the other ranks' reads");
  if (auto met = exchange_.Barrier(deadline_); !met) {
    return met;
  }
  unlink(own.c_str());
  return {};
}

/// Why not; empty: written.
std::string SpeedProbe::Write(const PassKind& kind) {
  const int rank = exchange_.rank();
  StorageTransfer transfer =
      TimeTransfer({FileOf(rank, kind.number), true, kind.direct, parameters_.file_bytes,
                    kind.block_bytes, static_cast<std::uint64_t>(rank)},
                   blocks_, met_at_, work_);
  transfer.alone = kind.alone;
  seen_.transfers.push_back(transfer);
  return transfer.error;
}

/// `failures`: of the writers, by rank.
void SpeedProbe::Read(const PassKind& kind, const std::vector<std::string>& failures) {
  const int source = kind.alone ? 0 : source_;
  const bool other_node = kind.alone ? lone_reader_ != 0 : other_node_;
  if (const std::string& failure = failures[static_cast<std::size_t>(source)]; !failure.empty()) {
    StorageTransfer none;
    none.direction = "read";
    none.block_bytes = kind.block_bytes;
    none.direct = kind.direct;
    none.resident_fraction = -1;
    none.error = "not-written";
    none.detail = "rank " + std::to_string(source) + "'s write ended with " + failure;
    none.alone = kind.alone;
    seen_.transfers.push_back(std::move(none));
    return;
  }
  const std::string file = FileOf(source, kind.number);
  progress_.Say("reading " + file);
  double resident = -1;
  if (const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC)); fd && !kind.direct) {
    // Works on clean pages only: the writer has synced them.
    posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    resident = ResidentFraction(fd.get(), parameters_.file_bytes);
  }
  StorageTransfer transfer = TimeTransfer({file, false, kind.direct, parameters_.file_bytes,
                                           kind.block_bytes, static_cast<std::uint64_t>(source)},
                                          blocks_, met_at_, work_);
  transfer.alone = kind.alone;
  transfer.resident_fraction = resident;
  transfer.cold_because = other_node      ? "other-node"
                          : kind.direct   ? "direct"
                          : resident == 0 ? "evicted"
                                          : "";
  seen_.transfers.push_back(std::move(transfer));
}

Result<void> SpeedProbe::SmallFiles() {
  auto phases = TimeMetadata(
      {directory_, parameters_.metadata_files, parameters_.metadata_seconds, source_, other_node_},
      exchange_, work_, deadline_, progress_);
  if (!phases) {
    return phases.error();
  }
  seen_.metadata = std::move(*phases);
  return {};
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
  if (parameters.metadata_files < 0 || parameters.metadata_seconds < 0 ||
      (parameters.metadata_files > 0) != (parameters.metadata_seconds > 0)) {
    return BadParameters("metadataFiles and metadataSeconds go together");
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
