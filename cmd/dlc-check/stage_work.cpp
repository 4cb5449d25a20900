#include <chrono>
#include <utility>

#include "cmd/dlc-check/rank_stage.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

constexpr std::chrono::milliseconds kMeet{15'000};
constexpr std::chrono::milliseconds kStorageOperations{30'000};
constexpr std::chrono::milliseconds kStorageSpeed{120'000};

/// Of each rank's file: enough to be past a client's write-behind, small enough for any quota.
constexpr std::int64_t kFileBytes = std::int64_t{32} << 20;
constexpr std::int64_t kBlockBytes = std::int64_t{4} << 20;

int Milliseconds(std::chrono::milliseconds span) {
  return static_cast<int>(span.count());
}

StageWork CheckpointWork(const RankSetup& setup) {
  if (setup.checkpoint_path.empty()) {
    return {{}, {}, "the config has no checkpoint.path"};
  }
  const auto visible = static_cast<int>(setup.visible_within_seconds * 1000);
  StageWork work;
  work.steps = {{"meet", "meet", Milliseconds(kMeet), "{}"},
                {"storage-shared", "storage-shared", Milliseconds(kStorageOperations) + visible,
                 FactsToJson(StorageSharedParameters{setup.checkpoint_path, visible})},
                {"storage-speed", "storage-speed", Milliseconds(kStorageSpeed),
                 FactsToJson(StorageSpeedParameters{
                     setup.checkpoint_path, kFileBytes, {kBlockBytes}, true})}};
  work.directories = {setup.checkpoint_path + "/.dlc-check-" + setup.run_id};
  return work;
}

}  // namespace

StageWork WorkOf(Stage stage, const RankSetup& setup) {
  if (setup.ranks == 0) {
    return {{}, {}, "the config has no target to run ranks on"};
  }
  switch (stage) {
    case Stage::kCheckpoint:
      return CheckpointWork(setup);
    case Stage::kImage:
    case Stage::kGpu:
    case Stage::kNccl:
    case Stage::kFsdp:
      break;
  }
  return {{}, {}, "this version starts no ranks for the stage"};
}

}  // namespace dlc
