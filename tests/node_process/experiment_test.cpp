#include "probes/node/process/experiment.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "probes/node/process/child_process.h"
#include "tests/support/witness.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kPlenty{20'000};

ExperimentReport Run(const ExperimentBody& body, milliseconds deadline = kPlenty) {
  return RunExperiment(body, {Deadline::After(deadline), {}, -1, 1U << 20U});
}

TEST_CASE("experiment: its bytes come back, also big and binary ones") {
  std::string big(900'000, '\0');
  big[5] = '\xff';
  const auto report = Run([&](const Progress&) -> Result<std::string> { return big; });
  REQUIRE(report.result.has_value());
  CHECK(*report.result == big);
  CHECK(report.end.how == "finished");
}

TEST_CASE("experiment: its error comes back whole") {
  const Error error{ErrorCode::kPermissionDenied, "no right to look", "ask for it"};
  const auto report = Run([&](const Progress&) -> Result<std::string> { return error; });
  CHECK(report.result.error() == error);
  CHECK(report.end.how == "finished");
}

TEST_CASE("experiment: progress arrives in order, and stdout noise cannot disturb it") {
  std::vector<std::string> lines;
  const auto report = RunExperiment(
      [](const Progress& progress) -> Result<std::string> {
        progress.Say("one");
        CHECK(write(STDOUT_FILENO, "noise from a library\n", 21) == 21);
        progress.Say(std::string(1'000, 'x'));
        return std::string("done");
      },
      {Deadline::After(kPlenty), [&](const std::string& line) { lines.push_back(line); }, -1, 100});
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "one");
  CHECK(lines[1].size() == 400);
  CHECK(report.end.last_progress == lines[1]);
}

TEST_CASE("experiment: a crash costs the experiment and keeps the signal and last progress") {
  const auto report = Run([](const Progress& progress) -> Result<std::string> {
    progress.Say("about to fall");
    // The default action at once: a sanitizer would otherwise turn the signal into an exit code.
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    return std::string();
  });
  CHECK(report.end.how == "killed");
  CHECK(report.end.signal == SIGSEGV);
  CHECK(report.result.error().message ==
        "the experiment was killed by SIGSEGV; last progress: about to fall");
}

TEST_CASE("experiment: SIGKILL from elsewhere is told as such") {
  const auto report = Run([](const Progress&) -> Result<std::string> {
    raise(SIGKILL);
    return std::string();
  });
  CHECK(report.end.signal_name == "SIGKILL");
  CHECK(report.result.error().hint.find("OOM killer") != std::string::npos);
}

TEST_CASE("experiment: an exit without a result keeps the code") {
  const auto report = Run([](const Progress&) -> Result<std::string> { _exit(7); });
  CHECK(report.end.how == "exited");
  CHECK(report.end.exit_code == 7);
  CHECK(report.result.error().message == "the experiment exited with code 7 and no result");
}

TEST_CASE("experiment: a hang ends at its deadline, with all that it started") {
  Witness witness;
  const auto start = Deadline::Clock::now();
  const auto report = Run(
      [](const Progress& progress) -> Result<std::string> {
        if (fork() == 0) {
          pause();
        }
        progress.Say("waiting for ever");
        while (true) {
          pause();
        }
      },
      milliseconds(300));
  CHECK(Deadline::Clock::now() - start < milliseconds(5'000));
  CHECK(report.end.how == "timed-out");
  CHECK(report.result.error().code == ErrorCode::kTimedOut);
  CHECK(report.result.error().message ==
        "the experiment did not end before its deadline; last progress: waiting for ever");
  witness.OnlyOthersHoldIt();
  CHECK(witness.AllGone());
}

TEST_CASE("experiment: what it left running goes when it is done, and cannot hold us up") {
  Witness witness;
  const auto report = Run([](const Progress&) -> Result<std::string> {
    if (fork() == 0) {
      pause();  // and holds the pipe open
    }
    return std::string("done");
  });
  CHECK(report.result.value() == "done");
  witness.OnlyOthersHoldIt();
  CHECK(witness.AllGone());
}

TEST_CASE("experiment: a stop ends it as interrupted") {
  int stop[2];
  REQUIRE(pipe(stop) == 0);
  CHECK(write(stop[1], "x", 1) == 1);
  const auto report = RunExperiment(
      [](const Progress&) -> Result<std::string> {
        while (true) {
          pause();
        }
      },
      {Deadline::After(kPlenty), {}, stop[0], 100});
  CHECK(report.end.how == "interrupted");
  CHECK(report.result.error().code == ErrorCode::kInterrupted);
  close(stop[0]);
  close(stop[1]);
}

TEST_CASE("experiment: a result over the limit is an error, not memory") {
  const auto report =
      RunExperiment([](const Progress&) -> Result<std::string> { return std::string(101, 'x'); },
                    {Deadline::After(kPlenty), {}, -1, 100});
  CHECK(report.result.error().message.find("over the limit") != std::string::npos);
}

TEST_CASE("experiment: it dies with a killed parent") {
  Witness witness;
  const pid_t parent = fork();
  REQUIRE(parent >= 0);
  if (parent == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int ready[2];
    if (pipe(ready) != 0) {
      _exit(1);
    }
    auto child = ChildProcess::Fork([&] {
      if (write(ready[1], "x", 1) == 1) {
        while (true) {
          pause();
        }
      }
      return 1;
    });
    char byte = 0;
    if (child && read(ready[0], &byte, 1) == 1) {
      kill(getpid(), SIGKILL);
    }
    _exit(1);
  }
  int status = 0;
  CHECK(waitpid(parent, &status, 0) == parent);
  CHECK(WIFSIGNALED(status));
  witness.OnlyOthersHoldIt();
  CHECK(witness.AllGone());
}

}  // namespace
}  // namespace dlc
