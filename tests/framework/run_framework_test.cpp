#include "probes/node/framework/run_framework.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "probes/node/framework/framework_job.h"
#include "probes/node/framework/observe_framework.h"

namespace dlc {
namespace {

constexpr std::chrono::milliseconds kPlenty{60'000};

/// One rank, or as many as it is said to be of, which say nothing until one is lost.
class FewRanks : public Exchange {
 public:
  explicit FewRanks(int size) : size_(size) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
  Result<std::vector<std::string>> AllGather(std::string_view mine, Deadline) override {
    return std::vector<std::string>(static_cast<std::size_t>(size_), std::string(mine));
  }
  Result<void> Barrier(Deadline) override { return {}; }
  Result<void> LostSoFar(Deadline) override {
    return lost ? Result<void>(Error{ErrorCode::kUnavailable, "rank 1 on pod-1 was lost", ""})
                : Result<void>();
  }
  void TellStopped(std::string_view why, Deadline) override { told = why; }

  bool lost = false;
  std::string told;

 private:
  int size_;
};

/// The text is the shell's, which takes the place of python: it gets the same arguments.
FrameworkProcess RunShell(const std::string& program, Exchange& exchange,
                          std::chrono::milliseconds time = kPlenty,
                          const std::string& device = "cpu") {
  FrameworkJob job;
  job.device = device;
  const FrameworkLaunch launch{"train", "sh", program, job, {{"RANK", "0"}}};
  return RunFramework(launch, exchange, Deadline::After(time), Progress(STDERR_FILENO));
}

TEST_CASE("framework: the last words are those of the last traceback") {
  CHECK(LastWords({}).empty());
  CHECK(LastWords({"one", "two"}) == "two");
  CHECK(LastWords({"Traceback (most recent call last):", "  File \"x\", line 1, in <module>",
                   "    main()", "ValueError: first", "Traceback (most recent call last):",
                   "  File \"x\", line 2", "RuntimeError: second",
                   "[W123] a warning at the end"}) == "RuntimeError: second");
  CHECK(LastWords({"[rank1]: Traceback (most recent call last):", "[rank1]:   File \"x\"",
                   "[rank1]: RuntimeError: Numpy is not available"}) ==
        "RuntimeError: Numpy is not available");
  CHECK(LastWords({"Traceback (most recent call last):", "  File \"x\""}) == "  File \"x\"");
}

TEST_CASE("framework: a program that ends without a result is told with its words, to others too") {
  FewRanks ranks(2);
  const auto process = RunShell("echo out; echo $RANK: no >&2; exit 3", ranks);
  CHECK(process.how == "exited");
  CHECK(process.exit_code == 3);
  CHECK(process.last_words == "0: no");
  CHECK(process.output_tail == std::vector<std::string>{"out", "0: no"});
  CHECK(ranks.told == "the experiment exited with code 3 and no result; its last words: 0: no");
}

TEST_CASE("framework: much output holds nothing up, and its end is kept") {
  FewRanks ranks(1);
  const auto process =
      RunShell("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; exit 1", ranks);
  REQUIRE(process.output_tail.size() == 30);
  CHECK(process.output_tail.back() == "line 19999");
}

TEST_CASE("framework: one that waits for a lost rank is stopped, children and all") {
  FewRanks ranks(2);
  ranks.lost = true;
  const auto process = RunShell("sleep 1000 & sleep 1000", ranks);
  CHECK(process.how == "stopped");
  CHECK(process.seen.error().message == "stopped, as rank 1 on pod-1 was lost");
  CHECK(ranks.told.empty());
}

TEST_CASE("framework: a hang ends at the deadline") {
  FewRanks ranks(1);
  const auto process = RunShell("sleep 1000", ranks, std::chrono::milliseconds(300));
  CHECK(process.how == "timed-out");
  CHECK(process.seen.error().code == ErrorCode::kTimedOut);
}

TEST_CASE("framework: a result is strict JSON of known keys") {
  FewRanks ranks(1);
  // R, the length, and the text, to the descriptor that is the second argument.
  const auto process =
      RunShell(R"(printf 'R\015\000\000\000{"rankz": 10}' >/proc/self/fd/$2)", ranks);
  REQUIRE(process.seen.failed());
  CHECK(process.how == "finished");
  CHECK(process.seen.error().message.starts_with(
      "the framework's program gave a result that cannot be read: "));
}

TEST_CASE("framework: what its NCCL logs is kept, however it ends") {
  FewRanks ranks(1);
  const auto process = RunShell(
      R"(echo "pod:7:7 [0] NCCL INFO Using network Socket" >>$NCCL_DEBUG_FILE
         test $NCCL_DEBUG = INFO || exit 0; exit 3)",
      ranks, kPlenty, "cuda");
  CHECK(process.exit_code == 3);
  REQUIRE(process.nccl_log.seen());
  CHECK(process.nccl_log.value().networks == std::vector<std::string>{"Socket"});
  CHECK_FALSE(process.nccl_log_digest.hex.empty());
  const auto silent = RunShell("exit 0", ranks, kPlenty, "cuda");
  REQUIRE(silent.nccl_log.failed());
  CHECK(silent.nccl_log.error().message == "NCCL wrote no log");
  CHECK(RunShell("exit 0", ranks).nccl_log.not_looked_at());
}

TEST_CASE("framework: what cannot be done is named") {
  FsdpFrameworkParameters good{"torch", "fsdp2", "", "", 2, {}};
  good.training.model.name = "qwen2-tiny";
  good.training.rows = good.training.sequence = 1;
  good.training.micro_batches = good.training.steps = 1;
  good.training.reference = "no";
  CHECK(CheckFsdpFramework(good).has_value());
  for (const auto& [engine, strategy] :
       {std::pair("torch", "zero3"), {"deepspeed", "fsdp2"}, {"jax", "fsdp2"}, {"torch", ""}}) {
    auto bad = good;
    bad.engine = engine;
    bad.strategy = strategy;
    CHECK_FALSE(CheckFsdpFramework(bad).has_value());
  }
  auto bad = good;
  bad.path = "fsx";
  CHECK(CheckFsdpFramework(bad).error().message == "$.path: must be absolute");
  bad = good;
  bad.more_steps = 0;
  CHECK_FALSE(CheckFsdpFramework(bad).has_value());
  CHECK(FrameworkProgram().starts_with("\"\"\"One rank of a training"));
}

}  // namespace
}  // namespace dlc
