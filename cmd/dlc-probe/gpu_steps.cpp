#include "cmd/dlc-probe/gpu_steps.h"

#include "cmd/dlc-probe/gpu_sources.h"
#include "probes/node/gpu/gpu_compute.h"
#include "probes/node/gpu/gpu_node.h"
#include "probes/observations/ranks_json.h"

namespace dlc {

namespace {

/// nullptr: the plan's fault, if any, is none of these.
const char* PlantedExperiment(const StepContext& context) {
  const std::string kind = context.fault == nullptr ? "" : context.fault->kind;
  return kind == "flip-bit"         ? "memory"
         : kind == "flip-transfer"  ? "transfer"
         : kind == "flip-host-copy" ? "host-copy"
         : kind == "flip-product"   ? "product"
                                    : nullptr;
}

}  // namespace

Result<std::string> RunGpuNode(const StepContext& context) {
  context.progress.Say("asking the driver's libraries");
  return FactsToJson(ObserveGpuNode(GpuNodeRoot()));
}

Result<std::string> RunGpuCompute(const StepContext& context) {
  auto parameters = ParseFacts<GpuComputeParameters>(context.step.parameters);
  if (!parameters) {
    return std::move(parameters).error();
  }
  if (const char* experiment = PlantedExperiment(context); experiment != nullptr) {
    parameters->plant = experiment;
  }
  const auto say = [&](std::string_view line) { context.progress.Say(line); };
  return FactsToJson(ObserveGpuCompute(*parameters, context.me.size, context.me.local_rank,
                                       GpuComputeSource(), say));
}

Result<void> CheckGpuComputeStep(const std::string& parameters) {
  const auto parsed = ParseFacts<GpuComputeParameters>(parameters);
  return parsed ? CheckGpuComputeParameters(*parsed) : Result<void>(parsed.error());
}

}  // namespace dlc
