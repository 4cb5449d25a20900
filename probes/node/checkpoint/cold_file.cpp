#include "probes/node/checkpoint/cold_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "probes/node/checkpoint/shard_metadata.h"
#include "probes/node/storage/storage_speed.h"

namespace dlc {
namespace {

/// A file of the set by its own word, or what it is instead: the most telling reason first.
std::optional<CheckpointFailure> ProblemOf(const CheckpointShard& found,
                                           const CheckpointIdentity& expected, int rank,
                                           const std::string& path) {
  const auto differs = [&](CheckpointFault fault, const std::string& wanted,
                           const std::string& got) {
    return CheckpointFaultOf(fault, path, "expected " + wanted + ", the file says " + got);
  };
  if (found.identity.run_id != expected.run_id) {
    return differs(CheckpointFault::kMixedRun, "run '" + expected.run_id + "'",
                   "run '" + found.identity.run_id + "'");
  }
  if (found.identity.step != expected.step) {
    return differs(CheckpointFault::kStale, "step " + std::to_string(expected.step),
                   "step " + std::to_string(found.identity.step));
  }
  if (found.rank != rank || found.identity.ranks != expected.ranks) {
    return differs(
        CheckpointFault::kSwapped,
        "rank " + std::to_string(rank) + " of " + std::to_string(expected.ranks),
        "rank " + std::to_string(found.rank) + " of " + std::to_string(found.identity.ranks));
  }
  return std::nullopt;
}

}  // namespace

CheckpointResult<ColdFile> ColdFile::Open(const Checkpoint& checkpoint, int rank) {
  const CheckpointIdentity& identity = checkpoint.manifest.identity;
  if (rank < 0 || rank >= identity.ranks) {
    return CheckpointFailure{CheckpointFault::kInvalid,
                             checkpoint.directory + " has no rank " + std::to_string(rank), "", ""};
  }
  const CheckpointFile& listed = checkpoint.manifest.shards[static_cast<std::size_t>(rank)];
  ColdFile file;
  file.path_ = checkpoint.directory + "/" + listed.name;
  file.fd_.Reset(open(file.path_.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file.fd_ || fstat(file.fd_.get(), &info) != 0) {
    return errno == ENOENT ? CheckpointFaultOf(CheckpointFault::kPartial, file.path_, "absent")
                           : RefusedByErrno("open", file.path_, errno);
  }
  file.bytes_ = info.st_size;
  const std::string lengths =
      "expected " + std::to_string(listed.bytes) + " bytes, found " + std::to_string(file.bytes_);
  const CheckpointFault of_length =
      file.bytes_ < listed.bytes ? CheckpointFault::kPartial : CheckpointFault::kDamaged;
  auto header = ReadSafetensorsHeader(file.fd_.get());
  if (!header && header.error().code == ErrorCode::kUnavailable) {
    const std::string& name = header.error().message;
    return CheckpointFailure{CheckpointFault::kUnavailable,
                             "cannot read " + file.path_ + ": " + name, file.path_, name};
  }
  auto shard = header ? ShardOfSafetensors(*header) : Result<CheckpointShard>(header.error());
  if (!shard) {
    return file.bytes_ != listed.bytes
               ? CheckpointFaultOf(of_length, file.path_, lengths)
               : CheckpointFaultOf(CheckpointFault::kDamaged, file.path_, shard.error().message);
  }
  if (auto problem = ProblemOf(*shard, identity, rank, file.path_)) {
    return std::move(*problem);
  }
  if (file.bytes_ != listed.bytes) {
    return CheckpointFaultOf(of_length, file.path_, lengths);
  }
  file.header_ = std::move(*header);
  file.shard_ = std::move(*shard);
  return file;
}

void ColdFile::KeepCold(const CheckpointReadOptions& options) {
  if (!options.cold) {
    return;
  }
  // Works on clean pages only: the writer has synced them.
  posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED);
  resident_ = ResidentFraction(fd_.get(), bytes_);
  const int flags = fcntl(fd_.get(), F_GETFL);
  direct_ = flags >= 0 && fcntl(fd_.get(), F_SETFL, flags | O_DIRECT) == 0;
  direct_refused_ = direct_ ? "" : CheckpointErrnoName(errno);
}

int ColdFile::LeaveDirect() {
  direct_ = false;
  const int flags = fcntl(fd_.get(), F_GETFL);
  return flags < 0 || fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT) != 0 ? errno : 0;
}

CheckpointResult<std::size_t> ColdFile::ReadBlock(std::int64_t offset, char* to,
                                                  std::size_t count) {
  std::size_t done = 0;
  while (done < count) {
    const std::int64_t at = offset + static_cast<std::int64_t>(done);
    const ssize_t got = pread(fd_.get(), to + done, count - done, at);
    int failure = got < 0 ? errno : 0;
    if (got == 0 || (got > 0 && at + got >= bytes_)) {
      return done + static_cast<std::size_t>(got);
    }
    done += got > 0 ? static_cast<std::size_t>(got) : 0;
    if (direct_ && (failure == EINVAL || done % kDirectAlignment != 0)) {
      // Taken by fcntl and refused here, or a short read left an odd rest.
      direct_refused_ = failure != 0 ? CheckpointErrnoName(failure) : "short read";
      failure = LeaveDirect();
    }
    if (failure != 0 && failure != EINTR) {
      return RefusedByErrno("read", path_, failure);
    }
  }
  return done;
}

CheckpointResult<std::monostate> ColdFile::ReadRange(std::int64_t offset, char* to,
                                                     std::size_t count, const DirectBuffer& bounce,
                                                     std::size_t bounce_bytes) {
  while (count > 0) {
    const std::size_t skipped = direct_ ? static_cast<std::size_t>(offset) % kDirectAlignment : 0;
    char* into = direct_ ? bounce.data() : to;
    const auto got = ReadBlock(offset - static_cast<std::int64_t>(skipped), into,
                               direct_ ? bounce_bytes : count);
    if (!got) {
      return got.error();
    }
    if (*got <= skipped) {
      return CheckpointFaultOf(CheckpointFault::kPartial, path_, "became shorter");
    }
    const std::size_t useful = std::min(*got - skipped, count);
    if (into != to) {
      std::memcpy(to, into + skipped, useful);
    }
    to += useful;
    offset += static_cast<std::int64_t>(useful);
    count -= useful;
  }
  return std::monostate();
}

CheckpointReadFacts ColdFile::Facts() const {
  CheckpointReadFacts facts;
  facts.direct = direct_;
  facts.resident_fraction = resident_;
  facts.direct_refused = direct_refused_;
  // What stays in memory after it was told to go lives there: tmpfs takes O_DIRECT and ignores it.
  facts.cold_because = direct_ && resident_ != 1 ? "direct" : resident_ == 0 ? "evicted" : "";
  return facts;
}

}  // namespace dlc
