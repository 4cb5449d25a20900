#include "cmd/dlc-probe/checkpoint_steps.h"
#include "probes/node/fsdp/training_parameters.h"
#include "probes/observations/ranks_json.h"

namespace dlc {

Result<void> CheckCheckpointTraining(const std::string& parameters) {
  const auto parsed = ParseFacts<CheckpointTrainingParameters>(parameters);
  if (!parsed) {
    return parsed.error();
  }
  if (!parsed->path.starts_with('/')) {
    return Error{ErrorCode::kInvalidInput, "$.path: must be absolute", ""};
  }
  return CheckFsdpTraining(parsed->training);
}

}  // namespace dlc
