#include "cmd/dlc-probe/steps.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "cmd/dlc-probe/checkpoint_steps.h"
#include "cmd/dlc-probe/fabric_parameters.h"
#include "cmd/dlc-probe/fabric_steps.h"
#include "cmd/dlc-probe/framework_steps.h"
#include "cmd/dlc-probe/fsdp_steps.h"
#include "cmd/dlc-probe/gpu_steps.h"
#include "cmd/dlc-probe/nccl_steps.h"
#include "probes/node/storage/checkpoint_tree.h"
#include "probes/node/storage/leftover_runs.h"
#include "probes/node/storage/storage_shared.h"
#include "probes/node/storage/storage_speed.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

template <class T>
Result<std::string> Written(const Result<T>& facts) {
  return facts ? Result<std::string>(FactsToJson(*facts)) : Result<std::string>(facts.error());
}

template <class T, std::vector<ExperimentResult<T>> RankObservations::*kList>
void Adopt(const std::string& step, ExperimentReport report, RankObservations& into) {
  ExperimentResult<T> result{step, std::move(report.end), Error{}};
  result.seen = report.result ? Observed<T>(ParseFacts<T>(*report.result))
                              : Observed<T>(std::move(report.result).error());
  (into.*kList).push_back(std::move(result));
}

template <class P>
Result<void> CheckParameters(const std::string& parameters) {
  const auto parsed = ParseFacts<P>(parameters);
  return parsed ? Result<void>() : Result<void>(parsed.error());
}

Result<void> NoParameters(const std::string& parameters) {
  return parameters == "{}" ? Result<void>()
                            : Result<void>(Error{ErrorCode::kInvalidInput,
                                                 "this kind of step takes no parameters", ""});
}

template <class P>
std::string PathOf(const std::string& parameters) {
  const auto parsed = ParseFacts<P>(parameters);
  return parsed ? parsed->path : "";
}

std::string NoPath(const std::string& /*parameters*/) {
  return "";
}

StorageViewer Viewer(const StepContext& context) {
  return {context.plan.run_id, context.me.host, context.me.node,
          context.fault != nullptr && context.fault->kind == "flip-bit"};
}

Result<std::string> Meet(const StepContext& context) {
  const auto hosts = context.exchange->AllGather(context.me.host, context.deadline);
  if (!hosts) {
    return hosts.error();
  }
  constexpr int kBarriers = 10;
  const auto start = Deadline::Clock::now();
  for (int i = 0; i < kBarriers; ++i) {
    if (const auto met = context.exchange->Barrier(context.deadline); !met) {
      return met.error();
    }
  }
  const double seconds = std::chrono::duration<double>(Deadline::Clock::now() - start).count();
  return FactsToJson(Meeting{*hosts, seconds / kBarriers});
}

Result<std::string> RunStorageShared(const StepContext& context) {
  const auto parameters = ParseFacts<StorageSharedParameters>(context.step.parameters);
  return parameters ? Written(ObserveStorageShared(*parameters, Viewer(context), *context.exchange,
                                                   context.deadline, context.progress))
                    : parameters.error();
}

Result<std::string> RunStorageSpeed(const StepContext& context) {
  const auto parameters = ParseFacts<StorageSpeedParameters>(context.step.parameters);
  return parameters ? Written(ObserveStorageSpeed(*parameters, Viewer(context), *context.exchange,
                                                  context.deadline, context.progress))
                    : parameters.error();
}

Result<std::string> RunCheckpointTree(const StepContext& context) {
  const auto parameters = ParseFacts<CheckpointTreeParameters>(context.step.parameters);
  return parameters ? Written(ObserveCheckpointTree(*parameters, context.deadline))
                    : parameters.error();
}

Result<std::string> RunLeftoverRuns(const StepContext& context) {
  const auto parameters = ParseFacts<LeftoverRunsParameters>(context.step.parameters);
  return parameters ? Written(ObserveLeftoverRuns(*parameters, context.plan.run_id,
                                                  *context.exchange, context.deadline))
                    : parameters.error();
}

constexpr StepKind kKinds[] = {
    {"meet", true, Meet, Adopt<Meeting, &RankObservations::meet>, NoParameters, NoPath},
    {"gpu-node", false, RunGpuNode, Adopt<GpuNode, &RankObservations::gpu_node>, NoParameters,
     NoPath},
    {"gpu-compute", false, RunGpuCompute, Adopt<GpuCompute, &RankObservations::gpu_compute>,
     CheckGpuComputeStep, NoPath},
    {"fabric-node", false, RunFabricNode, Adopt<NodeFabric, &RankObservations::fabric_node>,
     NoParameters, NoPath},
    {"fabric-pairs", true, RunFabricPairs, Adopt<FabricExperiment, &RankObservations::fabric_pairs>,
     CheckFabricPairsParameters, NoPath},
    {"fabric-collectives", true, RunFabricCollectives,
     Adopt<FabricExperiment, &RankObservations::fabric_collectives>,
     CheckFabricCollectivesParameters, NoPath},
    {"nccl-collectives", true, RunNcclCollectives,
     Adopt<NcclExperiment, &RankObservations::nccl_collectives>, CheckNcclCollectivesParameters,
     NoPath},
    {"fsdp-layout", true, RunFsdpLayout,
     Adopt<FsdpLayoutExperiment, &RankObservations::fsdp_layout>, CheckFsdpLayoutParameters,
     NoPath},
    {"fsdp-training", true, RunFsdpTraining,
     Adopt<FsdpTrainingExperiment, &RankObservations::fsdp_training>, CheckFsdpTrainingParameters,
     NoPath},
    {"fsdp-framework", true, RunFsdpFramework,
     Adopt<FrameworkExperiment, &RankObservations::fsdp_framework>, CheckFsdpFrameworkParameters,
     PathOf<FsdpFrameworkParameters>},
    {"storage-shared", true, RunStorageShared,
     Adopt<StorageShared, &RankObservations::storage_shared>,
     CheckParameters<StorageSharedParameters>, PathOf<StorageSharedParameters>},
    {"storage-speed", true, RunStorageSpeed, Adopt<StorageSpeed, &RankObservations::storage_speed>,
     CheckParameters<StorageSpeedParameters>, PathOf<StorageSpeedParameters>},
    {"checkpoint-save", true, RunCheckpointSave,
     Adopt<CheckpointSave, &RankObservations::checkpoint_save>, CheckCheckpointTraining,
     PathOf<CheckpointTrainingParameters>},
    {"checkpoint-load", true, RunCheckpointLoad,
     Adopt<CheckpointLoad, &RankObservations::checkpoint_load>, CheckCheckpointTraining,
     PathOf<CheckpointTrainingParameters>},
    {"checkpoint-tree", false, RunCheckpointTree,
     Adopt<CheckpointTree, &RankObservations::checkpoint_tree>,
     CheckParameters<CheckpointTreeParameters>, PathOf<CheckpointTreeParameters>},
    {"leftover-runs", true, RunLeftoverRuns, Adopt<LeftoverRuns, &RankObservations::leftover_runs>,
     CheckParameters<LeftoverRunsParameters>, PathOf<LeftoverRunsParameters>},
};

}  // namespace

std::span<const StepKind> StepKinds() {
  return kKinds;
}

const StepKind* FindStepKind(std::string_view name) {
  const auto it = std::find_if(std::begin(kKinds), std::end(kKinds),
                               [&](const StepKind& kind) { return kind.name == name; });
  return it == std::end(kKinds) ? nullptr : it;
}

}  // namespace dlc
