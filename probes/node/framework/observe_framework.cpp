#include "probes/node/framework/observe_framework.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "probes/node/framework/framework_job.h"
#include "probes/node/framework/run_framework.h"
#include "probes/node/rendezvous/socket.h"
#include "probes/node/storage/run_directory.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;

/// Of the step's time: to kill what hangs, and to tell of it.
constexpr milliseconds kLastWords{2'000};

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

Result<FrameworkExperiment> ObserveFramework(const FrameworkContext& context) {
  const std::string& path = context.parameters.path;
  FrameworkJob job = FrameworkJobOf(
      context.parameters, path.empty() ? "" : RunDirectory(path, context.run_id) + "/framework",
      context.fault);
  if (!path.empty()) {
    std::error_code failure;
    std::filesystem::create_directories(job.directory, failure);
    if (failure) {
      context.progress.Say(job.directory + ": " + failure.message());
    }
  }
  FrameworkExperiment seen = FrameworkExperimentOf(context.parameters, job);
  FrameworkRuns runs(context, std::move(job));
  auto done = runs.Together("train", seen);
  if (!done) {
    return done.error();
  }
  if (*done && !seen.checkpoint.empty()) {
    runs.job() = ResumedFrameworkJob(runs.job(), context.fault);
    if (done = runs.Together("resume", seen); !done) {
      context.progress.Say(done.error().message);
    }
  }
  return seen;
}

}  // namespace dlc
