#include "probes/node/checkpoint/checkpoint_controls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <utility>

#include "probes/node/checkpoint/checkpoint_files.h"
#include "probes/node/checkpoint/read_checkpoint.h"
#include "probes/node/checkpoint/write_checkpoint.h"
#include "probes/node/sha256/sha256.h"
#include "probes/node/storage/run_directory.h"

namespace dlc {
namespace {

constexpr int kRanks = 2;
constexpr std::int64_t kStep = 2;
constexpr std::int64_t kRows = 5;
constexpr std::int64_t kColumns = 3;
constexpr std::int64_t kCut = 3;  ///< rows of rank 0: the files differ in length
constexpr std::size_t kMostBytes = 65'536;

using Done = CheckpointResult<std::monostate>;

/// A small set on disk, and what can be done to it.
class PlantedSet {
 public:
  PlantedSet(std::string root, const CheckpointStrategy& strategy, Deadline deadline)
      : root_(std::move(root)), deadline_(deadline) {
    options_.strategy = strategy;
    options_.block_bytes = kDirectAlignment;
  }

  Done Make(const std::string& run_id, std::int64_t step);
  /// Opens it and reads all of it.
  Done Verify() const;
  std::string PathOf(int rank) const {
    return directory_ + "/" + CheckpointShardName(rank, kRanks);
  }
  std::string ManifestPath() const {
    return directory_ + "/" + std::string(kCheckpointManifestName);
  }
  /// Writes the manifest anew, with the lengths and digests that the files have now.
  Done Reseal();

 private:
  CheckpointResult<CheckpointFile> Shard(const CheckpointIdentity& identity, int rank);

  std::string root_;
  CheckpointWriteOptions options_;
  Deadline deadline_;
  std::string directory_;
  CheckpointManifest manifest_;
};

CheckpointResult<CheckpointFile> PlantedSet::Shard(const CheckpointIdentity& identity, int rank) {
  const std::int64_t first = rank == 0 ? 0 : kCut;
  const std::int64_t rows = rank == 0 ? kCut : kRows - kCut;
  const CheckpointShard shard{identity, rank, {}, {{"w", {kRows, kColumns}, first, rows}}};
  std::array<float, static_cast<std::size_t>(kRows * kColumns)> values{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(identity.step * 100) + static_cast<float>(i);
  }
  const auto source = [&](std::size_t /*tensor*/, std::int64_t offset,
                          std::int64_t /*bytes*/) -> Result<const std::byte*> {
    const auto bytes = std::as_bytes(std::span(values));
    return bytes.data() + first * kColumns * static_cast<std::int64_t>(sizeof(float)) + offset;
  };
  const auto written = WriteCheckpointShard(directory_, shard, source, options_, deadline_);
  if (!written) {
    return written.error();
  }
  return written->file;
}

Done PlantedSet::Make(const std::string& run_id, std::int64_t step) {
  if (mkdir(root_.c_str(), 0777) != 0) {
    return RefusedByErrno("make", root_, errno);
  }
  auto directory = PrepareCheckpointStep(root_, step, options_.strategy);
  if (!directory) {
    return directory.error();
  }
  directory_ = std::move(*directory);
  manifest_ = {{run_id, step, kRanks}, {}, {}};
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto file = Shard(manifest_.identity, rank);
    if (!file) {
      return file.error();
    }
    manifest_.shards.push_back(*file);
  }
  const auto published = PublishCheckpoint(directory_, manifest_, options_);
  return published ? Done(std::monostate()) : published.error();
}

Done PlantedSet::Verify() const {
  const auto checkpoint = OpenCheckpoint(directory_);
  if (!checkpoint) {
    return checkpoint.error();
  }
  CheckpointReadOptions options;
  options.block_bytes = kDirectAlignment;
  options.cold = false;
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto read = ReadCheckpointShard(*checkpoint, rank, {}, options, deadline_);
    if (!read) {
      return read.error();
    }
  }
  return std::monostate();
}

Done PlantedSet::Reseal() {
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto bytes = ReadSmallFile(PathOf(rank), kMostBytes);
    if (!bytes) {
      return bytes.error();
    }
    Sha256 hash;
    hash.Add(*bytes);
    CheckpointFile& file = manifest_.shards[static_cast<std::size_t>(rank)];
    file.bytes = static_cast<std::int64_t>(bytes->size());
    file.sha256 = hash.FinishDigest();
  }
  if (unlink(ManifestPath().c_str()) != 0) {
    return RefusedByErrno("remove", ManifestPath(), errno);
  }
  const auto published = PublishCheckpoint(directory_, manifest_, options_);
  return published ? Done(std::monostate()) : published.error();
}

/// By removing and writing anew: not every file system takes a write in the middle.
Done Replace(const std::string& path, const std::string& bytes) {
  if (unlink(path.c_str()) != 0) {
    return RefusedByErrno("remove", path, errno);
  }
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd) {
    return RefusedByErrno("create", path, errno);
  }
  int failure = WriteAllBytes(fd.get(), bytes);
  failure = failure == 0 ? CloseFile(fd) : failure;
  return failure == 0 ? Done(std::monostate()) : RefusedByErrno("write", path, failure);
}

Done Change(const std::string& path, const std::function<void(std::string&)>& how) {
  auto bytes = ReadSmallFile(path, kMostBytes);
  if (!bytes) {
    return bytes.error();
  }
  how(*bytes);
  return Replace(path, *bytes);
}

Done Exchange(const std::string& a, const std::string& b) {
  const auto of_a = ReadSmallFile(a, kMostBytes);
  const auto of_b = ReadSmallFile(b, kMostBytes);
  if (!of_a || !of_b) {
    return (of_a ? of_b : of_a).error();
  }
  auto first = Replace(a, *of_b);
  return first ? Replace(b, *of_a) : first;
}

/// The file of rank 1 comes from another set.
Done TakeFrom(const PlantedSet& other, const PlantedSet& set) {
  const auto bytes = ReadSmallFile(other.PathOf(1), kMostBytes);
  return bytes ? Replace(set.PathOf(1), *bytes) : bytes.error();
}

Done Remove(const std::string& path) {
  return unlink(path.c_str()) == 0 ? Done(std::monostate()) : RefusedByErrno("remove", path, errno);
}

/// One way to do one damage. `other` is a set of the step before, or of another run.
struct Damage {
  CheckpointFault fault;
  bool reseal;  ///< the manifest is made to agree with the damaged files
  Done (*plant)(PlantedSet& set, const PlantedSet& stale, const PlantedSet& foreign);
};

constexpr CheckpointFault kFaults[] = {CheckpointFault::kPartial, CheckpointFault::kDamaged,
                                       CheckpointFault::kSwapped, CheckpointFault::kStale,
                                       CheckpointFault::kMixedRun};

const std::vector<Damage>& Damages() {
  using Set = const PlantedSet&;
  static const std::vector<Damage> damages = {
      {CheckpointFault::kPartial, false,
       [](PlantedSet& set, Set, Set) { return Remove(set.ManifestPath()); }},
      {CheckpointFault::kPartial, false,
       [](PlantedSet& set, Set, Set) { return Remove(set.PathOf(1)); }},
      {CheckpointFault::kPartial, false,
       [](PlantedSet& set, Set, Set) {
         return Change(set.PathOf(1), [](std::string& bytes) { bytes.resize(bytes.size() - 4); });
       }},
      {CheckpointFault::kDamaged, false,
       [](PlantedSet& set, Set, Set) {
         return Change(set.PathOf(1), [](std::string& bytes) {
           bytes.back() = static_cast<char>(bytes.back() ^ 1);
         });
       }},
      {CheckpointFault::kDamaged, false,
       [](PlantedSet& set, Set, Set) {
         return Change(set.PathOf(0), [](std::string& bytes) { bytes[8] = '['; });
       }},
      {CheckpointFault::kSwapped, false,
       [](PlantedSet& set, Set, Set) { return Exchange(set.PathOf(0), set.PathOf(1)); }},
      {CheckpointFault::kSwapped, true,
       [](PlantedSet& set, Set, Set) { return Exchange(set.PathOf(0), set.PathOf(1)); }},
      {CheckpointFault::kStale, false,
       [](PlantedSet& set, Set stale, Set) { return TakeFrom(stale, set); }},
      {CheckpointFault::kStale, true,
       [](PlantedSet& set, Set stale, Set) { return TakeFrom(stale, set); }},
      {CheckpointFault::kMixedRun, false,
       [](PlantedSet& set, Set, Set foreign) { return TakeFrom(foreign, set); }},
      {CheckpointFault::kMixedRun, true,
       [](PlantedSet& set, Set, Set foreign) { return TakeFrom(foreign, set); }},
  };
  return damages;
}

/// The control's verdict after one more way.
void Judge(const Damage& damage, const Done& planted, const PlantedSet& set,
           CheckpointRefusalControl& control) {
  if (!planted) {
    control.planted = false;
    control.caught = false;
    control.found = planted.error().message;
    return;
  }
  const Done read = set.Verify();
  const bool caught = !read && read.error().fault == damage.fault;
  if (!caught || control.found.empty()) {
    control.found =
        read ? "nothing wrong was found"
             : std::string(CheckpointFaultName(read.error().fault)) + ": " + read.error().message;
  }
  control.caught = control.caught && caught;
}

CheckpointResult<std::vector<CheckpointRefusalControl>> PlantAll(const std::string& root,
                                                                 const CheckpointStrategy& strategy,
                                                                 Deadline deadline) {
  PlantedSet stale(root + "/stale", strategy, deadline);
  PlantedSet foreign(root + "/foreign", strategy, deadline);
  auto made = stale.Make("ours", kStep - 1);
  made = made ? foreign.Make("another", kStep) : made;
  made = made ? stale.Verify() : made;
  made = made ? foreign.Verify() : made;
  if (!made) {
    return made.error();
  }
  std::vector<CheckpointRefusalControl> controls;
  int number = 0;
  for (const CheckpointFault fault : kFaults) {
    CheckpointRefusalControl control{CheckpointFaultName(fault), true, true, ""};
    for (const Damage& damage : Damages()) {
      if (damage.fault != fault || !control.planted) {
        continue;
      }
      PlantedSet set(root + "/set-" + std::to_string(++number), strategy, deadline);
      auto whole = set.Make("ours", kStep);
      whole = whole ? set.Verify() : whole;
      if (!whole) {
        return whole.error();  // refused before it was damaged: no refusal would show anything
      }
      auto planted = damage.plant(set, stale, foreign);
      planted = planted && damage.reseal ? set.Reseal() : planted;
      Judge(damage, planted, set, control);
    }
    controls.push_back(std::move(control));
  }
  return controls;
}

}  // namespace

CheckpointResult<std::vector<CheckpointRefusalControl>> PlantCheckpointDamages(
    const std::string& scratch, const CheckpointStrategy& strategy, Deadline deadline) {
  const std::string root = scratch + "/controls";
  if (mkdir(root.c_str(), 0777) != 0) {
    return RefusedByErrno("make", root, errno);
  }
  auto controls = PlantAll(root, strategy, deadline);
  const auto left = RemoveRunDirectory(root);
  if (controls && !left.empty() && strategy.removes) {
    return CheckpointFailure{CheckpointFault::kUnavailable, "cannot remove " + left.front(), root,
                             ""};
  }
  return controls;
}

}  // namespace dlc
