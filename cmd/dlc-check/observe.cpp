#include "cmd/dlc-check/observe.h"

#include <string>
#include <utility>

#include "checks/check.h"
#include "cmd/dlc-check/signals.h"

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

void ObserveCheckpointStage(Plan& plan, Progress& progress) {
  if (plan.ranks.ranks == 0) {
    return;  // the plan has recorded why
  }
  progress.Step("starting " + std::to_string(plan.ranks.ranks) + " ranks on this host");
  RankStageResult result = ObserveLocalRanks(plan.ranks, Interrupted(), progress);
  plan.observations.ranks = std::move(result.run);
  plan.leftovers = std::move(result.leftovers);
}

/// What a stage would have looked at, marked as not looked at and why.
void SkipStage(Stage stage, const NotLookedAt& why, Observations& observations) {
  if (stage == Stage::kImage) {
    observations.served_image = why;
  }
  if (stage == Stage::kCheckpoint) {
    observations.ranks = why;
  }
}

Result<void> RunStage(Stage stage, Plan& plan, Progress& progress) {
  switch (stage) {
    case Stage::kImage:
      return ObserveImageStage(plan, progress);
    case Stage::kCheckpoint:
      ObserveCheckpointStage(plan, progress);
      return {};
    case Stage::kGpu:
    case Stage::kNccl:
    case Stage::kFsdp:
      return {};
  }
  return {};
}

}  // namespace

Result<void> Observe(Plan& plan, Progress& progress) {
  RunFacts& run = plan.observations.run;
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
    if (auto done = RunStage(stage, plan, progress); !done) {
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
