#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include "probes/node/checkpoint/checkpoint_files.h"
#include "probes/node/checkpoint/cold_file.h"
#include "probes/node/checkpoint/read_checkpoint.h"

namespace dlc {
namespace {

constexpr std::size_t kMostManifestBytes = 64U << 20U;

/// Presence and length; where one is wrong, what the file itself says.
std::optional<CheckpointFailure> ProblemOfFile(const Checkpoint& checkpoint, int rank) {
  const CheckpointFile& listed = checkpoint.manifest.shards[static_cast<std::size_t>(rank)];
  const std::string path = checkpoint.directory + "/" + listed.name;
  // By open, not by stat alone: a network file system looks again when a file is opened.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (fd && fstat(fd.get(), &info) == 0 && info.st_size == listed.bytes) {
    return std::nullopt;
  }
  const auto file = ColdFile::Open(checkpoint, rank);
  // It can have appeared in between.
  return file ? std::nullopt : std::optional<CheckpointFailure>(file.error());
}

}  // namespace

CheckpointResult<Checkpoint> OpenCheckpoint(const std::string& directory) {
  const std::string path = directory + "/" + std::string(kCheckpointManifestName);
  const auto text = ReadSmallFile(path, kMostManifestBytes);
  if (!text) {
    return text.error().errno_name == "ENOENT"
               ? CheckpointFaultOf(CheckpointFault::kPartial, path, "no manifest")
               : text.error();
  }
  auto manifest = ParseCheckpointManifest(*text, path);
  if (!manifest) {
    return manifest.error();
  }
  const std::int64_t named = StepOfCheckpointName(directory.substr(directory.rfind('/') + 1));
  if (named >= 0 && named != manifest->identity.step) {
    return CheckpointFaultOf(CheckpointFault::kStale, path,
                             "expected step " + std::to_string(named) +
                                 ", the manifest says step " +
                                 std::to_string(manifest->identity.step));
  }
  Checkpoint checkpoint{directory, std::move(*manifest)};
  for (int rank = 0; rank < checkpoint.manifest.identity.ranks; ++rank) {
    if (auto problem = ProblemOfFile(checkpoint, rank)) {
      return std::move(*problem);
    }
  }
  return checkpoint;
}

CheckpointResult<Checkpoint> AwaitCheckpoint(const std::string& directory, Deadline deadline) {
  constexpr int kPauseMs = 20;
  while (true) {
    auto checkpoint = OpenCheckpoint(directory);
    if (checkpoint || checkpoint.error().fault != CheckpointFault::kPartial || deadline.Passed()) {
      return checkpoint;
    }
    const auto left =
        static_cast<int>(std::min<std::int64_t>(deadline.Remaining().count(), kPauseMs));
    poll(nullptr, 0, std::max(left, 1));
  }
}

CheckpointResult<LatestCheckpoint> FindLatestCheckpoint(const std::string& root) {
  const auto names = NamesIn(root);
  if (!names) {
    return names.error();
  }
  std::vector<std::int64_t> steps;
  for (const std::string& name : *names) {
    if (const std::int64_t step = StepOfCheckpointName(name); step >= 0) {
      steps.push_back(step);
    }
  }
  std::sort(steps.rbegin(), steps.rend());
  LatestCheckpoint latest;
  for (const std::int64_t step : steps) {
    auto checkpoint = OpenCheckpoint(root + "/" + CheckpointStepName(step));
    if (checkpoint) {
      latest.checkpoint = std::move(*checkpoint);
      return latest;
    }
    if (checkpoint.error().fault == CheckpointFault::kUnavailable) {
      return checkpoint.error();
    }
    latest.passed_over.push_back({step, checkpoint.error()});
  }
  return latest;
}

}  // namespace dlc
