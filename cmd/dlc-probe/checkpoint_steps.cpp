#include "cmd/dlc-probe/checkpoint_steps.h"

#include "probes/node/resume/observe_resume.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

template <class T>
Result<std::string> RunResume(const StepContext& context,
                              Result<T> (*observe)(const ResumeContext&)) {
  const auto parameters = ParseFacts<CheckpointTrainingParameters>(context.step.parameters);
  if (!parameters) {
    return parameters.error();
  }
  const std::string fault = context.fault == nullptr ? "" : context.fault->kind;
  const auto seen =
      observe({*parameters, context.plan.run_id, context.me, fault, *context.exchange,
               context.deadline, [&](const std::string& line) { context.progress.Say(line); }});
  return seen ? Result<std::string>(FactsToJson(*seen)) : Result<std::string>(seen.error());
}

}  // namespace

Result<std::string> RunCheckpointSave(const StepContext& context) {
  return RunResume<CheckpointSave>(context, ObserveCheckpointSave);
}

Result<std::string> RunCheckpointLoad(const StepContext& context) {
  return RunResume<CheckpointLoad>(context, ObserveCheckpointLoad);
}

}  // namespace dlc
