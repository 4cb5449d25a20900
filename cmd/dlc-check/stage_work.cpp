#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>

#include "cmd/dlc-check/stage_steps.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGpuNode{60'000};
/// Beside the work itself: CUDA takes seconds to start, on a node with many GPUs tens of them.
constexpr milliseconds kGpuCompute{90'000};
constexpr double kGpuSeconds = 10;
constexpr int kMostGpusOfHost = 16;
constexpr milliseconds kFabric{60'000};
/// Pairs are measured one after the other; on a busy host each takes its seconds.
constexpr milliseconds kFabricPair{5'000};
/// Beside the operations: loading NCCL, hashing its file, and connecting all ranks.
constexpr milliseconds kNccl{90'000};
constexpr double kSlowestNccl = 0.5e9;  ///< bytes/s of all ranks together
constexpr double kMostNcclSeconds = 1800;
/// As nccl-tests: its default.
constexpr int kNcclIterations = 20;
/// Ranks of one host share its loopback: more repetitions would tell no more about a fabric.
constexpr int kWarmUp = 5;
constexpr int kRoundTrips = 50;
constexpr int kMessages = 16;
constexpr int kWindow = 8;
constexpr int kOperations = 5;
constexpr std::int64_t kSizes[] = {8, std::int64_t{64} << 10, std::int64_t{1} << 20};

/// The usual sizes and those, ascending.
std::vector<std::int64_t> SizesWith(const std::vector<std::int64_t>& more) {
  std::set<std::int64_t> sizes(std::begin(kSizes), std::end(kSizes));
  sizes.insert(more.begin(), more.end());
  return {sizes.begin(), sizes.end()};
}

/// The last look is for what the work brought to light, and for GPUs that are gone by then.
StageWork GpuWorkOfRanks(const RankSetup& setup) {
  StageWork work;
  if (!setup.gpus) {
    work.why_not = "the policy asks for no GPU (gpu.devices: no)";
    return work;
  }
  const double each = setup.gpu_seconds > 0 ? setup.gpu_seconds : kGpuSeconds;
  const double all = setup.ranks == 1 ? each * kMostGpusOfHost : each;
  const milliseconds compute = kGpuCompute + milliseconds(static_cast<int>(all * 1500));
  PlanStep after = Step("gpu-node", kGpuNode, setup);
  after.name = "gpu-after";
  work.steps = {Step("meet", kMeet, setup), Step("gpu-node", kGpuNode, setup),
                Step("gpu-compute", compute, setup,
                     FactsToJson(GpuComputeParameters{each, setup.gpu_memory_share, ""})),
                std::move(after)};
  return work;
}

/// Two operations beside the timed ones in each placement, and as slow as a bad network is.
milliseconds NcclTime(const RankSetup& setup, const NcclCollectivesParameters& work) {
  double bytes = 0;
  for (const std::int64_t size : work.sizes_bytes) {
    bytes += static_cast<double>(size);
  }
  const double operations =
      2.0 * (work.iterations + 2) * static_cast<double>(work.collectives.size());
  const double seconds =
      std::min(bytes * operations * setup.ranks / kSlowestNccl, kMostNcclSeconds);
  return kNccl + milliseconds(static_cast<int>(seconds * 1000));
}

PlanStep NcclStepNamed(std::string name, const RankSetup& setup,
                       NcclCollectivesParameters parameters) {
  parameters.library = setup.nccl_library;
  parameters.host_id_per_rank = setup.nccl_host_id_per_rank;
  parameters.log_directory = setup.nccl_log_directory;
  PlanStep step =
      Step("nccl-collectives", NcclTime(setup, parameters), setup, FactsToJson(parameters));
  step.name = std::move(name);
  return step;
}

/// The job's own environment, with each type; then, to tell why or how much, one operation in
/// others.
void AddNcclSteps(const RankSetup& setup, std::vector<PlanStep>& steps) {
  for (const std::string& type : setup.nccl_types) {
    NcclCollectivesParameters own;
    own.type = type;
    own.collectives = setup.nccl_collectives;
    own.sizes_bytes = setup.nccl_sizes;
    own.warm_up = 1;
    own.iterations = kNcclIterations;
    steps.push_back(NcclStepNamed("nccl-" + type, setup, std::move(own)));
  }
  NcclCollectivesParameters other;
  other.type = setup.nccl_types.front();
  other.collectives = {"all_reduce"};
  other.sizes_bytes = {setup.nccl_sizes.back()};
  other.warm_up = 1;
  other.iterations = kNcclIterations;
  if (setup.nccl_over_efa) {
    other.settings = {"NCCL_NET=AWS Libfabric"};
    steps.push_back(NcclStepNamed(std::string(kNcclOverEfa), setup, other));
  }
  if (setup.nccl_over_tcp) {
    other.settings = {"NCCL_NET=Socket"};
    steps.push_back(NcclStepNamed(std::string(kNcclOverTcp), setup, other));
  }
}

StageWork NcclWork(const RankSetup& setup) {
  const int pairs = setup.ranks * (setup.ranks - 1) / 2;
  StageWork work;
  work.steps = {Step("meet", kMeet, setup), Step("fabric-node", kFabricNode, setup),
                Step("fabric-pairs", kFabric + pairs * kFabricPair, setup,
                     FactsToJson(FabricPairsParameters{"", SizesWith(setup.pair_sizes), kWarmUp,
                                                       kRoundTrips, kMessages, kWindow})),
                Step("fabric-collectives", kFabric + setup.ranks * kFabricPair, setup,
                     FactsToJson(FabricCollectivesParameters{
                         "",
                         {"all_reduce", "all_gather", "reduce_scatter", "broadcast"},
                         SizesWith(setup.collective_sizes),
                         1,
                         kOperations}))};
  if (setup.nccl) {
    AddNcclSteps(setup, work.steps);
  }
  return work;
}

StageWork StepsOf(Stage stage, const RankSetup& setup) {
  switch (stage) {
    case Stage::kGpu:
      return GpuWorkOfRanks(setup);
    case Stage::kNccl:
      return NcclWork(setup);
    case Stage::kCheckpoint:
      return CheckpointWork(setup);
    case Stage::kFsdp:
      return FsdpWork(setup);
    case Stage::kImage:
      break;
  }
  StageWork nothing;
  nothing.why_not = "this version starts no ranks for the stage";
  return nothing;
}

}  // namespace

PlanStep Step(const char* kind, milliseconds deadline, const RankSetup& setup,
              std::string parameters) {
  return {kind, kind, static_cast<int>(setup.timeout.value_or(deadline).count()),
          std::move(parameters)};
}

StageWork WorkOf(Stage stage, const RankSetup& setup) {
  if (setup.ranks == 0) {
    StageWork nothing;
    nothing.why_not = setup.why_no_ranks.empty() ? "the config has no target to run ranks on"
                                                 : setup.why_no_ranks;
    return nothing;
  }
  StageWork work = StepsOf(stage, setup);
  if (!work.steps.empty()) {
    // A rank refuses one of a step that it does not do, as TorchTrainer's.
    std::copy_if(
        setup.faults.begin(), setup.faults.end(), std::back_inserter(work.faults),
        [&](const PlantedFault& fault) {
          return fault.step.empty() ||
                 (HasStep(work, fault.step) && !(work.trainer && work.trainer->step == fault.step));
        });
  }
  return work;
}

bool IsTrainerFault(const std::string& kind) {
  const char* const kinds[] = {"wrong-seed", "lost-moments", "exit", "crash", "kill", "sleep"};
  return std::find(std::begin(kinds), std::end(kinds), kind) != std::end(kinds);
}

bool HasStep(const StageWork& work, const std::string& name) {
  return (work.trainer && work.trainer->step == name) ||
         std::any_of(work.steps.begin(), work.steps.end(),
                     [&](const PlanStep& step) { return step.name == name; });
}

}  // namespace dlc
