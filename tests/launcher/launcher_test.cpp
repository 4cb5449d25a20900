#include "probes/control/launcher/launcher.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "probes/control/launcher/env_launcher.h"
#include "probes/control/launcher/local_launcher.h"
#include "tests/launcher/launched_run.h"

namespace dlc {
namespace {

LocalLauncher Local() {
  return LocalLauncher({DLC_PROBE, {}, "", 0});
}

/// One that the kernel had free a moment ago.
int FreePort() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(listener >= 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(bind(listener, generic, size) == 0);
  REQUIRE(getsockname(listener, generic, &size) == 0);
  close(listener);
  return ntohs(address.sin_port);
}

bool IsWaiting(const RankEvent& event) {
  return event.text == "waiting for the other ranks' files";
}

TEST_CASE("local: every rank's document and events arrive") {
  for (const int ranks : {1, 3, 4, 7}) {
    CAPTURE(ranks);
    const SharedDirectory directory;
    Witness witness;
    LocalLauncher launcher = Local();
    const auto started =
        launcher.Start(StorageRun(ranks, directory.Path()), Deadline::After(kPlenty));
    if (!started) {
      FAIL(started.error().message);
    }
    const auto events = Listen(launcher);
    CHECK(std::count_if(events.begin(), events.end(), [](const RankEvent& event) {
            return event.event == "step-ended" && event.text == "finished";
          }) == ranks);
    const RankRun run = launcher.Collect();
    CHECK(run.launcher == "local");
    REQUIRE(run.ranks.size() == static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      const RankReport& report = run.ranks[static_cast<std::size_t>(rank)];
      REQUIRE(report.seen.seen());
      CHECK(report.rank == rank);
      CHECK(report.seen.value().facts.rank == rank);
      CHECK(report.seen.value().facts.local_rank == rank);
      const auto& shared = report.seen.value().storage_shared.at(0).seen;
      REQUIRE(shared.seen());
      CHECK(shared.value().peers.value().size() == static_cast<std::size_t>(ranks - 1));
    }
    CHECK(launcher.CleanUp(Deadline::After(kPlenty)).empty());
    CHECK(witness.AllGone());
  }
}

TEST_CASE("local: two runs at the same time do not meet") {
  const SharedDirectory directory;
  const SharedDirectory other;
  LocalLauncher one = Local();
  LocalLauncher two = Local();
  REQUIRE(one.Start(StorageRun(2, directory.Path()), Deadline::After(kPlenty)).has_value());
  REQUIRE(two.Start(StorageRun(2, other.Path()), Deadline::After(kPlenty)).has_value());
  for (LocalLauncher* launcher : {&one, &two}) {
    Listen(*launcher);
    for (const RankReport& report : launcher->Collect().ranks) {
      CHECK(report.seen.seen());
    }
  }
}

TEST_CASE("local: no dlc-probe is an error that says where it was looked for") {
  LocalLauncher launcher({"/no/such/dlc-probe", {}, "", 0});
  const auto started = launcher.Start(StorageRun(1, "/tmp"), Deadline::After(kPlenty));
  REQUIRE_FALSE(started.has_value());
  CHECK(started.error().message == "no dlc-probe at /no/such/dlc-probe");
  CHECK(FindProbe("").error().message.starts_with("no dlc-probe at /"));
}

TEST_CASE("local: a program that is no dlc-probe is told by what it says") {
  LocalLauncher launcher({"/bin/ls", {}, "", 0});
  REQUIRE(launcher.Start(StorageRun(1, "/tmp"), Deadline::After(kPlenty)).has_value());
  const auto events = Listen(launcher);
  CHECK(std::any_of(events.begin(), events.end(),
                    [](const RankEvent& event) { return event.event == "log"; }));
  const RankRun run = launcher.Collect();
  REQUIRE(run.ranks[0].seen.failed());
  CHECK(run.ranks[0].seen.error().message.starts_with(
      "rank 0 ended with code 2 and no document; it said: /bin/ls: "));
}

TEST_CASE("local: a rank that was killed is named with its last words") {
  const SharedDirectory directory;
  LocalLauncher launcher = Local();
  REQUIRE(launcher
              .Start(StorageRun(3, directory.Path(), {{2, "share", "exit-rank", ""}}),
                     Deadline::After(kPlenty))
              .has_value());
  Listen(launcher);
  const RankRun run = launcher.Collect();
  CHECK(run.ranks[0].seen.seen());
  CHECK(run.ranks[1].seen.seen());
  REQUIRE(run.ranks[2].seen.failed());
  CHECK(run.ranks[2].seen.error().message.starts_with("rank 2 was killed by SIGKILL"));
  CHECK(launcher.CleanUp(Deadline::After(kPlenty)).empty());
}

TEST_CASE("local: cancel in mid-run keeps what was seen and leaves nothing") {
  const SharedDirectory directory;
  Witness witness;
  LocalLauncher launcher = Local();
  REQUIRE(launcher
              .Start(StorageRun(2, directory.Path(), {{1, "share", "sleep", ""}}),
                     Deadline::After(kPlenty))
              .has_value());
  Listen(launcher, IsWaiting);
  CHECK_FALSE(directory.Empty());
  launcher.Cancel(Deadline::After(kPlenty));
  for (const RankReport& report : launcher.Collect().ranks) {
    REQUIRE(report.seen.seen());
    CHECK(report.seen.value().interrupted);
  }
  CHECK(directory.Empty());
  CHECK(launcher.CleanUp(Deadline::After(kPlenty)).empty());
  CHECK(witness.AllGone());
}

TEST_CASE("local: without time to stop, ranks are killed and their files removed for them") {
  const SharedDirectory directory;
  Witness witness;
  LocalLauncher launcher = Local();
  REQUIRE(launcher
              .Start(StorageRun(2, directory.Path(), {{1, "share", "sleep", ""}}),
                     Deadline::After(kPlenty))
              .has_value());
  Listen(launcher, IsWaiting);
  launcher.Cancel(Deadline::After(std::chrono::milliseconds(0)));
  CHECK(launcher.CleanUp(Deadline::After(kPlenty)).empty());
  CHECK(directory.Empty());
  CHECK(witness.AllGone());
}

TEST_CASE("local: an interrupt ends the wait for events") {
  const SharedDirectory directory;
  std::atomic<bool> interrupted = false;
  LaunchRequest request = StorageRun(2, directory.Path(), {{1, "share", "sleep", ""}});
  request.interrupted = &interrupted;
  LocalLauncher launcher = Local();
  REQUIRE(launcher.Start(request, Deadline::After(kPlenty)).has_value());
  Listen(launcher, IsWaiting);
  interrupted = true;
  while (true) {
    const auto event = launcher.NextEvent(Deadline::After(kPlenty));
    if (!event) {
      CHECK(event.error().code == ErrorCode::kInterrupted);
      break;
    }
    REQUIRE(event->has_value());
  }
  CHECK(launcher.CleanUp(Deadline::After(kPlenty)).empty());
}

TEST_CASE("local: a killed parent leaves no process and no file") {
  const SharedDirectory directory;
  Witness witness;
  const pid_t parent = fork();
  REQUIRE(parent >= 0);
  if (parent == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    LocalLauncher launcher = Local();
    if (launcher.Start(StorageRun(3, directory.Path(), {{1, "share", "sleep", ""}}),
                       Deadline::After(kPlenty))) {
      Listen(launcher, IsWaiting);
    }
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  CHECK(waitpid(parent, &status, 0) == parent);
  CHECK(WIFSIGNALED(status));
  CHECK(witness.AllGone());
  CHECK(directory.Empty());
}

TEST_CASE("env: rank 0 collects all documents, run ids are derived from the secret") {
  const SharedDirectory directory;
  // A free port, as the operator of a real run would choose one.
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(FreePort()).c_str(), 1);
  setenv("WORLD_SIZE", "2", 1);
  setenv("DLC_CHECK_RUN_SECRET", "0123456789abcdef0123456789abcdef", 1);
  EnvLauncher zero(DLC_PROBE);
  EnvLauncher one(DLC_PROBE);
  LaunchRequest request = StorageRun(0, directory.Path());
  setenv("RANK", "0", 1);
  REQUIRE(zero.Start(request, Deadline::After(kPlenty)).has_value());
  request.plan.run_id = "fedcba9876543210";
  setenv("RANK", "1", 1);
  REQUIRE(one.Start(request, Deadline::After(kPlenty)).has_value());
  CHECK(zero.run_id() == one.run_id());
  Listen(zero);
  Listen(one);
  const RankRun all = zero.Collect();
  CHECK(all.launcher == "env");
  REQUIRE(all.ranks.size() == 2);
  CHECK(all.ranks[0].seen.seen());
  REQUIRE(all.ranks[1].seen.seen());
  CHECK(all.ranks[1].seen.value().storage_shared.at(0).seen.seen());
  CHECK(one.Collect().ranks[0].seen.failed());
  CHECK(zero.CleanUp(Deadline::After(kPlenty)).empty());
  for (const char* name :
       {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "DLC_CHECK_RUN_SECRET"}) {
    unsetenv(name);
  }
}

TEST_CASE("env: what the environment lacks is named") {
  EnvLauncher launcher(DLC_PROBE);
  CHECK(launcher.Start(StorageRun(0, "/tmp"), Deadline::After(kPlenty)).error().message ==
        "WORLD_SIZE is not set");
}

}  // namespace
}  // namespace dlc
