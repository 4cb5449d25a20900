#include "cmd/dlc-probe/fsdp_steps.h"

#include "probes/node/fsdp/observe_layout.h"
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

}  // namespace dlc
