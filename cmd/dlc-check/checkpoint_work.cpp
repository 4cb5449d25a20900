#include <algorithm>

#include "checks/checkpoint_sizes.h"
#include "cmd/dlc-check/stage_steps.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kStorageOperations{30'000};
constexpr milliseconds kStorageSpeed{120'000};
constexpr milliseconds kLeftoverRuns{30'000};
constexpr milliseconds kCheckpointTree{120'000};

constexpr double kSlowestStorage = 20e6;  ///< bytes/s of all ranks together
constexpr double kMostStorageSeconds = 7200;
constexpr double kMetadataSeconds = 3;  ///< of each of four phases
constexpr std::int64_t kBlockBytes = std::int64_t{4} << 20;

/// Write and read, twice by all ranks and once by one.
milliseconds StorageSpeedTime(const RankSetup& setup, std::int64_t file_bytes) {
  const double bytes = static_cast<double>(file_bytes) * (4.0 * setup.ranks + 2);
  const double seconds = std::min(bytes / kSlowestStorage, kMostStorageSeconds);
  return kStorageSpeed + milliseconds(static_cast<int>(seconds * 1000));
}

StorageSpeedParameters StorageSpeedOf(const RankSetup& setup) {
  StorageSpeedParameters speed;
  speed.path = setup.checkpoint_path;
  speed.file_bytes = TestBytesPerRank(setup.storage, setup.ranks, kBlockBytes);
  speed.block_bytes = {kBlockBytes};
  speed.direct = true;
  speed.alone = true;
  speed.metadata_files = setup.storage.metadata_files;
  speed.metadata_seconds = speed.metadata_files > 0 ? kMetadataSeconds : 0;
  return speed;
}

/// As a short training, and a file system that takes its time.
constexpr milliseconds kCheckpointFiles{120'000};
/// Two other numbers of ranks for qwen2.5-1.5b, all for what is smaller.
constexpr std::int64_t kMostReshardBytes = std::int64_t{40} << 30;

milliseconds VisibleWithin(const RankSetup& setup) {
  return milliseconds(static_cast<int>(setup.storage.visible_within_seconds * 1000));
}

CheckpointTrainingParameters CheckpointTrainingOf(const RankSetup& setup) {
  const CheckpointPolicy& policy = setup.checkpoint;
  CheckpointTrainingParameters parameters;
  parameters.path = setup.checkpoint_path;
  parameters.most_reshard_bytes = kMostReshardBytes;
  parameters.visible_within_ms = static_cast<int>(VisibleWithin(setup).count());
  FsdpTrainingParameters& training = parameters.training;
  training = TrainingWith(setup, policy.model, policy.backend);
  training.rows = 1;
  training.sequence = 64;
  training.micro_batches = 1;
  training.steps = policy.steps;
  training.reference = "no";
  return parameters;
}

milliseconds CheckpointTime(const RankSetup& setup,
                            const CheckpointTrainingParameters& parameters) {
  constexpr double kBytesEach = 12;
  const auto bytes = static_cast<double>(ElementsOf(parameters.training.model)) * kBytesEach;
  const double read_again = std::min(4 * bytes, static_cast<double>(kMostReshardBytes));
  const double seconds = std::min((4 * bytes + read_again) / kSlowestStorage, kMostStorageSeconds);
  FsdpTrainingParameters twice = parameters.training;
  twice.steps *= 2;
  return FsdpTrainingTime(setup, twice) + kCheckpointFiles +
         milliseconds(static_cast<int>(seconds * 1000));
}

}  // namespace

StageWork CheckpointWork(const RankSetup& setup) {
  StageWork work;
  if (setup.checkpoint_path.empty()) {
    work.why_not = "the config has no checkpoint.path";
    return work;
  }
  const StorageSpeedParameters speed = StorageSpeedOf(setup);
  const milliseconds visible = VisibleWithin(setup);
  work.steps = {
      Step("meet", kMeet, setup),
      Step("leftover-runs", kLeftoverRuns, setup,
           FactsToJson(LeftoverRunsParameters{setup.checkpoint_path, false, "", 0})),
      Step("storage-shared", kStorageOperations + visible, setup,
           FactsToJson(
               StorageSharedParameters{setup.checkpoint_path, static_cast<int>(visible.count())})),
      Step("storage-speed", StorageSpeedTime(setup, speed.file_bytes), setup, FactsToJson(speed))};
  if (setup.checkpoint.measure != "no") {
    const CheckpointTrainingParameters training = CheckpointTrainingOf(setup);
    const milliseconds time = CheckpointTime(setup, training);
    for (const char* step : {"checkpoint-save", "checkpoint-load"}) {
      work.steps.push_back(Step(step, time, setup, FactsToJson(training)));
    }
  }
  if (!setup.inspect_path.empty()) {
    work.steps.push_back(
        Step("checkpoint-tree", kCheckpointTree, setup,
             FactsToJson(CheckpointTreeParameters{setup.inspect_path, kHashedBytesOfCheckpoint})));
  }
  work.directories = {RunDirectoryOf(setup, setup.checkpoint_path)};
  return work;
}

StageWork LeftoverWork(const RankSetup& setup, const LeftoverRunsParameters& parameters) {
  StageWork work;
  work.steps = {Step("leftover-runs", kStorageSpeed, setup, FactsToJson(parameters))};
  return work;
}

}  // namespace dlc
