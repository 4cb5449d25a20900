#pragma once

#include <chrono>
#include <string>

#include "cmd/dlc-check/rank_stage.h"
#include "probes/observations/plan.h"

namespace dlc {

inline constexpr std::chrono::milliseconds kMeet{15'000};
inline constexpr std::chrono::milliseconds kFabricNode{30'000};

/// A step named as its kind, with a deadline of its own, unless the config gives one for all.
PlanStep Step(const char* kind, std::chrono::milliseconds deadline, const RankSetup& setup,
              std::string parameters = "{}");

/// What `model` and `backend` of a policy come to.
FsdpTrainingParameters TrainingWith(const RankSetup& setup, const std::string& model,
                                    const std::string& backend);
/// As long as training can take and still be waited for: sharded once, and once on each rank for
/// all ranks.
std::chrono::milliseconds FsdpTrainingTime(const RankSetup& setup,
                                           const FsdpTrainingParameters& training);
std::int64_t ElementsOf(const FsdpModel& model);
/// What the run makes below `path`, and removes.
std::string RunDirectoryOf(const RankSetup& setup, const std::string& path);

StageWork FsdpWork(const RankSetup& setup);
StageWork CheckpointWork(const RankSetup& setup);

}  // namespace dlc
