#include "cmd/dlc-check/rank_stage.h"

#include <chrono>
#include <utility>

#include "probes/control/launcher/local_launcher.h"
#include "probes/observations/plan.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

constexpr std::chrono::milliseconds kJoin{30'000};
constexpr std::chrono::milliseconds kMeet{15'000};
constexpr std::chrono::milliseconds kStorageOperations{30'000};
constexpr std::chrono::milliseconds kStorageSpeed{120'000};
constexpr std::chrono::milliseconds kStop{15'000};

/// Of each rank's file: enough to be past a client's write-behind, small enough for any quota.
constexpr std::int64_t kFileBytes = std::int64_t{32} << 20;
constexpr std::int64_t kBlockBytes = std::int64_t{4} << 20;

int Milliseconds(std::chrono::milliseconds span) {
  return static_cast<int>(span.count());
}

RankPlan StoragePlan(const RankSetup& setup) {
  const auto visible = static_cast<int>(setup.visible_within_seconds * 1000);
  RankPlan plan;
  plan.run_id = setup.run_id;
  plan.join_deadline_ms = Milliseconds(kJoin);
  plan.steps = {{"meet", "meet", Milliseconds(kMeet), "{}"},
                {"storage-shared", "storage-shared", Milliseconds(kStorageOperations) + visible,
                 FactsToJson(StorageSharedParameters{setup.checkpoint_path, visible})},
                {"storage-speed", "storage-speed", Milliseconds(kStorageSpeed),
                 FactsToJson(StorageSpeedParameters{
                     setup.checkpoint_path, kFileBytes, {kBlockBytes}, true})}};
  return plan;
}

/// Tells the events until the ranks have ended; false when they had to be stopped.
bool FollowRanks(Launcher& launcher, Deadline deadline, Progress& progress) {
  while (true) {
    auto event = launcher.NextEvent(deadline);
    if (!event) {
      progress.Warn("stopping the ranks: " + event.error().message);
      return false;
    }
    if (!*event) {
      return true;
    }
    const RankEvent& told = **event;
    if (told.event == "step-started" || told.event == "log") {
      progress.Step("rank " + std::to_string(told.rank) + ": " + told.event +
                    (told.step.empty() ? "" : " " + told.step) +
                    (told.text.empty() ? "" : ": " + told.text));
    }
  }
}

}  // namespace

RankStageResult ObserveLocalRanks(const RankSetup& setup, const std::atomic<bool>& interrupted,
                                  Progress& progress) {
  LaunchRequest request;
  request.plan = StoragePlan(setup);
  request.ranks = setup.ranks;
  request.run_directories = {setup.checkpoint_path + "/.dlc-check-" + setup.run_id};
  request.interrupted = &interrupted;

  std::chrono::milliseconds whole = kJoin + kStop;
  for (const PlanStep& step : request.plan.steps) {
    whole += std::chrono::milliseconds(step.deadline_ms);
  }
  const Deadline deadline = Deadline::After(whole);
  LocalLauncher launcher({});
  if (auto started = launcher.Start(request, deadline); !started) {
    return {Observed<RankRun>(started.error()), launcher.CleanUp(Deadline::After(kStop))};
  }
  if (!FollowRanks(launcher, deadline, progress)) {
    launcher.Cancel(Deadline::After(kStop));
  }
  RankRun run = launcher.Collect();
  return {Observed<RankRun>(std::move(run)), launcher.CleanUp(Deadline::After(kStop))};
}

}  // namespace dlc
