#include "cmd/dlc-check/rank_stage.h"

#include <chrono>
#include <map>
#include <utility>

#include "checks/rank_results.h"

namespace dlc {
namespace {

constexpr std::chrono::milliseconds kJoin{30'000};
constexpr std::chrono::milliseconds kStop{15'000};
/// The driver gives its ranks 40 s to clean up, and hears of it between two polls.
constexpr std::chrono::milliseconds kStopOfRay{60'000};
/// Upload, the job's environment on its nodes, actors.
constexpr std::chrono::milliseconds kStartOfRay{600'000};

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
    if (told.event == "launcher") {
      progress.Step(told.text);
    }
    if (told.event == "step-started" || told.event == "log") {
      progress.Step("rank " + std::to_string(told.rank) + ": " + told.event +
                    (told.step.empty() ? "" : " " + told.step) +
                    (told.text.empty() ? "" : ": " + told.text));
    }
  }
}

/// What ranks could not remove, each text once, after the ranks that say it.
void AddLeftovers(const RankRun& run, std::vector<std::string>& leftovers) {
  std::map<std::string, std::vector<int>> ranks_by_text;
  for (const RankReport& report : run.ranks) {
    if (const RankObservations* seen = report.seen.get()) {
      for (const std::string& left : seen->leftovers) {
        ranks_by_text[left].push_back(report.rank);
      }
    }
  }
  for (const auto& [text, ranks] : ranks_by_text) {
    leftovers.push_back(RankNames(run, ranks) + ": " + text);
  }
}

}  // namespace

RankStageResult RunRanks(StageWork work, const RankSetup& setup, Launcher& launcher,
                         const std::atomic<bool>& interrupted, Progress& progress) {
  if (work.steps.empty()) {
    return {NotLookedAt{std::move(work.why_not), ""}, {}};
  }
  progress.Step("starting " + std::to_string(setup.ranks) + " ranks " +
                (setup.ray   ? "through Ray"
                 : setup.env ? "of which this is rank " + std::to_string(setup.env->rank)
                             : "on this host"));
  LaunchRequest request;
  request.plan.run_id = setup.run_id;
  request.plan.join_deadline_ms = static_cast<int>(setup.timeout.value_or(kJoin).count());
  request.plan.steps = std::move(work.steps);
  request.plan.faults = std::move(work.faults);
  request.trainer = std::move(work.trainer);
  request.ranks = setup.ranks;
  request.run_directories = std::move(work.directories);
  request.interrupted = &interrupted;

  const std::chrono::milliseconds stop = setup.ray ? kStopOfRay : kStop;
  std::chrono::milliseconds whole = std::chrono::milliseconds(request.plan.join_deadline_ms) + stop;
  if (setup.ray) {
    whole += setup.ray->wait + kStartOfRay;
  }
  for (const PlanStep& step : request.plan.steps) {
    whole += std::chrono::milliseconds(step.deadline_ms);
  }
  if (request.trainer) {
    // And to clean up after it.
    whole += std::chrono::milliseconds(request.trainer->deadline_ms) + kStopOfRay;
  }
  const Deadline deadline = Deadline::After(whole);
  if (auto started = launcher.Start(request, deadline); !started) {
    return {Observed<RankRun>(started.error()), launcher.CleanUp(Deadline::After(stop))};
  }
  if (!FollowRanks(launcher, deadline, progress)) {
    launcher.Cancel(Deadline::After(stop));
  }
  const auto why_none = launcher.WhyNoRanks();
  RankRun run = launcher.Collect();
  std::vector<std::string> leftovers = launcher.CleanUp(Deadline::After(stop));
  if (why_none) {
    return {*why_none, std::move(leftovers)};
  }
  AddLeftovers(run, leftovers);
  return {Observed<RankRun>(std::move(run)), std::move(leftovers)};
}

}  // namespace dlc
