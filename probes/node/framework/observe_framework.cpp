#include "probes/node/framework/observe_framework.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "probes/node/framework/run_framework.h"
#include "probes/node/fsdp/training_parameters.h"
#include "probes/node/rendezvous/socket.h"
#include "probes/node/storage/run_directory.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;

/// Of the step's time: to kill what hangs, and to tell of it.
constexpr milliseconds kLastWords{2'000};
constexpr int kMostSteps = 1000;

Error NotToTrain(std::string message, std::string hint = "") {
  return {ErrorCode::kInvalidInput, std::move(message), std::move(hint)};
}

FrameworkAdam AdamOf(const AdamWOptions& options) {
  return {static_cast<double>(options.rate), static_cast<double>(options.beta1),
          static_cast<double>(options.beta2), static_cast<double>(options.epsilon),
          static_cast<double>(options.weight_decay)};
}

/// What the native engine trains, in the program's words.
FrameworkJob JobOf(const FsdpFrameworkParameters& parameters) {
  const TrainingOptions options = TrainingOptionsOf(parameters.training, DataType::kFloat32);
  const Qwen2Shape& shape = options.shape.model;
  FrameworkJob job;
  job.engine = parameters.engine;
  job.strategy = parameters.strategy;
  job.device = parameters.training.backend == "cuda" ? "cuda" : "cpu";
  job.model = {shape.hidden,      shape.layers,        shape.heads,      shape.kv_heads,
               shape.head_size,   shape.intermediate,  shape.vocabulary, shape.rope_theta,
               shape.rms_epsilon, shape.tied_embedding};
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
  return job;
}

FrameworkExperiment Begun(const FrameworkContext& context, const FrameworkJob& job) {
  FrameworkExperiment seen;
  seen.python = context.parameters.python.empty() ? "python3" : context.parameters.python;
  seen.engine = job.engine;
  seen.strategy = job.strategy;
  seen.backend = job.device;
  seen.model = context.parameters.training.model.name;
  seen.rows = job.rows;
  seen.sequence = job.sequence;
  seen.micro_batches = job.micro_batches;
  seen.steps = job.steps;
  seen.more_steps = job.more_steps;
  seen.checkpoint = job.directory;
  return seen;
}

class FrameworkRuns {
 public:
  FrameworkRuns(const FrameworkContext& context, FrameworkJob job)
      : in_(context),
        job_(std::move(job)),
        until_(Deadline::After(context.deadline.Remaining() -
                               std::min(kLastWords, context.deadline.Remaining() / 10))) {}

  /// One process on each rank. True: all ranks came to their end.
  Result<bool> Together(const char* name, FrameworkExperiment& seen) {
    UniqueFd listener;
    std::string port;
    if (in_.exchange.rank() == 0) {
      auto listening = ListenTcp(0);
      if (!listening) {
        return listening.error();
      }
      listener = std::move(listening).value();
      port = std::to_string(PortOf(listener.get()));
    }
    const auto ports = in_.exchange.AllGather(port, in_.deadline);
    if (!ports) {
      return ports.error();
    }
    job_.listen_fd = listener ? listener.get() : 0;
    job_.timeout_seconds = std::chrono::duration<double>(until_.Remaining()).count();
    const FrameworkLaunch launch{name, seen.python, FrameworkProgram(), job_,
                                 Environment(ports->front())};
    seen.processes.push_back(RunFramework(launch, in_.exchange, until_, in_.progress));
    const auto all =
        in_.exchange.AllGather(Done(seen.processes.back()) ? "done" : "", in_.deadline);
    return all &&
           std::all_of(all->begin(), all->end(), [](const auto& one) { return one == "done"; });
  }

  FrameworkJob& job() { return job_; }

 private:
  static bool Done(const FrameworkProcess& process) {
    return process.seen.seen() && process.seen.value().missing.empty();
  }

  /// As torchrun sets them.
  std::vector<std::pair<std::string, std::string>> Environment(const std::string& port) const {
    std::vector<std::pair<std::string, std::string>> environment = {
        {"RANK", std::to_string(in_.exchange.rank())},
        {"WORLD_SIZE", std::to_string(in_.exchange.size())},
        {"LOCAL_RANK", std::to_string(in_.me.local_rank)},
        {"MASTER_ADDR", in_.address},
        {"MASTER_PORT", port},
        // Where another has arranged a meeting, it is not ours.
        {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
    if (in_.exchange.size() > 1 && std::getenv("OMP_NUM_THREADS") == nullptr) {
      environment.emplace_back("OMP_NUM_THREADS", "1");
    }
    if (in_.parameters.training.host_id_per_rank) {
      environment.emplace_back("NCCL_HOSTID", "dlc-check-" + std::to_string(in_.exchange.rank()));
    }
    return environment;
  }

  const FrameworkContext& in_;
  FrameworkJob job_;
  Deadline until_;
};

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

Result<FrameworkExperiment> ObserveFramework(const FrameworkContext& context) {
  FrameworkJob job = JobOf(context.parameters);
  if (context.fault == "wrong-seed") {
    ++job.seed;
  }
  if (!context.parameters.path.empty()) {
    job.directory = RunDirectory(context.parameters.path, context.run_id) + "/framework";
    std::error_code failure;
    std::filesystem::create_directories(job.directory, failure);
    if (failure) {
      context.progress.Say(job.directory + ": " + failure.message());
    }
  }
  FrameworkExperiment seen = Begun(context, job);
  FrameworkRuns runs(context, std::move(job));
  auto done = runs.Together("train", seen);
  if (!done) {
    return done.error();
  }
  if (*done && !seen.checkpoint.empty()) {
    // Other weights: what is right after the load was loaded.
    ++runs.job().weight_seed;
    runs.job().resume = true;
    runs.job().without_optimizer = context.fault == "lost-moments";
    if (done = runs.Together("resume", seen); !done) {
      context.progress.Say(done.error().message);
    }
  }
  return seen;
}

}  // namespace dlc
