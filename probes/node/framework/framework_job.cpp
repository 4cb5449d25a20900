#include "probes/node/framework/framework_job.h"

#include <utility>

#include "probes/node/fsdp/training_parameters.h"

namespace dlc {
namespace {

constexpr int kMostSteps = 1000;

Error NotToTrain(std::string message, std::string hint = "") {
  return {ErrorCode::kInvalidInput, std::move(message), std::move(hint)};
}

FrameworkAdam AdamOf(const AdamWOptions& options) {
  return {static_cast<double>(options.rate), static_cast<double>(options.beta1),
          static_cast<double>(options.beta2), static_cast<double>(options.epsilon),
          static_cast<double>(options.weight_decay)};
}

}  // namespace

Result<void> CheckFsdpFramework(const FsdpFrameworkParameters& parameters) {
  const bool torch = parameters.engine == "torch" &&
                     (parameters.strategy == "fsdp2" || parameters.strategy == "fsdp1");
  const bool deepspeed = parameters.engine == "deepspeed" && parameters.strategy == "zero3";
  if (!torch && !deepspeed) {
    return NotToTrain("$.engine and $.strategy: there is no '" + parameters.engine + "' with '" +
                          parameters.strategy + "'",
                      "torch has fsdp2 and fsdp1, deepspeed has zero3");
  }
  if (!parameters.path.empty() && !parameters.path.starts_with('/')) {
    return NotToTrain("$.path: must be absolute");
  }
  if (parameters.more_steps < 1 || parameters.more_steps > kMostSteps) {
    return NotToTrain("$.moreSteps: must be from 1 to " + std::to_string(kMostSteps));
  }
  return CheckFsdpTraining(parameters.training);
}

FrameworkJob FrameworkJobOf(const FsdpFrameworkParameters& parameters, const std::string& directory,
                            const std::string& fault) {
  const TrainingOptions options = TrainingOptionsOf(parameters.training, DataType::kFloat32);
  const Qwen2Shape& shape = options.shape.model;
  FrameworkJob job;
  job.engine = parameters.engine;
  job.strategy = parameters.strategy;
  job.device = parameters.training.backend == "cuda" ? "cuda" : "cpu";
  job.model = {parameters.training.model.name,
               shape.hidden,
               shape.layers,
               shape.heads,
               shape.kv_heads,
               shape.head_size,
               shape.intermediate,
               shape.vocabulary,
               shape.rope_theta,
               shape.rms_epsilon,
               shape.tied_embedding};
  job.seed = job.weight_seed = parameters.training.seed;
  job.weight_spread = static_cast<double>(kWeightSpread);
  job.rows = options.shape.rows;
  job.sequence = options.shape.sequence;
  job.micro_batches = options.micro_batches;
  job.steps = options.steps;
  job.more_steps = parameters.more_steps;
  job.clip_norm = options.clip_norm;
  job.adam = AdamOf(options.adam);
  job.own_store = true;
  job.directory = directory;
  if (fault == "wrong-seed") {
    ++job.seed;
  }
  return job;
}

FrameworkJob ResumedFrameworkJob(FrameworkJob job, const std::string& fault) {
  // Other weights: what is right after the load was loaded.
  ++job.weight_seed;
  job.resume = true;
  job.without_optimizer = fault == "lost-moments";
  return job;
}

FrameworkExperiment FrameworkExperimentOf(const FsdpFrameworkParameters& parameters,
                                          const FrameworkJob& job) {
  FrameworkExperiment seen;
  seen.python = parameters.python.empty() ? "python3" : parameters.python;
  seen.engine = job.engine;
  seen.strategy = job.strategy;
  seen.backend = job.device;
  seen.model = parameters.training.model.name;
  seen.rows = job.rows;
  seen.sequence = job.sequence;
  seen.micro_batches = job.micro_batches;
  seen.steps = job.steps;
  seen.more_steps = job.more_steps;
  seen.checkpoint = job.directory;
  return seen;
}

}  // namespace dlc
