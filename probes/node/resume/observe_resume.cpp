#include "probes/node/resume/observe_resume.h"

#include <unistd.h>

#include "probes/node/fsdp/observe_training.h"
#include "probes/node/fsdp/observe_training_gpu.h"
#include "probes/node/fsdp/training_parameters.h"
#include "probes/node/resume/resume_training.h"
#include "probes/node/resume/rotated_exchange.h"
#include "probes/node/storage/run_directory.h"

namespace dlc {
namespace {

ResumeSetup SetupOf(const ResumeContext& context) {
  const FsdpTrainingParameters& training = context.parameters.training;
  const DataType compute = training.backend == "cuda" ? DataType::kBfloat16 : DataType::kFloat32;
  ResumeSetup setup(context.deadline);
  setup.options = TrainingOptionsOf(training, compute);
  setup.saved_after = training.steps;
  setup.options.steps = 2 * training.steps;
  setup.run_id = context.run_id;
  setup.path = context.parameters.path;
  setup.directory = RunDirectory(context.parameters.path, context.run_id);
  setup.model = training.model.name;
  setup.most_reshard_bytes = context.parameters.most_reshard_bytes;
  setup.visible_within = std::chrono::milliseconds(context.parameters.visible_within_ms);
  setup.fault = context.fault;
  return setup;
}

/// `body` gets what it trains on; true when it came to its end.
Result<void> OnBackend(const ResumeContext& context, Exchange& exchange, const TrainingBody& body) {
  const FsdpTrainingParameters& training = context.parameters.training;
  const TrainingSide side{training.provider, training.library, training.host_id_per_rank,
                          context.me.node, context.say};
  return training.backend == "cuda" ? TrainOnGpu(side, context.me, exchange, context.deadline, body)
                                    : TrainOnCpu(side, exchange, context.deadline, body);
}

CheckpointTraining TrainingSeen(const ResumeSetup& setup, const TrainingPlace& place, int ranks) {
  return {place.backend, place.device, place.transport,
          setup.model,   ranks,        ParameterCount(setup.options.shape.model),
          getpid()};
}

}  // namespace

Result<CheckpointSave> ObserveCheckpointSave(const ResumeContext& context) {
  const ResumeSetup setup = SetupOf(context);
  CheckpointSave seen;
  const auto done = OnBackend(
      context, context.exchange, [&](const TrainingPlace& place, const TrainingRanks& ranks) {
        seen.training = TrainingSeen(setup, place, ranks.collectives.Size());
        SaveAndContinue(ranks, setup, seen);
        return !seen.stopped_by;
      });
  return done ? Result<CheckpointSave>(std::move(seen)) : done.error();
}

Result<CheckpointLoad> ObserveCheckpointLoad(const ResumeContext& context) {
  const auto nodes = context.exchange.AllGather(context.me.node, context.deadline);
  if (!nodes) {
    return nodes.error();
  }
  const ResumeSetup setup = SetupOf(context);
  RotatedExchange rotated(context.exchange, RotationOf(*nodes));
  CheckpointLoad seen;
  seen.role = rotated.rank();
  seen.other_node = (*nodes)[static_cast<std::size_t>(seen.role)] != context.me.node;
  const auto done =
      OnBackend(context, rotated, [&](const TrainingPlace& place, const TrainingRanks& ranks) {
        seen.training = TrainingSeen(setup, place, ranks.collectives.Size());
        LoadAndResume(ranks, setup, seen);
        return !seen.stopped_by;
      });
  return done ? Result<CheckpointLoad>(std::move(seen)) : done.error();
}

}  // namespace dlc
