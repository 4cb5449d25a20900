#include "cmd/dlc-probe/fsdp_steps.h"
#include "probes/node/fsdp/layout_parameters.h"
#include "probes/node/fsdp/training_parameters.h"
#include "probes/observations/ranks_json.h"

namespace dlc {

Result<void> CheckFsdpLayoutParameters(const std::string& parameters) {
  const auto parsed = ParseFacts<FsdpLayoutParameters>(parameters);
  return parsed ? CheckFsdpLayout(*parsed) : Result<void>(parsed.error());
}

Result<void> CheckFsdpTrainingParameters(const std::string& parameters) {
  const auto parsed = ParseFacts<FsdpTrainingParameters>(parameters);
  return parsed ? CheckFsdpTraining(*parsed) : Result<void>(parsed.error());
}

}  // namespace dlc
