#pragma once

#include <functional>
#include <string>

#include "probes/node/exchange.h"
#include "probes/observations/checkpoint.h"
#include "probes/observations/deadline.h"
#include "probes/observations/plan.h"
#include "probes/observations/ranks.h"

namespace dlc {

/// The step's surroundings.
struct ResumeContext {
  const CheckpointTrainingParameters& parameters;
  const std::string& run_id;
  const RankFacts& me;
  const std::string& fault;  ///< as ResumeSetup's
  Exchange& exchange;
  Deadline deadline;
  std::function<void(const std::string&)> say;
};

/// On the backend that the parameters name. All ranks together; an error where nothing was tried.
/// The files stay for ObserveCheckpointLoad, in this run's directory.
Result<CheckpointSave> ObserveCheckpointSave(const ResumeContext& context);
/// In a process of its own: each rank goes on as another one, of another node where there is one.
Result<CheckpointLoad> ObserveCheckpointLoad(const ResumeContext& context);

}  // namespace dlc
