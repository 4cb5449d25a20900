#include "cmd/dlc-probe/run_plan.h"

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <poll.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cmd/dlc-probe/faults.h"
#include "cmd/dlc-probe/steps.h"
#include "probes/node/process/child_process.h"
#include "probes/node/process/experiment.h"
#include "probes/node/rendezvous/rendezvous.h"
#include "probes/node/rendezvous/server.h"
#include "probes/node/rendezvous/socket.h"
#include "probes/node/storage/run_directory.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCleanUp{15'000};
constexpr milliseconds kBetweenSteps{10'000};
constexpr milliseconds kGather{30'000};
constexpr milliseconds kLastWords{1'000};

void WriteLine(std::string line) {
  line += '\n';
  std::string_view left = line;
  while (!left.empty()) {
    const ssize_t written = write(STDOUT_FILENO, left.data(), left.size());
    if (written < 0 && errno != EINTR) {
      return;  // nobody listens any more; the signal that says so follows
    }
    left.remove_prefix(written > 0 ? static_cast<std::size_t>(written) : 0);
  }
}

RankFacts ObserveRank(const RankIdentity& identity) {
  RankFacts facts;
  facts.rank = identity.rank;
  facts.size = identity.size;
  facts.local_rank = identity.local_rank;
  utsname names{};
  uname(&names);
  facts.host = names.nodename;
  facts.kernel = names.release;
  std::ifstream boot_id("/proc/sys/kernel/random/boot_id");
  if (!(boot_id >> facts.node)) {
    facts.node = facts.host;
  }
  facts.pid = getpid();
  facts.uid = geteuid();
  facts.gid = getegid();
  facts.libc = std::string("glibc ") + gnu_get_libc_version();
  facts.version = DLC_VERSION;
  return facts;
}

/// The meeting point as a process of its own, on rank 0 only.
class ServerProcess {
 public:
  static Result<std::unique_ptr<ServerProcess>> Start(const RankInvocation& invocation) {
    UniqueFd listener(invocation.listen_fd);
    if (!listener) {
      auto own = ListenTcp(invocation.identity.master_port);
      if (!own) {
        return own.error();
      }
      listener = std::move(own).value();
    }
    fcntl(listener.get(), F_SETFL, O_NONBLOCK);
    const int port = PortOf(listener.get());
    int stop[2];
    if (pipe2(stop, O_CLOEXEC) != 0) {
      return Error{ErrorCode::kInternal, "cannot make a pipe", ""};
    }
    UniqueFd stop_read(stop[0]);
    UniqueFd stop_write(stop[1]);
    auto child = ChildProcess::Fork([&] {
      stop_write.Reset();
      RendezvousServer server(std::move(listener), invocation.identity.size, invocation.secret);
      server.Serve(stop_read.get());
      return 0;
    });
    if (!child) {
      return child.error();
    }
    return std::unique_ptr<ServerProcess>(
        new ServerProcess(std::move(child).value(), std::move(stop_write), port));
  }
  ~ServerProcess() {
    if (write(stop_.get(), "x", 1) == 1) {
      process_.WaitFor(Deadline::After(milliseconds(3'000)));
    }
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  int port() const { return port_; }

 private:
  ServerProcess(ChildProcess process, UniqueFd stop, int port)
      : process_(std::move(process)), stop_(std::move(stop)), port_(port) {}

  ChildProcess process_;
  UniqueFd stop_;
  int port_;
};

class PlanRun {
 public:
  explicit PlanRun(const RankInvocation& invocation)
      : in_(invocation), plan_(invocation.plan), me_(invocation.identity.rank) {
    seen_.facts = ObserveRank(invocation.identity);
    seen_.planted_faults = plan_.faults;
    join_.address = invocation.identity.master_address;
    join_.port = invocation.identity.master_port;
    join_.secret = invocation.secret;
    join_.rank = me_;
    join_.size = invocation.identity.size;
    join_.host = seen_.facts.host;
    join_.stop_fd = invocation.stop_fd;
  }

  int Run();

 private:
  void Say(const char* event, const std::string& step, const std::string& text) const {
    WriteLine(RankEventToJson({event, me_, step, text}));
  }
  bool Stopped() const {
    return WaitForFd(-1, 0, Deadline::After({}), in_.stop_fd) == Waited::kStopped;
  }
  bool PlantAtStart();
  Result<void> Meet();
  Result<void> ComparePlans();
  void RunStep(const PlanStep& step);
  ExperimentReport RunInChild(const PlanStep& step, const StepKind& kind);
  void Align(milliseconds patience);
  void CleanUp();
  RankRun Gather();

  const RankInvocation& in_;
  const RankPlan& plan_;
  int me_;
  JoinOptions join_;
  RankObservations seen_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Rendezvous> ranks_;
  bool aligned_ = true;
  std::optional<Error> lost_;  ///< rank 0's meeting point is gone: no collective step can start
};

/// False: this rank ends here.
bool PlanRun::PlantAtStart() {
  const PlantedFault* fault = FaultAt(plan_, me_, "");
  if (fault == nullptr) {
    return true;
  }
  Say("progress", "", "planted fault: " + fault->kind);
  if (fault->kind == "wrong-secret") {
    join_.secret = "a secret that is not this run's";
  }
  if (fault->kind == "never-arrive") {
    WaitForFd(-1, 0, Deadline::After(milliseconds(plan_.join_deadline_ms) * 2), in_.stop_fd);
  }
  return fault->kind == "wrong-secret";
}

Result<void> PlanRun::Meet() {
  const Deadline deadline = Deadline::After(milliseconds(plan_.join_deadline_ms));
  if (me_ == 0) {
    auto server = ServerProcess::Start(in_);
    if (!server) {
      return server.error();
    }
    server_ = std::move(server).value();
    join_.port = server_->port();
  }
  auto joined = Rendezvous::Join(join_, deadline);
  if (!joined) {
    return joined.error();
  }
  ranks_ = std::move(joined).value();
  return ComparePlans();
}

Result<void> PlanRun::ComparePlans() {
  const std::string mine = std::string(DLC_VERSION) + " " + in_.plan_digest;
  const auto all = ranks_->AllGather(mine, Deadline::After(kBetweenSteps));
  if (!all) {
    return all.error();
  }
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    if ((*all)[static_cast<std::size_t>(rank)] != all->front()) {
      ranks_.reset();
      return Error{
          ErrorCode::kInvalidInput,
          "rank " + std::to_string(rank) + " has another plan or another dlc-probe than rank 0",
          "give every rank the same file and the same program"};
    }
  }
  return {};
}

/// The ranks begin a step together, or without those that are lost.
void PlanRun::Align(milliseconds patience) {
  if (!ranks_ || !aligned_) {
    return;
  }
  if (const auto met = ranks_->Barrier(Deadline::After(patience)); !met) {
    aligned_ = false;
    if (!ranks_->connected()) {
      lost_ = met.error();
    }
    Say("progress", "", met.error().message);
  }
}

ExperimentReport PlanRun::RunInChild(const PlanStep& step, const StepKind& kind) {
  const Deadline deadline = Deadline::After(milliseconds(step.deadline_ms));
  const auto body = [&](const Progress& progress) -> Result<std::string> {
    std::unique_ptr<Rendezvous> group;
    if (kind.collective) {
      JoinOptions join = join_;
      join.group = step.name;
      join.stop_fd = -1;
      progress.Say("waiting for the other ranks");
      auto joined = Rendezvous::Join(join, deadline);
      if (!joined) {
        return joined.error();
      }
      group = std::move(joined).value();
    }
    const PlantedFault* fault = FaultAt(plan_, me_, step.name);
    if (fault != nullptr) {
      progress.Say("planted fault: " + fault->kind);
      if (const auto planted = PlantInStep(*fault, kind.scratch_path(step.parameters)); !planted) {
        return planted.error();
      }
    }
    return kind.run(
        {plan_, step, seen_.facts, group.get(), deadline, progress, join_.address, fault});
  };
  const auto on_progress = [&](const std::string& line) { Say("progress", step.name, line); };
  // A little later than the step's own waits end: their errors say more than ours.
  const Deadline kill_at = Deadline::After(milliseconds(step.deadline_ms) + kLastWords);
  return RunExperiment(body, {kill_at, on_progress, in_.stop_fd, 15U << 20U});
}

void PlanRun::RunStep(const PlanStep& step) {
  const StepKind& kind = *FindStepKind(step.kind);
  Say("step-started", step.name, step.kind);
  ExperimentReport report{Error{}, {}};
  if (kind.collective && (lost_ || !seen_.rendezvous.seen())) {
    report.end.how = "not-started";
    report.result = lost_ ? *lost_ : seen_.rendezvous.error();
  } else {
    report = RunInChild(step, kind);
  }
  Say("step-ended", step.name,
      report.result ? "finished" : report.end.how + ": " + report.result.error().message);
  kind.adopt(step.name, std::move(report), seen_);
}

/// In a process of its own: a file server that does not answer must not hold us.
void PlanRun::CleanUp() {
  std::set<std::string> directories;
  for (const PlanStep& step : plan_.steps) {
    const std::string path = FindStepKind(step.kind)->scratch_path(step.parameters);
    if (!path.empty()) {
      directories.insert(RunDirectory(path, plan_.run_id));
    }
  }
  for (const std::string& directory : directories) {
    const auto report = RunExperiment(
        [&](const Progress&) -> Result<std::string> {
          const auto left = RemoveRunDirectory(directory);
          return left.empty() ? std::string() : left.front();
        },
        {Deadline::After(kCleanUp), {}, -1, 65'536});
    const std::string left =
        report.result ? *report.result : directory + ": " + report.result.error().message;
    if (!left.empty()) {
      seen_.leftovers.push_back(left);
    }
  }
}

/// Rank 0's document holds all ranks', if the plan says so.
RankRun PlanRun::Gather() {
  RankRun run;
  run.size = in_.identity.size;
  const Deadline deadline = Deadline::After(kGather);
  if (plan_.gather && ranks_ && me_ != 0) {
    if (const auto put = ranks_->Put("document", FactsToJson(seen_), deadline); !put) {
      Say("progress", "", "could not give the document to rank 0: " + put.error().message);
    }
  }
  for (int rank = 0; rank < run.size; ++rank) {
    if (rank == me_) {
      run.ranks.push_back({rank, seen_});
    } else if (plan_.gather && me_ == 0) {
      if (!ranks_) {
        run.ranks.push_back({rank, seen_.rendezvous.error()});
        continue;
      }
      const auto document = ranks_->Get(rank, "document", deadline);
      run.ranks.push_back(
          {rank, document ? Observed<RankObservations>(ParseFacts<RankObservations>(*document))
                          : Observed<RankObservations>(document.error())});
    }
  }
  return run;
}

int PlanRun::Run() {
  if (!PlantAtStart()) {
    return 1;
  }
  if (const auto met = Meet(); met) {
    seen_.rendezvous = AddressText(join_.address, join_.port);
    Say("joined", "", std::to_string(join_.size) + " ranks");
  } else {
    seen_.rendezvous = met.error();
    Say("progress", "", met.error().message);
  }
  milliseconds last_deadline{0};
  for (const PlanStep& step : plan_.steps) {
    Align(last_deadline + kBetweenSteps);
    if (Stopped()) {
      break;
    }
    RunStep(step);
    last_deadline = milliseconds(step.deadline_ms);
  }
  seen_.interrupted = Stopped();
  if (!seen_.interrupted) {
    Align(last_deadline + kBetweenSteps);  // nobody still writes what we remove
  }
  CleanUp();
  const RankRun run = Gather();
  const bool met = seen_.rendezvous.seen();
  ranks_.reset();
  server_.reset();
  WriteLine(RankRunToJson(run));
  return seen_.interrupted ? kExitInterrupted : met ? kExitDone : kExitNotMet;
}

}  // namespace

int RunPlan(const RankInvocation& invocation) {
  return PlanRun(invocation).Run();
}

}  // namespace dlc
