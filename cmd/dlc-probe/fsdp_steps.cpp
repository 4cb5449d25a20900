#include "cmd/dlc-probe/fsdp_steps.h"

#include <algorithm>

#include "probes/node/fsdp/observe_layout.h"
#include "probes/node/fsdp/observe_training.h"
#include "probes/node/fsdp/observe_training_gpu.h"
#include "probes/observations/ranks_json.h"

namespace dlc {

Result<std::string> RunFsdpLayout(const StepContext& context) {
  const auto parameters = ParseFacts<FsdpLayoutParameters>(context.step.parameters);
  if (!parameters) {
    return parameters.error();
  }
  const bool flip = context.fault != nullptr && context.fault->kind == "flip-bit";
  const auto seen = ObserveFsdpLayout(*parameters, flip, *context.exchange, context.deadline,
                                      [&](const std::string& line) { context.progress.Say(line); });
  return seen ? Result<std::string>(FactsToJson(*seen)) : Result<std::string>(seen.error());
}

Result<std::string> RunFsdpTraining(const StepContext& context) {
  const auto parameters = ParseFacts<FsdpTrainingParameters>(context.step.parameters);
  if (!parameters) {
    return parameters.error();
  }
  TrainingFault fault = TrainingFault::kNone;
  if (context.fault != nullptr) {
    const auto* const it =
        std::find_if(kTrainingFaults.begin(), kTrainingFaults.end(),
                     [&](const auto& known) { return known.first == context.fault->kind; });
    fault = it == kTrainingFaults.end() ? fault : it->second;
  }
  const auto say = [&](const std::string& line) { context.progress.Say(line); };
  const auto seen = parameters->backend == "cuda"
                        ? ObserveFsdpTrainingOnGpu(*parameters, fault, context.me,
                                                   *context.exchange, context.deadline, say)
                        : ObserveFsdpTrainingOnCpu(*parameters, fault, context.me.node,
                                                   *context.exchange, context.deadline, say);
  return seen ? Result<std::string>(FactsToJson(*seen)) : Result<std::string>(seen.error());
}

}  // namespace dlc
