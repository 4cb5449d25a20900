#include "cmd/dlc-check/rank_stage.h"

#include <chrono>
#include <utility>

#include "probes/control/launcher/local_launcher.h"

namespace dlc {
namespace {

constexpr std::chrono::milliseconds kJoin{30'000};
constexpr std::chrono::milliseconds kStop{15'000};

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

RankStageResult ObserveLocalRanks(Stage stage, const RankSetup& setup,
                                  const std::atomic<bool>& interrupted, Progress& progress) {
  StageWork work = WorkOf(stage, setup);
  if (work.steps.empty()) {
    return {NotLookedAt{std::move(work.why_not), ""}, {}};
  }
  progress.Step("starting " + std::to_string(setup.ranks) + " ranks on this host");
  LaunchRequest request;
  request.plan.run_id = setup.run_id;
  request.plan.join_deadline_ms = static_cast<int>(setup.timeout.value_or(kJoin).count());
  request.plan.steps = std::move(work.steps);
  request.plan.faults = std::move(work.faults);
  request.ranks = setup.ranks;
  request.run_directories = std::move(work.directories);
  request.interrupted = &interrupted;

  std::chrono::milliseconds whole =
      std::chrono::milliseconds(request.plan.join_deadline_ms) + kStop;
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
