#include "cmd/dlc-check/observe.h"

#include <string>
#include <utility>

#include "checks/check.h"
#include "cmd/dlc-check/rank_launcher.h"
#include "cmd/dlc-check/signals.h"
#include "probes/observations/why_unseen.h"

namespace dlc {
namespace {

Result<void> ObserveImageStage(Plan& plan, Progress& progress) {
  if (!plan.image) {
    return {};  // the plan has recorded why
  }
  progress.Step("asking for " + plan.image->ToString());
  auto image = ObserveImage(*plan.image, plan.registry, Deadline::After(plan.registry_timeout),
                            [&](const std::string& line) { progress.Step(line); });
  if (!image && image.error().code == ErrorCode::kInvalidInput) {
    return image.error();
  }
  plan.observations.served_image = Observed<ServedImage>(std::move(image));
  return {};
}

void ObserveRankStage(Stage stage, Observed<RankRun>& ranks, Plan& plan, RankLaunchers& launchers,
                      Progress& progress) {
  StageWork work = WorkOf(stage, plan.ranks);
  if (work.steps.empty()) {
    ranks = NotLookedAt{std::move(work.why_not), ""};
    return;
  }
  auto launcher = launchers.Make(progress);
  if (!launcher.seen()) {
    ranks = launcher.failed() ? Observed<RankRun>(launcher.error())
                              : Observed<RankRun>(launcher.why_not());
    return;
  }
  RankStageResult result =
      RunRanks(std::move(work), plan.ranks, *launcher.value(), Interrupted(), progress);
  ranks = std::move(result.run);
  plan.leftovers.insert(plan.leftovers.end(), result.leftovers.begin(), result.leftovers.end());
}

/// What a stage would have looked at, marked as not looked at and why.
void SkipStage(Stage stage, const NotLookedAt& why, Observations& observations) {
  if (stage == Stage::kImage) {
    observations.served_image = why;
  }
  if (Observed<RankRun>* ranks = RanksOf(observations, stage)) {
    *ranks = why;
  }
}

Result<void> RunStage(Stage stage, Plan& plan, RankLaunchers& launchers, Progress& progress) {
  if (stage == Stage::kImage) {
    return ObserveImageStage(plan, progress);
  }
  if (Observed<RankRun>* ranks = RanksOf(plan.observations, stage)) {
    ObserveRankStage(stage, *ranks, plan, launchers, progress);
  }
  return {};
}

/// Empty: rank 0 has this rank's document, for they met.
std::string WhyNoPart(const Observed<RankRun>& ranks, std::size_t rank) {
  const RankRun* run = ranks.get();
  if (run == nullptr) {
    return WhyUnseen(ranks);
  }
  if (rank >= run->ranks.size()) {
    return "it has no document";
  }
  const RankObservations* mine = run->ranks[rank].seen.get();
  if (mine == nullptr) {
    return WhyUnseen(run->ranks[rank].seen);
  }
  for (const ExperimentResult<Meeting>& meeting : mine->meet) {
    if (!meeting.seen.seen()) {
      return WhyUnseen(meeting.seen);
    }
  }
  return "";
}

}  // namespace

bool TakePart(Plan& plan, Progress& progress) {
  RankLaunchers launchers(plan.ranks, plan.ray, plan.live, plan.observations.cluster);
  const auto me = static_cast<std::size_t>(plan.ranks.env->rank);
  bool all = true;
  for (const Stage stage : plan.observations.run.stages) {
    Observed<RankRun>* ranks = RanksOf(plan.observations, stage);
    if (ranks == nullptr || Interrupted()) {
      continue;
    }
    progress.Stage(StageName(stage));
    ObserveRankStage(stage, *ranks, plan, launchers, progress);
    if (std::string why = WhyNoPart(*ranks, me);
        !why.empty() && !WorkOf(stage, plan.ranks).steps.empty()) {
      progress.Warn(std::string(StageName(stage)) + ": " + why);
      all = false;
    }
  }
  progress.Done();
  return all && !Interrupted();
}

Result<void> Observe(Plan& plan, Progress& progress) {
  RunFacts& run = plan.observations.run;
  if (plan.live) {
    if (auto looked = ObserveLiveCluster(*plan.live, plan.ray, plan.observations, progress);
        !looked) {
      return looked;
    }
    if (!plan.image) {
      if (auto chosen = ChooseImageOfCluster(plan); !chosen) {
        return chosen;
      }
    }
  }
  if (!Interrupted()) {
    ObserveRayDashboard(plan.ray, plan.observations.ray, progress);
  }
  RankLaunchers launchers(plan.ranks, plan.ray, plan.live, plan.observations.cluster);
  std::string blocked_by;
  for (const Stage stage : run.stages) {
    if (Interrupted()) {
      SkipStage(stage, {"interrupted", ""}, plan.observations);
      continue;
    }
    if (!blocked_by.empty()) {
      SkipStage(stage, {"", blocked_by}, plan.observations);
      continue;
    }
    progress.Stage(StageName(stage));
    if (auto done = RunStage(stage, plan, launchers, progress); !done) {
      return done.error();
    }
    const auto findings = JudgeStage(plan.observations, plan.policy, stage);
    if (const Finding* blocker = FirstBlocker(findings)) {
      blocked_by = blocker->rule + " (" + blocker->subject.kind + " " + blocker->subject.name + ")";
    }
  }
  run.interrupted = Interrupted();
  run.finished_at = TimestampNow();
  progress.Done();
  return {};
}

}  // namespace dlc
