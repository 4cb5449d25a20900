#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>

#include "checks/checkpoint_sizes.h"
#include "cmd/dlc-check/model_config.h"
#include "cmd/dlc-check/rank_stage.h"
#include "kernels/training/qwen2_shape.h"
#include "probes/node/framework/framework_job.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kMeet{15'000};
constexpr milliseconds kGpuNode{60'000};
/// Beside the work itself: CUDA takes seconds to start, on a node with many GPUs tens of them.
constexpr milliseconds kGpuCompute{90'000};
constexpr double kGpuSeconds = 10;
constexpr int kMostGpusOfHost = 16;
constexpr milliseconds kFabricNode{30'000};
constexpr milliseconds kFabric{60'000};
/// Pairs are measured one after the other; on a busy host each takes its seconds.
constexpr milliseconds kFabricPair{5'000};
/// Beside the operations: loading NCCL, hashing its file, and connecting all ranks.
constexpr milliseconds kNccl{90'000};
constexpr double kSlowestNccl = 0.5e9;  ///< bytes/s of all ranks together
constexpr double kMostNcclSeconds = 1800;
/// As nccl-tests: its default.
constexpr int kNcclIterations = 20;
/// Beside what is moved: opening the fabric three times, for all ranks and for HSDP's groups.
constexpr milliseconds kFsdp{90'000};
/// A layer of Qwen2.5-1.5B, whole, once.
constexpr std::int64_t kWholeElements = 47'000'000;
constexpr std::int64_t kEveryElement = 1'543'714'304;
constexpr double kSlowestFsdp = 10e6;  ///< elements/s of all ranks: made, moved, compared, twice
constexpr double kMostFsdpSeconds = 3600;
constexpr milliseconds kStorageOperations{30'000};
constexpr milliseconds kStorageSpeed{120'000};
constexpr milliseconds kLeftoverRuns{30'000};
constexpr milliseconds kCheckpointTree{120'000};

constexpr double kSlowestStorage = 20e6;  ///< bytes/s of all ranks together
constexpr double kMostStorageSeconds = 7200;
constexpr double kMetadataSeconds = 3;  ///< of each of four phases
constexpr std::int64_t kBlockBytes = std::int64_t{4} << 20;

/// Ranks of one host share its loopback: more repetitions would tell no more about a fabric.
constexpr int kWarmUp = 5;
constexpr int kRoundTrips = 50;
constexpr int kMessages = 16;
constexpr int kWindow = 8;
constexpr int kOperations = 5;
constexpr std::int64_t kSizes[] = {8, std::int64_t{64} << 10, std::int64_t{1} << 20};

/// A step with a deadline of its own, unless the config gives one for all.
PlanStep Step(const char* kind, milliseconds deadline, const RankSetup& setup,
              std::string parameters = "{}") {
  return {kind, kind, static_cast<int>(setup.timeout.value_or(deadline).count()),
          std::move(parameters)};
}

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

milliseconds FsdpTime(const RankSetup& setup) {
  const auto proofs = static_cast<double>(setup.fsdp.layouts.size() * setup.fsdp.models.size());
  const double elements = setup.fsdp.every_unit ? static_cast<double>(kEveryElement) * proofs
                                                : static_cast<double>(kWholeElements);
  // Ranks of one host share its processors.
  const double seconds = std::min(elements * setup.ranks / kSlowestFsdp, kMostFsdpSeconds);
  return kFsdp + milliseconds(static_cast<int>(seconds * 1000));
}

/// What `model` and `backend` of a policy come to.
FsdpTrainingParameters TrainingWith(const RankSetup& setup, const std::string& model,
                                    const std::string& backend) {
  FsdpTrainingParameters training;
  training.model.name = model;
  if (model == kWorkloadModel && setup.workload_model) {
    training.model = *setup.workload_model;
  }
  training.seed = 1;
  training.backend = backend;
  if (backend == "cuda") {
    training.library = setup.nccl_library;
    training.host_id_per_rank = setup.nccl_host_id_per_rank;
  }
  return training;
}

FsdpTrainingParameters TrainingOf(const RankSetup& setup) {
  const FsdpTrainingPolicy& policy = setup.fsdp.training;
  FsdpTrainingParameters training = TrainingWith(setup, policy.model, policy.backend);
  if (policy.model != kWorkloadModel && setup.workload_model) {
    training.predict_model = *setup.workload_model;
  }
  training.rows = policy.rows;
  training.sequence = policy.sequence;
  training.micro_batches = policy.micro_batches;
  training.steps = policy.steps;
  training.exact = true;
  training.reference = "auto";
  training.predict = policy.predict;
  return training;
}

std::int64_t ElementsOf(const FsdpModel& model) {
  const auto preset = Qwen2Preset(model.name);
  return ParameterCount(preset ? *preset
                               : Qwen2Shape{model.hidden, model.layers, model.heads, model.kv_heads,
                                            model.head_size, model.intermediate, model.vocabulary,
                                            model.rope_theta, model.rms_epsilon,
                                            model.tied_embedding});
}

/// As slow as a backend and what is between ranks can be and still be waited for.
struct TrainingPace {
  double operations = 0;  ///< per second, of one rank
  double bytes = 0;       ///< per second, of all ranks together; 0: they do not count
  milliseconds start{0};  ///< beside what is computed
};
/// Opening the fabric.
constexpr TrainingPace kCpuPace{1e9, 0, milliseconds{90'000}};
/// Starting CUDA, hashing and loading NCCL, connecting. A T4 does ten times as many operations;
/// over a host's sockets ranks that share a GPU move 4e8 bytes/s.
constexpr TrainingPace kGpuPace{3e12, 1e8, milliseconds{120'000}};

/// Once sharded, and once on each rank for all ranks.
milliseconds FsdpTrainingTime(const RankSetup& setup, const FsdpTrainingParameters& training) {
  const TrainingPace pace = training.backend == "cuda" ? kGpuPace : kCpuPace;
  const auto elements = static_cast<double>(ElementsOf(training.model));
  const double tokens =
      static_cast<double>(training.rows * training.sequence) * training.micro_batches;
  const double operations = 6 * elements * (tokens + 1) * training.steps;
  double seconds = operations * setup.ranks * (setup.ranks + 1) / pace.operations;
  if (pace.bytes > 0 && setup.ranks > 1) {
    // Gathered twice in two bytes, reduced in four, of each micro-batch; with whole numbers too.
    constexpr double kBytes = 8;
    seconds +=
        2 * kBytes * elements * setup.ranks * training.micro_batches * training.steps / pace.bytes;
  }
  return pace.start + milliseconds(static_cast<int>(std::min(seconds, kMostFsdpSeconds) * 1000));
}

/// Beside the steps: python and torch are loaded, twice, from a file system that may be slow.
constexpr milliseconds kFrameworkStart{240'000};
/// After the checkpoint: the second of two tells whether the optimizer's state came back.
constexpr int kStepsAfterCheckpoint = 2;

constexpr const char* kFrameworkStep = "fsdp-framework";

FsdpFrameworkParameters FrameworkOf(const RankSetup& setup, FsdpTrainingParameters training) {
  FsdpFrameworkParameters framework;
  framework.engine = setup.fsdp.framework.engine;
  framework.strategy = setup.fsdp.framework.strategy;
  framework.python = setup.framework_python;
  framework.path = setup.checkpoint_path;
  framework.more_steps = kStepsAfterCheckpoint;
  training.exact = false;
  training.predict.clear();
  training.predict_model = {};
  framework.training = std::move(training);
  return framework;
}

std::string RunDirectoryOf(const RankSetup& setup, const std::string& path) {
  return path + "/.dlc-check-" + setup.run_id;
}

/// TorchTrainer does them: once, and where there is a path to save to once more, from there.
TrainerWork TrainerWorkOf(const RankSetup& setup, FsdpFrameworkParameters framework,
                          int deadline_ms) {
  // Without one Ray Train wants a place nevertheless, and only its driver writes there.
  const bool saves = !framework.path.empty();
  TrainerWork work;
  work.step = kFrameworkStep;
  work.deadline_ms = deadline_ms;
  work.directory = RunDirectoryOf(setup, saves ? framework.path : "/tmp");
  work.storage = work.directory + "/framework";
  framework.python = "the python of Ray's workers";
  const FrameworkJob job = FrameworkJobOf(framework, saves ? work.storage : "", "");
  work.gpus_per_worker = job.device == "cuda" ? setup.ray->gpus_per_rank : 0;
  work.begun = FrameworkExperimentOf(framework, job);
  work.begun.launcher = "ray-train";
  work.runs.push_back({"train", job, {}, {}});
  if (saves) {
    work.runs.push_back({"resume", ResumedFrameworkJob(job, ""), {}, {}});
  }
  for (const PlantedFault& fault : setup.faults) {
    if (fault.step != work.step) {
      continue;
    }
    TrainerRun& first = work.runs.front();
    if (fault.kind != "wrong-seed" && fault.kind != "lost-moments") {
      first.worker_faults[fault.rank] = fault.kind;
      continue;
    }
    first.other_jobs[fault.rank] = FrameworkJobOf(framework, job.directory, fault.kind);
    if (saves) {
      work.runs.back().other_jobs[fault.rank] =
          ResumedFrameworkJob(first.other_jobs[fault.rank], fault.kind);
    }
  }
  return work;
}

void AddFramework(const RankSetup& setup, const FsdpTrainingParameters& training, StageWork& work) {
  if (setup.fsdp.training.backend == "cuda") {
    work.steps.push_back(
        Step("fabric-node", kFabricNode, setup));  // whether EFA is to be asked for
  }
  const FsdpFrameworkParameters framework = FrameworkOf(setup, training);
  PlanStep step = Step(kFrameworkStep, kFrameworkStart + 2 * FsdpTrainingTime(setup, training),
                       setup, FactsToJson(framework));
  if (setup.fsdp.framework.launcher == "ray-train") {
    work.trainer = TrainerWorkOf(setup, framework, step.deadline_ms);
    return;
  }
  work.steps.push_back(std::move(step));
  if (!setup.checkpoint_path.empty()) {
    work.directories = {RunDirectoryOf(setup, setup.checkpoint_path)};
  }
}

StageWork FsdpWork(const RankSetup& setup) {
  StageWork work;
  if (setup.fsdp.measure == "no") {
    work.why_not = "the policy asks for no sharded models (fsdp.measure: no)";
    return work;
  }
  const FsdpLayoutParameters layout{"", setup.fsdp.models, setup.fsdp.layouts,
                                    0,  kWholeElements,    setup.fsdp.every_unit};
  work.steps = {Step("meet", kMeet, setup),
                Step("fsdp-layout", FsdpTime(setup), setup, FactsToJson(layout))};
  if (setup.fsdp.training.measure != "no") {
    const FsdpTrainingParameters training = TrainingOf(setup);
    work.steps.push_back(
        Step("fsdp-training", FsdpTrainingTime(setup, training), setup, FactsToJson(training)));
    if (setup.fsdp.framework.engine != "none") {
      AddFramework(setup, training, work);
    }
  }
  return work;
}

/// Write and read, twice by all ranks and once by one.
milliseconds StorageSpeedTime(const RankSetup& setup, std::int64_t file_bytes) {
  const double bytes = static_cast<double>(file_bytes) * (4.0 * setup.ranks + 2);
  const double seconds = std::min(bytes / kSlowestStorage, kMostStorageSeconds);
  return kStorageSpeed + milliseconds(static_cast<int>(seconds * 1000));
}

StorageSpeedParameters StorageSpeedOf(const RankSetup& setup) {
  StorageSpeedParameters speed;
  speed.path = setup.checkpoint_path;
  speed.file_bytes = TestBytesPerRank(setup.storage, setup.ranks, kBlockBytes);
  speed.block_bytes = {kBlockBytes};
  speed.direct = true;
  speed.alone = true;
  speed.metadata_files = setup.storage.metadata_files;
  speed.metadata_seconds = speed.metadata_files > 0 ? kMetadataSeconds : 0;
  return speed;
}

/// As a short training, and a file system that takes its time.
constexpr milliseconds kCheckpointFiles{120'000};
/// Two other numbers of ranks for qwen2.5-1.5b, all for what is smaller.
constexpr std::int64_t kMostReshardBytes = std::int64_t{40} << 30;

milliseconds VisibleWithin(const RankSetup& setup) {
  return milliseconds(static_cast<int>(setup.storage.visible_within_seconds * 1000));
}

CheckpointTrainingParameters CheckpointTrainingOf(const RankSetup& setup) {
  const CheckpointPolicy& policy = setup.checkpoint;
  CheckpointTrainingParameters parameters;
  parameters.path = setup.checkpoint_path;
  parameters.most_reshard_bytes = kMostReshardBytes;
  parameters.visible_within_ms = static_cast<int>(VisibleWithin(setup).count());
  FsdpTrainingParameters& training = parameters.training;
  training = TrainingWith(setup, policy.model, policy.backend);
  training.rows = 1;
  training.sequence = 64;
  training.micro_batches = 1;
  training.steps = policy.steps;
  training.reference = "no";
  return parameters;
}

milliseconds CheckpointTime(const RankSetup& setup,
                            const CheckpointTrainingParameters& parameters) {
  constexpr double kBytesEach = 12;
  const auto bytes = static_cast<double>(ElementsOf(parameters.training.model)) * kBytesEach;
  const double read_again = std::min(4 * bytes, static_cast<double>(kMostReshardBytes));
  const double seconds = std::min((4 * bytes + read_again) / kSlowestStorage, kMostStorageSeconds);
  FsdpTrainingParameters twice = parameters.training;
  twice.steps *= 2;
  return FsdpTrainingTime(setup, twice) + kCheckpointFiles +
         milliseconds(static_cast<int>(seconds * 1000));
}

StageWork CheckpointWork(const RankSetup& setup) {
  StageWork work;
  if (setup.checkpoint_path.empty()) {
    work.why_not = "the config has no checkpoint.path";
    return work;
  }
  const StorageSpeedParameters speed = StorageSpeedOf(setup);
  const milliseconds visible = VisibleWithin(setup);
  work.steps = {
      Step("meet", kMeet, setup),
      Step("leftover-runs", kLeftoverRuns, setup,
           FactsToJson(LeftoverRunsParameters{setup.checkpoint_path, false, "", 0})),
      Step("storage-shared", kStorageOperations + visible, setup,
           FactsToJson(
               StorageSharedParameters{setup.checkpoint_path, static_cast<int>(visible.count())})),
      Step("storage-speed", StorageSpeedTime(setup, speed.file_bytes), setup, FactsToJson(speed))};
  if (setup.checkpoint.measure != "no") {
    const CheckpointTrainingParameters training = CheckpointTrainingOf(setup);
    const milliseconds time = CheckpointTime(setup, training);
    for (const char* step : {"checkpoint-save", "checkpoint-load"}) {
      work.steps.push_back(Step(step, time, setup, FactsToJson(training)));
    }
  }
  if (!setup.inspect_path.empty()) {
    work.steps.push_back(
        Step("checkpoint-tree", kCheckpointTree, setup,
             FactsToJson(CheckpointTreeParameters{setup.inspect_path, kHashedBytesOfCheckpoint})));
  }
  work.directories = {RunDirectoryOf(setup, setup.checkpoint_path)};
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

StageWork LeftoverWork(const RankSetup& setup, const LeftoverRunsParameters& parameters) {
  StageWork work;
  work.steps = {Step("leftover-runs", kStorageSpeed, setup, FactsToJson(parameters))};
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
