#include <doctest/doctest.h>

#include <string>

#include "checks/check.h"
#include "tests/checks/cluster_facts.h"
#include "tests/checks/fabric_run.h"
#include "tests/checks/rank_run.h"

namespace dlc {
namespace {

using testing::FabricAt;
using testing::GoodFabric;
using testing::NodeAt;
using testing::OfRule;
using testing::One;

constexpr const char* kDevices = "fabric-ready/devices-in-pod";
constexpr const char* kProvider = "fabric-ready/efa-provider";
constexpr const char* kLocked = "fabric-ready/memlock";
constexpr const char* kPages = "fabric-ready/huge-pages";
constexpr const char* kInstaller = "fabric-ready/installer-in-pod";

std::vector<Finding> Look(const Observations& o, const Policy& p = {}) {
  return FindCheck("fabric-ready")->judge(o, p);
}

RdmaDevice Efa(const std::string& name, bool usable) {
  return {name,
          "0000:10:1b.0",
          "1d0f",
          "efa1",
          "uverbs0",
          usable,
          usable ? "" : "/dev/infiniband/uverbs0: No such file or directory"};
}

/// Two pods of AWS's sample with one EFA device each, all as it should be.
Observations WithEfa() {
  Observations o = testing::SampleObservations();
  o.nccl_ranks = GoodFabric({"a", "b"}).nccl_ranks;
  int rank = 0;
  for (const Pod& pod : o.cluster.pods.value()) {
    if (pod.ray_node_type == "worker") {
      FabricAt(o, rank).facts.host = pod.name;
      NodeFabric& node = NodeAt(o, rank++);
      node.rdma_devices = {Efa("rdmap16s27", true)};
      node.efa_functions = std::vector<EfaFunction>{{"0000:10:1b.0", "efa1", "efa"}};
      node.providers.value().push_back({"efa", "rdmap16s27-rdm", "efa", "204.0", "", "", {}});
      node.memlock = MemlockLimit{};
      node.huge_pages = {{2 << 20, 5128, 5000}};
      node.efa_installer_version = std::string("1.49.0");
    }
  }
  REQUIRE(rank == 2);
  return o;
}

Policy Asks(const char* efa, int interfaces = 0) {
  Policy p;
  p.fabric.efa = efa;
  p.fabric.interfaces_per_worker_pod = interfaces;
  return p;
}

TEST_CASE("fabric-ready: a pod that holds the devices of its limit passes") {
  Policy p = Asks("required");
  p.image.efa_installer = "1.49.0";
  const auto findings = Look(WithEfa(), p);
  for (const char* rule : {kDevices, kProvider, kLocked, kPages, kInstaller}) {
    CAPTURE(rule);
    const auto some = OfRule(findings, rule);
    REQUIRE(some.size() == 2);
    CHECK(some[0].verdict == Verdict::kPass);
    CHECK(some[1].verdict == Verdict::kPass);
  }
  CHECK(OfRule(findings, kDevices)[0].notes.at(0) ==
        "rdmap16s27 is 1d0f:efa1 at 0000:10:1b.0, usable");
  CHECK(OfRule(findings, kLocked)[0].actual == "unlimited");
}

TEST_CASE("fabric-ready: a device that does not open is not there, and says why") {
  Observations o = WithEfa();
  NodeAt(o, 1).rdma_devices = {Efa("rdmap16s27", false)};
  const auto some = OfRule(Look(o), kDevices);
  REQUIRE(some.size() == 2);
  CHECK(some[0].verdict == Verdict::kPass);
  CHECK(some[1].verdict == Verdict::kFail);
  CHECK(some[1].notes.at(0).find("No such file") != std::string::npos);
}

TEST_CASE("fabric-ready: more devices than the limit gave are a failure too") {
  Observations o = WithEfa();
  NodeAt(o, 0).rdma_devices.push_back(Efa("rdmap32s27", true));
  CHECK(OfRule(Look(o), kDevices)[0].verdict == Verdict::kFail);
}

TEST_CASE("fabric-ready: each shortcoming of the pod is told by itself") {
  Observations o = WithEfa();
  NodeFabric& node = NodeAt(o, 0);
  node.providers.value().pop_back();
  node.memlock = MemlockLimit{65536, 65536};
  node.huge_pages.clear();
  node.efa_installer_version = std::string("1.47.0");
  node.fi_provider = "tcp";
  Policy p;
  p.image.efa_installer = "1.49.0";
  const auto findings = Look(o, p);
  const Finding provider = OfRule(findings, kProvider)[0];
  CHECK(provider.verdict == Verdict::kFail);
  CHECK(provider.notes.at(0) == "providers: net");
  CHECK(provider.notes.at(1) == "FI_PROVIDER=tcp hides all others");
  CHECK(OfRule(findings, kLocked)[0].verdict == Verdict::kFail);
  CHECK(OfRule(findings, kLocked)[0].severity == Severity::kWarn);
  CHECK(OfRule(findings, kLocked)[0].reason.message == "locked memory is limited to 65536 bytes");
  CHECK(OfRule(findings, kPages)[0].verdict == Verdict::kFail);
  CHECK(OfRule(findings, kInstaller)[0].verdict == Verdict::kFail);
  CHECK(OfRule(findings, kInstaller)[1].verdict == Verdict::kPass);
}

TEST_CASE("fabric-ready: what a rank could not see is unknown") {
  Observations o = WithEfa();
  NodeAt(o, 0).providers = Error{ErrorCode::kNotFound, "no provider", ""};
  NodeAt(o, 0).memlock = Error{ErrorCode::kUnavailable, "getrlimit: Function not implemented", ""};
  NodeAt(o, 0).efa_installer_version = Error{ErrorCode::kNotFound, "no such file", ""};
  FabricAt(o, 1).fabric_node[0].seen = Error{ErrorCode::kTimedOut, "slow", ""};
  Policy p;
  p.image.efa_installer = "1.49.0";
  const auto findings = Look(o, p);
  CHECK(One(findings, kProvider).verdict == Verdict::kUnknown);
  CHECK(One(findings, kLocked).verdict == Verdict::kUnknown);
  CHECK(One(findings, kInstaller).verdict == Verdict::kUnknown);
  CHECK(OfRule(findings, kDevices)[1].verdict == Verdict::kUnknown);
}

/// Ranks of no pod that was seen: target `local`.
Observations WithoutPods() {
  return GoodFabric({"a", "a"});
}

TEST_CASE("fabric-ready: without a pod the policy says what has to be there") {
  CHECK(OfRule(Look(WithoutPods(), Asks("no")), kDevices).empty());
  CHECK(OfRule(Look(WithoutPods()), kDevices)[0].verdict == Verdict::kNotApplicable);
  CHECK(OfRule(Look(WithoutPods(), Asks("required")), kDevices)[0].verdict == Verdict::kFail);
  CHECK(OfRule(Look(WithoutPods(), Asks("required")), kProvider)[0].verdict == Verdict::kFail);
  Observations o = WithoutPods();
  NodeAt(o, 0).rdma_devices = {Efa("rdmap16s27", true)};
  CHECK(OfRule(Look(o, Asks("required", 1)), kDevices)[0].verdict == Verdict::kPass);
  CHECK(OfRule(Look(o, Asks("required", 2)), kDevices)[0].verdict == Verdict::kFail);
  CHECK(OfRule(Look(o), kDevices)[0].verdict == Verdict::kPass);
  // On the bus, and not in the pod.
  o = WithoutPods();
  NodeAt(o, 0).efa_functions = std::vector<EfaFunction>{{"0000:10:1b.0", "efa1", ""}};
  const Finding idle = OfRule(Look(o), kDevices)[0];
  CHECK(idle.verdict == Verdict::kFail);
  CHECK(idle.notes.at(0) == "efa1 at 0000:10:1b.0 has no driver");
  NodeAt(o, 0).efa_functions = Error{ErrorCode::kNotFound, "cannot list /sys/bus/pci", ""};
  CHECK(OfRule(Look(o), kDevices)[0].verdict == Verdict::kUnknown);
}

TEST_CASE("fabric-ready: one rank of a pod speaks for it") {
  Observations o = WithoutPods();
  CHECK(OfRule(Look(o), kDevices).size() == 2);
  FabricAt(o, 1).facts.host = FabricAt(o, 0).facts.host;
  CHECK(OfRule(Look(o), kDevices).size() == 1);
}

TEST_CASE("fabric-ready: without ranks the pods were not looked at, and that is no pass") {
  Observations o = testing::SampleObservations();
  const Finding idle = One(Look(o), kDevices);
  CHECK(idle.verdict == Verdict::kNotApplicable);
  CHECK(idle.reason.message.find("not asked for") != std::string::npos);
  o.nccl_ranks = Error{ErrorCode::kNotFound, "no dlc-probe", ""};
  CHECK(One(Look(o), kDevices).verdict == Verdict::kUnknown);
  o.nccl_ranks = NotLookedAt{"", "image-digest/x (pod y)"};
  CHECK(One(Look(o), kDevices).verdict == Verdict::kUnknown);
  o.nccl_ranks = RankRun{};
  CHECK(One(Look(o), kDevices).verdict == Verdict::kUnknown);
}

}  // namespace
}  // namespace dlc
