#include "cmd/dlc-probe/framework_steps.h"

#include "probes/node/framework/framework_job.h"
#include "probes/node/framework/observe_framework.h"
#include "probes/observations/ranks_json.h"

namespace dlc {

Result<std::string> RunFsdpFramework(const StepContext& context) {
  const auto parameters = ParseFacts<FsdpFrameworkParameters>(context.step.parameters);
  if (!parameters) {
    return parameters.error();
  }
  const std::string fault = context.fault == nullptr ? "" : context.fault->kind;
  const auto seen =
      ObserveFramework({*parameters, context.plan.run_id, context.me, context.address, fault,
                        *context.exchange, context.deadline, context.progress});
  return seen ? Result<std::string>(FactsToJson(*seen)) : Result<std::string>(seen.error());
}

Result<void> CheckFsdpFrameworkParameters(const std::string& parameters) {
  const auto parsed = ParseFacts<FsdpFrameworkParameters>(parameters);
  return parsed ? CheckFsdpFramework(*parsed) : Result<void>(parsed.error());
}

}  // namespace dlc
