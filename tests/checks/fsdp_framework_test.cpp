#include <doctest/doctest.h>

#include <string>

#include "checks/check.h"
#include "checks/fsdp_framework_runs.h"
#include "tests/checks/fsdp_run.h"
#include "tests/checks/nccl_run.h"
#include "tests/checks/rank_run.h"

namespace dlc {
namespace {

using testing::FsdpRankAt;
using testing::GoodFsdp;
using testing::One;

constexpr const char* kRuns = "fsdp-framework/runs";
constexpr const char* kLosses = "fsdp-framework/losses";
constexpr const char* kFinite = "fsdp-framework/finite";
constexpr const char* kTransport = "fsdp-framework/transport";
constexpr const char* kSpeed = "fsdp-framework/steps-per-second";
constexpr const char* kCheckpoint = "fsdp-framework/checkpoint";
constexpr const char* kAll[] = {kRuns, kLosses, kFinite, kSpeed, kCheckpoint};

const ExperimentEnd kFinished{"finished", 0, 0, "", false, false, "", 1};

Policy TorchPolicy() {
  Policy policy;
  policy.fsdp.training.rows = 1;
  policy.fsdp.training.steps = 2;
  policy.fsdp.framework.engine = "torch";
  return policy;
}

std::vector<Finding> Framework(const Observations& o, const Policy& p = TorchPolicy()) {
  return FindCheck("fsdp-framework")->judge(o, p);
}

/// Two steps, and whole, as far as this check looks.
FsdpTrainingExperiment Native() {
  FsdpTrainingExperiment native;
  native.backend = "cpu";
  for (const char* name : {"exact", "training"}) {
    FsdpTrainingRun run;
    run.name = name;
    run.model = "qwen2-tiny";
    run.compute = "float32";
    run.ranks = 2;
    run.rows = 1;
    run.sequence = 64;
    run.micro_batches = 2;
    run.hash = "hash";
    run.steps = {{8.0, 2.5, true, 1.0, 0, 0, 0}, {4.0, 2.25, true, 0.5, 0, 0, 0}};
    run.own = {{"padding", "", 240, 0, 0, 0, 0}, {"gathered", "", 1000, 0, 0, 0, 0}};
    run.reference = std::vector<FsdpComparison>{{"losses", "", 2, 0, 0, 0, 0}};
    native.runs.push_back(std::move(run));
  }
  return native;
}

FrameworkProcess Process(const std::string& name) {
  FrameworkRun run;
  run.process = name == "train" ? 100 : 200;
  run.ranks = 2;
  run.versions = {{"python", "3.13.1"}, {"torch", "2.13.0"}, {"numpy", "2.4.0"}};
  run.backend = "gloo";
  run.implementation = "transformers";
  run.compute = "float32";
  if (name == "train") {
    run.steps = {{8.0, 2.5, true, 5.0}, {4.0, 2.25, true, 0.25}};
  }
  run.more_steps = {{4.0, 2.0, true, 0.25}};
  run.state_hash = "state";
  FrameworkProcess process;
  process.name = name;
  process.how = "finished";
  process.seen = run;
  return process;
}

Observations GoodFramework() {
  Observations o = GoodFsdp(2);
  for (int rank = 0; rank < 2; ++rank) {
    FrameworkExperiment seen;
    seen.python = "python3";
    seen.engine = "torch";
    seen.strategy = "fsdp2";
    seen.backend = "cpu";
    seen.model = "qwen2-tiny";
    seen.rows = 1;
    seen.sequence = 64;
    seen.micro_batches = 2;
    seen.steps = 2;
    seen.more_steps = 1;
    seen.checkpoint = "/fsx/.dlc-check-0123456789abcdef/framework";
    seen.processes = {Process("train"), Process("resume")};
    FsdpRankAt(o, rank).fsdp_training = {{"fsdp-training", kFinished, Native()}};
    FsdpRankAt(o, rank).fsdp_framework = {{"fsdp-framework", kFinished, seen}};
  }
  return o;
}

FrameworkExperiment& ExperimentAt(Observations& o, int rank) {
  return FsdpRankAt(o, rank).fsdp_framework[0].seen.value();
}
FrameworkProcess& ProcessAt(Observations& o, int rank, std::size_t process = 0) {
  return ExperimentAt(o, rank).processes[process];
}
FrameworkRun& RunAt(Observations& o, int rank, std::size_t process = 0) {
  return ProcessAt(o, rank, process).seen.value();
}

/// As a program that raised, on this rank.
void Raise(Observations& o, int rank, double seconds, std::size_t process = 0) {
  FrameworkProcess& one = ProcessAt(o, rank, process);
  one.how = "exited";
  one.exit_code = 1;
  one.seconds = seconds;
  one.last_words = "RuntimeError: on " + std::to_string(rank);
  one.seen = Error{ErrorCode::kUnavailable, "the experiment exited with code 1", ""};
}

Verdict VerdictOf(const Observations& o, const char* rule, const Policy& p = TorchPolicy()) {
  return One(Framework(o, p), rule).verdict;
}

TEST_CASE("fsdp-framework: all that is right passes") {
  const auto findings = Framework(GoodFramework());
  CHECK(findings.size() == 6);
  for (const Finding& finding : findings) {
    CAPTURE(finding.rule);
    CAPTURE(finding.reason.message);
    CHECK(finding.verdict ==
          (finding.rule == kTransport ? Verdict::kNotApplicable : Verdict::kPass));
  }
  CHECK(One(findings, kRuns).actual ==
        "3 steps on 2 ranks, float32 over gloo, the model of transformers");
  CHECK(One(findings, kRuns).notes.at(0) == "python 3.13.1, torch 2.13.0");
  CHECK(One(findings, kLosses).actual == "4 losses, off by 0 at most");
  CHECK(One(findings, kSpeed).actual == "4 steps/s, 1024 tokens/s over 2 ranks");
}

TEST_CASE("fsdp-framework: losses pass at the limit and fail beyond it") {
  Observations o = GoodFramework();
  Policy policy = TorchPolicy();
  policy.fsdp.framework.max_loss_difference = 0.5;
  RunAt(o, 1).steps[1].loss = 6.0;
  CHECK(VerdictOf(o, kLosses, policy) == Verdict::kPass);
  RunAt(o, 1).steps[1].loss = 6.5;
  const Finding finding = One(Framework(o, policy), kLosses);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.reason.message ==
        "rank 1 on pod-1, step 2: 6.5 and not 4, off by 0.625, allowed 0.5; the framework or its "
        "packages: the native engine trains the same on these ranks, and right");
  // Without a limit in the policy it is 1e-4 on the CPU.
  RunAt(o, 1).steps[1].loss = 4.0 + 4.0 * 0.9e-4;
  CHECK(VerdictOf(o, kLosses) == Verdict::kPass);
  RunAt(o, 1).steps[1].loss = 4.0 + 4.0 * 1.1e-4;
  CHECK(VerdictOf(o, kLosses) == Verdict::kFail);
}

TEST_CASE("fsdp-framework: what is not finite is far off") {
  Observations o = GoodFramework();
  RunAt(o, 1).steps[0] = {0, 0, false, 1};
  CHECK(VerdictOf(o, kFinite) == Verdict::kFail);
  CHECK(VerdictOf(o, kLosses) == Verdict::kFail);
  LossDifference all;
  AddLossDifference("rank 0", 1, {1.0}, {0.0}, all);
  CHECK(all.largest > 1e300);
}

TEST_CASE(
    "fsdp-framework: other batches, steps or types than the native engine's are no comparison") {
  for (int change = 0; change < 4; ++change) {
    CAPTURE(change);
    Observations o = GoodFramework();
    FsdpTrainingRun& native = FsdpRankAt(o, 1).fsdp_training[0].seen.value().runs[1];
    native.rows += change == 0 ? 1 : 0;
    native.sequence += change == 1 ? 1 : 0;
    native.micro_batches += change == 2 ? 1 : 0;
    native.compute = change == 3 ? "bfloat16" : native.compute;
    CHECK(VerdictOf(o, kLosses) == Verdict::kUnknown);
  }
  Observations o = GoodFramework();
  RunAt(o, 0).steps.pop_back();
  CHECK(VerdictOf(o, kLosses) == Verdict::kUnknown);
}

TEST_CASE("fsdp-framework: the first rank that raised is named, and the framework") {
  Observations o = GoodFramework();
  Raise(o, 0, 5.0);
  Raise(o, 1, 4.5);
  const auto findings = Framework(o);
  CHECK(One(findings, kRuns).reason.message ==
        "rank 1 on pod-1: RuntimeError: on 1; the framework or its packages: the native engine "
        "trains the same on these ranks, and right");
  for (const char* rule : {kLosses, kFinite, kSpeed, kCheckpoint}) {
    CAPTURE(rule);
    CHECK(One(findings, rule).verdict == Verdict::kUnknown);
  }
}

TEST_CASE("fsdp-framework: a rank that was stopped hides none that failed") {
  Observations o = GoodFramework();
  ProcessAt(o, 0).how = "stopped";
  ProcessAt(o, 0).seen = Error{ErrorCode::kUnavailable, "stopped, as rank 1 stopped", ""};
  Raise(o, 1, 4.5);
  CHECK(VerdictOf(o, kRuns) == Verdict::kFail);
}

TEST_CASE("fsdp-framework: without a native engine that was seen nobody is blamed") {
  Observations o = GoodFramework();
  Raise(o, 1, 4.5);
  FsdpRankAt(o, 0).fsdp_training.clear();
  const Finding finding = One(Framework(o), kRuns);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.reason.message.find("is not told apart") != std::string::npos);
  o = GoodFramework();
  FsdpRankAt(o, 0).fsdp_training.clear();
  CHECK(VerdictOf(o, kLosses) == Verdict::kUnknown);
  CHECK(VerdictOf(o, kRuns) == Verdict::kPass);
}

TEST_CASE("fsdp-framework: a native engine that fails comes first") {
  Observations o = GoodFramework();
  FsdpRankAt(o, 1).fsdp_training[0].seen.value().runs[1].reference.value()[0].error = 1;
  Finding finding = One(Framework(o), kLosses);
  CHECK(finding.verdict == Verdict::kUnknown);
  CHECK(finding.reason.message.find("impossible until explained") != std::string::npos);
  Raise(o, 1, 1);
  finding = One(Framework(o), kRuns);
  CHECK(finding.verdict == Verdict::kUnknown);
  CHECK(finding.reason.message.find("fails on these ranks too (fsdp-training/unsharded-model: ") !=
        std::string::npos);
}

TEST_CASE(
    "fsdp-framework: deadlines, SIGKILL, exits without a word and missing packages are unknown") {
  for (const auto& [how, signal] :
       {std::pair("timed-out", ""), {"killed", "SIGKILL"}, {"exited", ""}, {"not-started", ""}}) {
    CAPTURE(how);
    Observations o = GoodFramework();
    ProcessAt(o, 1).how = how;
    ProcessAt(o, 1).signal_name = signal;
    ProcessAt(o, 1).seen = Error{ErrorCode::kUnavailable, "why", ""};
    for (const char* rule : kAll) {
      CHECK(VerdictOf(o, rule) == Verdict::kUnknown);
    }
    CHECK(One(Framework(o), kRuns).reason.message.find("rank 1 on pod-1: why") !=
          std::string::npos);
  }
  Observations o = GoodFramework();
  RunAt(o, 0) = {};
  RunAt(o, 0).missing = "torch";
  for (const char* rule : kAll) {
    CHECK(VerdictOf(o, rule) == Verdict::kUnknown);
  }
  o = GoodFramework();
  ProcessAt(o, 1).how = "killed";
  ProcessAt(o, 1).signal_name = "SIGABRT";
  ProcessAt(o, 1).seen = Error{ErrorCode::kUnavailable, "killed by SIGABRT", ""};
  CHECK(VerdictOf(o, kRuns) == Verdict::kFail);
}

TEST_CASE("fsdp-framework: what was trained otherwise than the policy asks shows nothing") {
  for (int change = 0; change < 4; ++change) {
    CAPTURE(change);
    Observations o = GoodFramework();
    FrameworkExperiment& seen = ExperimentAt(o, 1);
    std::string& word = change == 0   ? seen.engine
                        : change == 1 ? seen.strategy
                        : change == 2 ? seen.backend
                                      : seen.model;
    word = "other";
    for (const char* rule : kAll) {
      CHECK(VerdictOf(o, rule) == Verdict::kUnknown);
    }
  }
}

Policy RayTrainPolicy() {
  Policy policy = TorchPolicy();
  policy.fsdp.framework.launcher = "ray-train";
  return policy;
}

Observations GoodRayTrain() {
  Observations o = GoodFramework();
  for (int rank = 0; rank < 2; ++rank) {
    ExperimentAt(o, rank).launcher = "ray-train";
    ProcessAt(o, rank).host = ProcessAt(o, rank, 1).host = "pod-9" + std::to_string(rank);
    RunAt(o, rank).versions["ray"] = "2.58.0";
  }
  return o;
}

TEST_CASE("fsdp-framework: under Ray Train, and by no other launcher than the policy's") {
  const auto findings = Framework(GoodRayTrain(), RayTrainPolicy());
  for (const Finding& finding : findings) {
    CAPTURE(finding.reason.message);
    CHECK(finding.verdict ==
          (finding.rule == kTransport ? Verdict::kNotApplicable : Verdict::kPass));
  }
  CHECK(One(findings, kRuns).actual.ends_with(", under Ray Train's TorchTrainer"));
  CHECK(One(findings, kRuns).notes.front() == "python 3.13.1, torch 2.13.0, ray 2.58.0");
  for (const char* rule : kAll) {
    CHECK(VerdictOf(GoodRayTrain(), rule) == Verdict::kUnknown);
    CHECK(VerdictOf(GoodFramework(), rule, RayTrainPolicy()) == Verdict::kUnknown);
  }
  CHECK(One(Framework(GoodFramework(), RayTrainPolicy()), kRuns)
            .reason.message.find("the policy asks for ray-train (fsdp.framework.launcher), and the "
                                 "ranks trained with rank") != std::string::npos);
}

TEST_CASE("fsdp-framework: a worker of Ray Train that raises fails, one that is lost is unknown") {
  Observations o = GoodRayTrain();
  Raise(o, 1, 1);
  ProcessAt(o, 1).how = "raised";
  ProcessAt(o, 1).exit_code = 0;
  CHECK(One(Framework(o, RayTrainPolicy()), kRuns)
            .reason.message.starts_with(
                "worker 1 of Ray Train on pod-91: RuntimeError: on 1; the framework"));
  ProcessAt(o, 1).how = "lost";
  ProcessAt(o, 0).how = "stopped";
  ProcessAt(o, 0).seen = Error{ErrorCode::kUnavailable, "stopped, as Ray lost worker 1", ""};
  for (const char* rule : kAll) {
    CHECK(VerdictOf(o, rule, RayTrainPolicy()) == Verdict::kUnknown);
  }
  CHECK(One(Framework(o, RayTrainPolicy()), kRuns)
            .reason.message.find("worker 1 of Ray Train on pod-91: ") != std::string::npos);
}

/// Trained on GPUs, where EFA is asked for.
Policy GpuPolicy(const std::string& transport = "EFA_PROVEN") {
  Policy policy = TorchPolicy();
  policy.fsdp.training.backend = "cuda";
  policy.nccl.transport = transport;
  return policy;
}

TEST_CASE("fsdp-framework: its own NCCL is held against what NCCL is asked for") {
  Observations o = GoodFramework();
  CHECK(VerdictOf(o, kTransport) == Verdict::kNotApplicable);
  for (int rank = 0; rank < 2; ++rank) {
    ProcessAt(o, rank).nccl_log = testing::EfaLog(rank, 2);
  }
  const Finding efa = One(Framework(o, GpuPolicy()), kTransport);
  CHECK(efa.verdict == Verdict::kPass);
  CHECK(efa.actual.find("EFA_LOGGED") != std::string::npos);

  ProcessAt(o, 1).nccl_log = testing::SocketLog(1, 2);
  const Finding socket = One(Framework(o, GpuPolicy()), kTransport);
  CHECK(socket.verdict == Verdict::kFail);
  CHECK(socket.reason.message == "rank 1 on pod-1: TCP_PROVEN (8 connections via NET/Socket)");
  CHECK(VerdictOf(o, kTransport, GpuPolicy("any")) == Verdict::kNotApplicable);

  // A log that is not there, or of another run, shows nothing.
  ProcessAt(o, 1).nccl_log = Error{ErrorCode::kUnavailable, "NCCL wrote no log", ""};
  CHECK(VerdictOf(o, kTransport, GpuPolicy()) == Verdict::kUnknown);
  ProcessAt(o, 1).nccl_log = testing::EfaLog(0, 2);
  CHECK(VerdictOf(o, kTransport, GpuPolicy()) != Verdict::kPass);
  ExperimentAt(o, 1).processes.clear();
  CHECK(VerdictOf(o, kTransport, GpuPolicy()) == Verdict::kUnknown);
}

TEST_CASE("fsdp-framework: steps that were not told are unknown") {
  for (int change = 0; change < 3; ++change) {
    CAPTURE(change);
    Observations o = GoodFramework();
    for (int rank = 0; rank < 2; ++rank) {
      FrameworkRun& run = RunAt(o, rank);
      if (change == 0) {
        run = {};
      } else {
        (change == 1 ? run.steps : run.more_steps).pop_back();
      }
    }
    for (const char* rule : kAll) {
      CHECK(VerdictOf(o, rule) == Verdict::kUnknown);
    }
  }
}

TEST_CASE("fsdp-framework: slower than the policy asks") {
  Policy policy = TorchPolicy();
  policy.fsdp.framework.min_steps_per_second = 4;
  CHECK(VerdictOf(GoodFramework(), kSpeed, policy) == Verdict::kPass);
  policy.fsdp.framework.min_steps_per_second = 4.1;
  CHECK(VerdictOf(GoodFramework(), kSpeed, policy) == Verdict::kFail);
}

TEST_CASE("fsdp-framework: a checkpoint that comes back otherwise, or not at all") {
  Observations o = GoodFramework();
  RunAt(o, 1, 1).state_hash = "other";
  CHECK(One(Framework(o), kCheckpoint).reason.message ==
        "parameters or optimizer state are not as saved on rank 1 on pod-1");
  o = GoodFramework();
  RunAt(o, 0, 1).state_hash = RunAt(o, 0).state_hash = "";
  CHECK(VerdictOf(o, kCheckpoint) == Verdict::kFail);
  o = GoodFramework();
  RunAt(o, 1, 1).more_steps[0].loss = 5;
  CHECK(One(Framework(o), kCheckpoint).reason.message ==
        "rank 1 on pod-1, step 3: 5 and not 4 in the process that saved");
  o = GoodFramework();
  RunAt(o, 1, 1).more_steps.clear();
  CHECK(VerdictOf(o, kCheckpoint) == Verdict::kUnknown);
  o = GoodFramework();
  Raise(o, 1, 1, 1);
  CHECK(One(Framework(o), kCheckpoint).reason.message == "rank 1 on pod-1: RuntimeError: on 1");
  o = GoodFramework();
  ExperimentAt(o, 0).processes.pop_back();
  CHECK(VerdictOf(o, kCheckpoint) == Verdict::kUnknown);
  o = GoodFramework();
  for (int rank = 0; rank < 2; ++rank) {
    ExperimentAt(o, rank).checkpoint.clear();
    RunAt(o, rank).more_steps.clear();
    ExperimentAt(o, rank).processes.pop_back();
  }
  CHECK(VerdictOf(o, kCheckpoint) == Verdict::kNotApplicable);
  CHECK(VerdictOf(o, kRuns) == Verdict::kPass);
}

TEST_CASE("fsdp-framework: not applicable where nobody asks for it, unknown where nobody looked") {
  CHECK(VerdictOf(GoodFramework(), kRuns, Policy{}) == Verdict::kNotApplicable);
  Policy policy = TorchPolicy();
  policy.fsdp.measure = "no";
  CHECK(VerdictOf(GoodFramework(), kRuns, policy) == Verdict::kNotApplicable);
  Observations o = GoodFramework();
  FsdpRankAt(o, 0).fsdp_framework.clear();
  CHECK(VerdictOf(o, kRuns) == Verdict::kUnknown);
  o.fsdp_ranks = NotLookedAt{"the config has no target", ""};
  policy = TorchPolicy();
  CHECK(VerdictOf(o, kRuns, policy) == Verdict::kNotApplicable);
  policy.fsdp.measure = "required";
  CHECK(VerdictOf(o, kRuns, policy) == Verdict::kUnknown);
}

}  // namespace
}  // namespace dlc
