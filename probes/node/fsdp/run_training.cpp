#include "probes/node/fsdp/run_training.h"

#include <algorithm>
#include <string>
#include <utility>

#include "probes/node/fsdp/training_parameters.h"

namespace dlc {
namespace {

/// What is wrong after two steps with exact numbers is wrong after more.
constexpr int kExactSteps = 2;
/// Sums of up to 32 whole numbers are exact in bfloat16.
constexpr int kMostExactRanks = 32;

Result<void> RunAll(const FsdpTrainingParameters& parameters, const TrainingOptions& options,
                    const TrainingRanks& ranks, Deadline deadline, FsdpTrainingExperiment& seen) {
  if (parameters.exact) {
    TrainingOptions exact = options;
    exact.exact = true;
    exact.steps = std::min(kExactSteps, options.steps);
    if (ranks.collectives.Size() > kMostExactRanks) {
      exact.shape.gradients = DataType::kFloat32;
    }
    seen.runs.emplace_back();
    ranks.say("training with whole numbers");
    if (auto done =
            TrainAndCompare(ranks, exact, parameters.model.name, false, deadline, seen.runs.back());
        !done) {
      return done;
    }
  }
  seen.runs.emplace_back();
  ranks.say("training");
  if (auto done = TrainAndCompare(ranks, options, parameters.model.name,
                                  parameters.reference == "auto", deadline, seen.runs.back());
      !done || !seen.runs.back().not_looked_at.empty()) {
    return done;
  }
  const auto bandwidth = MeasureUnitBandwidth(ranks, options, deadline);
  if (!bandwidth) {
    ranks.collectives.Abort();
    return bandwidth.error();
  }
  seen.gather_bytes_per_second = bandwidth->gather_bytes_per_second;
  seen.reduce_bytes_per_second = bandwidth->reduce_bytes_per_second;
  if (ranks.collectives.Size() == 1) {
    return {};
  }
  const auto predict = [&](const std::string& name, const Qwen2Shape& model) {
    seen.predictions.push_back(
        PredictStep(name, model, ranks.collectives.Size(), options.shape.gradients, *bandwidth));
  };
  predict(parameters.model.name, options.shape.model);
  if (!parameters.predict_model.name.empty()) {
    predict(parameters.predict_model.name, ShapeOf(parameters.predict_model));
  }
  for (const std::string& name : parameters.predict) {
    if (name != parameters.model.name) {
      predict(name, *Qwen2Preset(name));
    }
  }
  return {};
}

}  // namespace

void RunTraining(const FsdpTrainingParameters& parameters, TrainingFault fault, DataType compute,
                 const TrainingRanks& ranks, Deadline deadline, FsdpTrainingExperiment& seen) {
  TrainingOptions options = TrainingOptionsOf(parameters, compute);
  options.fault = fault;
  if (auto done = RunAll(parameters, options, ranks, deadline, seen); !done) {
    seen.stopped_by = std::move(done).error();
  }
}

}  // namespace dlc
