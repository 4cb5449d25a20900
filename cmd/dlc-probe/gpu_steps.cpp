#include "cmd/dlc-probe/gpu_steps.h"

#include "probes/node/gpu/gpu_compute.h"
#include "probes/node/gpu/gpu_node.h"
#include "probes/observations/ranks_json.h"

namespace dlc {

Result<std::string> RunGpuNode(const StepContext& context) {
  context.progress.Say("asking the driver's libraries");
  return FactsToJson(ObserveGpuNode());
}

Result<std::string> RunGpuCompute(const StepContext& context) {
  auto parameters = ParseFacts<GpuComputeParameters>(context.step.parameters);
  if (!parameters) {
    return std::move(parameters).error();
  }
  if (context.fault != nullptr && context.fault->kind == "flip-bit") {
    parameters->plant = "memory";
  }
  const auto say = [&](std::string_view line) { context.progress.Say(line); };
  return FactsToJson(
      ObserveGpuCompute(*parameters, context.me.size, context.me.local_rank, CudaSource(), say));
}

Result<void> CheckGpuComputeStep(const std::string& parameters) {
  const auto parsed = ParseFacts<GpuComputeParameters>(parameters);
  return parsed ? CheckGpuComputeParameters(*parsed) : Result<void>(parsed.error());
}

}  // namespace dlc
