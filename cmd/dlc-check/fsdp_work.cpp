#include <algorithm>
#include <utility>

#include "cmd/dlc-check/model_config.h"
#include "cmd/dlc-check/stage_steps.h"
#include "kernels/training/qwen2_shape.h"
#include "probes/node/framework/framework_job.h"
#include "probes/node/fsdp/training_parameters.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;

/// Beside what is moved: opening the fabric three times, for all ranks and for HSDP's groups.
constexpr milliseconds kFsdp{90'000};
/// A layer of Qwen2.5-1.5B, whole, once.
constexpr std::int64_t kWholeElements = 47'000'000;
constexpr std::int64_t kEveryElement = 1'543'714'304;
constexpr double kSlowestFsdp = 10e6;  ///< elements/s of all ranks: made, moved, compared, twice
constexpr double kMostFsdpSeconds = 3600;

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

milliseconds FsdpTime(const RankSetup& setup) {
  const auto proofs = static_cast<double>(setup.fsdp.layouts.size() * setup.fsdp.models.size());
  const double elements = setup.fsdp.every_unit ? static_cast<double>(kEveryElement) * proofs
                                                : static_cast<double>(kWholeElements);
  // Ranks of one host share its processors.
  const double seconds = std::min(elements * setup.ranks / kSlowestFsdp, kMostFsdpSeconds);
  return kFsdp + milliseconds(static_cast<int>(seconds * 1000));
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

}  // namespace

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

std::int64_t ElementsOf(const FsdpModel& model) {
  return ParameterCount(ShapeOf(model));
}

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

std::string RunDirectoryOf(const RankSetup& setup, const std::string& path) {
  return path + "/.dlc-check-" + setup.run_id;
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

}  // namespace dlc
