// Two "hosts" on one machine: network namespaces joined by a veth pair.
#include <cstdlib>

#include "probes/control/launcher/local_launcher.h"
#include "tests/launcher/launched_run.h"

namespace dlc {
namespace {

int Shell(const std::string& command) {
  return std::system((command + " 2>/dev/null").c_str());
}

class TwoHosts {
 public:
  TwoHosts() {
    const std::string id = std::to_string(getpid());
    a_ = "dlc-a-" + id;
    b_ = "dlc-b-" + id;
    // Interface names have 15 characters at most.
    const std::string va = "va" + id;
    const std::string vb = "vb" + id;
    link_ = "ip -n " + a_ + " link set " + va;
    there_ = Shell("ip netns add " + a_ + " && ip netns add " + b_ + " && ip link add " + va +
                   " netns " + a_ + " type veth peer name " + vb + " netns " + b_ + " && ip -n " +
                   a_ + " addr add 10.213.0.1/24 dev " + va + " && ip -n " + b_ +
                   " addr add 10.213.0.2/24 dev " + vb + " && ip -n " + a_ + " link set lo up && " +
                   link_ + " up && ip -n " + b_ + " link set " + vb + " up") == 0;
  }
  ~TwoHosts() {
    Shell("ip netns del " + a_);
    Shell("ip netns del " + b_);
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  bool there() const { return there_; }
  void Cut() const { CHECK(Shell(link_ + " down") == 0); }
  LocalLauncher Launch(int ranks_on_each) const {
    return LocalLauncher(
        {DLC_PROBE, {{ranks_on_each, a_}, {ranks_on_each, b_}}, "10.213.0.1", 29'500});
  }

 private:
  std::string a_;
  std::string b_;
  std::string link_;
  bool there_ = false;
};

TEST_CASE("namespaces: ranks of two hosts meet over the link between them") {
  const TwoHosts hosts;
  if (!hosts.there()) {
    MESSAGE("not run: no right to make network namespaces");
    return;
  }
  const SharedDirectory directory;
  LocalLauncher launcher = hosts.Launch(2);
  REQUIRE(launcher.Start(StorageRun(4, directory.Path()), Deadline::After(kPlenty)).has_value());
  Listen(launcher);
  for (const RankReport& report : launcher.Collect().ranks) {
    REQUIRE(report.seen.seen());
    CHECK(report.seen.value().facts.local_rank == report.rank % 2);
    CHECK(report.seen.value().rendezvous.value() == "10.213.0.1:29500");
    CHECK(report.seen.value().storage_shared.at(0).seen.seen());
  }
  CHECK(launcher.CleanUp(Deadline::After(kPlenty)).empty());
}

TEST_CASE("namespaces: a link cut in mid-run ends by deadline with the lost rank named") {
  const TwoHosts hosts;
  if (!hosts.there()) {
    MESSAGE("not run: no right to make network namespaces");
    return;
  }
  const SharedDirectory directory;
  Witness witness;
  // Rank 1 hangs, so that the run is surely in the middle when the link goes.
  LocalLauncher launcher = hosts.Launch(1);
  REQUIRE(launcher
              .Start(StorageRun(2, directory.Path(), {{1, "share", "sleep", ""}}),
                     Deadline::After(kPlenty))
              .has_value());
  Listen(launcher, [&](const RankEvent& event) {
    return event.rank == 0 && event.text == "waiting for the other ranks' files";
  });
  hosts.Cut();
  Listen(launcher);  // each wait has its deadline
  const RankRun run = launcher.Collect();
  REQUIRE(run.ranks[0].seen.seen());
  const auto& peers = run.ranks[0].seen.value().storage_shared.at(0).seen.value().peers;
  REQUIRE(peers.failed());
  CHECK(peers.error().message.starts_with("rank 1 on "));
  CHECK(peers.error().message.ends_with(" was lost (share)"));
  REQUIRE(run.ranks[1].seen.seen());
  CHECK(run.ranks[1].seen.value().storage_shared.at(0).end.how == "timed-out");
  CHECK(launcher.CleanUp(Deadline::After(kPlenty)).empty());
  CHECK(witness.AllGone());
}

TEST_CASE("namespaces: one that is not there is an error before anything runs") {
  LocalLauncher launcher({DLC_PROBE, {{1, "no-such-namespace"}}, "10.213.0.1", 29'500});
  const auto started = launcher.Start(StorageRun(1, "/tmp"), Deadline::After(kPlenty));
  REQUIRE_FALSE(started.has_value());
  CHECK(started.error().message.starts_with("cannot open network namespace 'no-such-namespace'"));
}

}  // namespace
}  // namespace dlc
