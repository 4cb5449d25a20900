#include "checks/claimed_devices.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "checks/check.h"
#include "tests/checks/cluster_facts.h"

namespace dlc {
namespace {

using testing::Of;
using testing::Only;
using testing::SampleObservations;

constexpr const char* kEfaKind = "Elastic Fabric Adapter (EFA)";
constexpr const char* kLimit = "gpu-allocation/limit-matches-policy";

Policy FourGpus() {
  Policy p;
  p.gpu.per_worker_pod = 4;
  p.gpu.worker_pods = 2;
  p.gpu.total = 8;
  p.fabric.efa = "required";
  p.fabric.interfaces_per_worker_pod = 1;
  return p;
}

std::vector<Finding> JudgeGpuOf(const Observations& o) {
  return FindCheck("gpu-allocation")->judge(o, FourGpus());
}
std::vector<Finding> JudgeEfaOf(const Observations& o) {
  return FindCheck("fabric-ready")->judge(o, FourGpus());
}

void TakeByClaim(PodSpec& spec) {
  spec.containers[0].limits.erase("nvidia.com/gpu");
  spec.containers[0].requests.erase("nvidia.com/gpu");
  spec.containers[0].limits.erase("vpc.amazonaws.com/efa");
  spec.containers[0].requests.erase("vpc.amazonaws.com/efa");
  spec.resource_claims = {"devices"};
  spec.containers[0].claims = {{"devices", ""}};
}

/// The sample's workers get their four GPUs and one EFA interface by claim, and their nodes offer
/// them in slices alone.
Observations ByClaims() {
  Observations o = SampleObservations();
  TakeByClaim(o.cluster.ray_clusters.value()[0].workers[0].pod);
  std::vector<ResourceSlice> slices;
  std::vector<ResourceClaim> claims;
  for (Pod& pod : o.cluster.pods.value()) {
    if (pod.ray_node_type != "worker") {
      continue;
    }
    TakeByClaim(pod.spec);
    pod.claim_objects = {{"devices", pod.name + "-devices"}};
    ResourceSlice gpus{"g-" + pod.node, kDraGpuDriver, pod.node, pod.node, 1, {}, {}};
    ResourceClaim claim{pod.name_space, pod.name + "-devices", true, {}, {}};
    for (const char* name : {"gpu-0", "gpu-1", "gpu-2", "gpu-3"}) {
      gpus.devices.push_back({name, "gpu"});
      claim.devices.push_back({"gpu", kDraGpuDriver, pod.node, name});
    }
    claim.devices.push_back({"efa", kDraNetworkDriver, pod.node, "efa-0"});
    slices.push_back(std::move(gpus));
    slices.push_back({"e-" + pod.node,
                      kDraNetworkDriver,
                      pod.node,
                      pod.node,
                      1,
                      {{"efa-0", kEfaKind}, {"eth0", "Elastic Network Adapter (ENA)"}},
                      {}});
    claims.push_back(std::move(claim));
  }
  for (Node& node : o.cluster.nodes.value()) {
    node.allocatable.erase("nvidia.com/gpu");
    node.allocatable.erase("vpc.amazonaws.com/efa");
  }
  o.cluster.dra = DraFacts{std::move(slices), std::move(claims)};
  return o;
}

bool Says(const Finding& finding, const std::string& part) {
  std::string text = finding.reason.message;
  for (const std::string& note : finding.notes) {
    text += "\n" + note;
  }
  return text.find(part) != std::string::npos;
}

bool AnyFails(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    if (finding.verdict == Verdict::kFail) {
      MESSAGE(finding.rule << " " << finding.subject.name << ": " << finding.reason.message);
      return true;
    }
  }
  return false;
}

TEST_CASE("claimed devices: what claims give counts as the limit, and is said to be no limit") {
  const auto findings = JudgeGpuOf(ByClaims());
  CHECK_FALSE(AnyFails(findings));
  CHECK(Aggregate(findings, false) == Outcome::kPassed);
  const Finding pod = Only(findings, kLimit, "worker-1");
  CHECK(pod.verdict == Verdict::kPass);
  CHECK(pod.actual == "4");
  CHECK(Says(pod, "by resource claims (worker-1-devices), not by limits"));
  CHECK(Only(findings, kLimit, "sample/gpu-workers").verdict == Verdict::kPass);
  for (const Finding& node : Of(findings, "gpu-allocation/node-allocatable")) {
    CHECK(node.verdict == Verdict::kPass);
    CHECK(Says(node, "devices of ResourceSlices"));
  }
  CHECK_FALSE(AnyFails(JudgeEfaOf(ByClaims())));
  CHECK(Only(JudgeEfaOf(ByClaims()), "fabric-ready/efa-limit", "worker-1").verdict ==
        Verdict::kPass);
}

TEST_CASE("claimed devices: one device less fails") {
  Observations o = ByClaims();
  o.cluster.dra->claims.value()[0].devices.erase(o.cluster.dra->claims.value()[0].devices.begin());
  CHECK(Only(JudgeGpuOf(o), kLimit, "worker-1").verdict == Verdict::kFail);
  CHECK(Only(JudgeGpuOf(o), kLimit, "worker-2").verdict == Verdict::kPass);
  // The template gives different pods different devices: what it gives is not known.
  CHECK(Only(JudgeGpuOf(o), kLimit, "sample/gpu-workers").verdict == Verdict::kUnknown);

  Observations without_efa = ByClaims();
  without_efa.cluster.dra->claims.value()[0].devices.pop_back();
  CHECK(Only(JudgeEfaOf(without_efa), "fabric-ready/efa-limit", "worker-1").verdict ==
        Verdict::kFail);
}

TEST_CASE("claimed devices: a network device that is no EFA is none") {
  Observations o = ByClaims();
  o.cluster.dra->claims.value()[0].devices.back().device = "eth0";
  CHECK(Only(JudgeEfaOf(o), "fabric-ready/efa-limit", "worker-1").verdict == Verdict::kFail);
}

TEST_CASE("claimed devices: a claim that the Ray container does not use gives it nothing") {
  Observations o = ByClaims();
  PodSpec& spec = o.cluster.pods.value()[1].spec;
  REQUIRE(o.cluster.pods.value()[1].name == "worker-1");
  ContainerSpec sidecar;
  sidecar.name = "sidecar";
  sidecar.claims = std::move(spec.containers[0].claims);
  spec.containers[0].claims.clear();
  spec.containers.push_back(sidecar);
  CHECK(Only(JudgeGpuOf(o), kLimit, "worker-1").verdict == Verdict::kFail);
  // One request of it alone.
  Observations one = ByClaims();
  one.cluster.pods.value()[1].spec.containers[0].claims = {{"devices", "efa"}};
  CHECK(Only(JudgeGpuOf(one), kLimit, "worker-1").verdict == Verdict::kFail);
  CHECK(Only(JudgeEfaOf(one), "fabric-ready/efa-limit", "worker-1").verdict == Verdict::kPass);
}

TEST_CASE("claimed devices: what was not seen is unknown, and never a fail or a pass") {
  std::vector<std::pair<const char*, Observations>> cases;
  cases.emplace_back("rights", ByClaims());
  cases.back().second.cluster.dra->claims = NotLookedAt{"needs list on resourceclaims", ""};
  cases.emplace_back("slices", ByClaims());
  cases.back().second.cluster.dra->slices = Error{ErrorCode::kNotFound, "no such kind", ""};
  cases.emplace_back("older evidence", ByClaims());
  cases.back().second.cluster.dra.reset();
  cases.emplace_back("not allocated", ByClaims());
  cases.back().second.cluster.dra->claims.value()[0].allocated = false;
  cases.back().second.cluster.dra->claims.value()[0].devices.clear();
  cases.emplace_back("no claim", ByClaims());
  cases.back().second.cluster.pods.value()[1].claim_objects.clear();
  cases.emplace_back("withdrawn", ByClaims());
  cases.back().second.cluster.dra->slices.value().push_back(
      {"newer", kDraGpuDriver, "", cases.back().second.cluster.pods.value()[1].node, 2, {}, {}});
  for (const auto& [name, o] : cases) {
    CAPTURE(name);
    for (const auto& findings : {JudgeGpuOf(o), JudgeEfaOf(o)}) {
      CHECK(Aggregate(findings, false) != Outcome::kPassed);
    }
    const Finding limit = Only(JudgeGpuOf(o), kLimit, "worker-1");
    CHECK(limit.verdict == Verdict::kUnknown);
    CHECK_FALSE(limit.reason.message.empty());
    CHECK(Only(JudgeGpuOf(o), "gpu-allocation/worker-total").verdict == Verdict::kUnknown);
  }
  // Other kinds than GPU and MIG, and none told.
  for (const char* kind : {"vfio", ""}) {
    Observations odd = ByClaims();
    odd.cluster.dra->slices.value()[0].devices[0].kind = kind;
    CHECK(Only(JudgeGpuOf(odd), kLimit, "worker-1").verdict == Verdict::kUnknown);
  }
  // EFA by a claim that was not read, GPUs by limit: the limit is judged.
  Observations mixed = std::move(cases.front().second);
  for (Pod& pod : mixed.cluster.pods.value()) {
    if (pod.ray_node_type == "worker") {
      pod.spec.containers[0].limits["nvidia.com/gpu"] = "4";
    }
  }
  CHECK(Only(JudgeGpuOf(mixed), kLimit, "worker-1").verdict == Verdict::kPass);
}

TEST_CASE(
    "claimed devices: a node without the resource is told whose DaemonSet and driver to look at") {
  Observations o = SampleObservations();
  for (Node& node : o.cluster.nodes.value()) {
    node.allocatable.erase("nvidia.com/gpu");
    node.allocatable.erase("vpc.amazonaws.com/efa");
  }
  const auto gpus = Of(JudgeGpuOf(o), "gpu-allocation/node-allocatable");
  const auto interfaces = Of(JudgeEfaOf(o), "fabric-ready/node-allocatable");
  REQUIRE_FALSE(gpus.empty());
  REQUIRE_FALSE(interfaces.empty());
  CHECK(gpus[0].verdict == Verdict::kFail);
  CHECK(gpus[0].hint.find("nvidia-device-plugin-daemonset") != std::string::npos);
  CHECK(gpus[0].hint.find("ResourceSlices") != std::string::npos);
  CHECK(interfaces[0].hint.find("aws-efa-k8s-device-plugin") != std::string::npos);
}

TEST_CASE("claimed devices: without claims the cluster is itself, slices or not") {
  Observations o = SampleObservations();
  o.cluster.dra = ByClaims().cluster.dra;
  const Policy policy = FourGpus();
  const ClaimedCluster same(o.cluster, policy);
  CHECK(&same.Facts() == &o.cluster);
}

}  // namespace
}  // namespace dlc
