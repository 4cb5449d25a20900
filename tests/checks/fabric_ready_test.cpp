#include <doctest/doctest.h>

#include <string>

#include "checks/check.h"
#include "tests/checks/cluster_facts.h"

namespace dlc {
namespace {

using testing::Of;
using testing::Only;
using testing::SampleObservations;

constexpr const char* kEfa = "vpc.amazonaws.com/efa";
constexpr const char* kGroup = "sample/gpu-workers";

std::vector<Finding> JudgeFabric(const Observations& o, const Policy& p = {}) {
  return FindCheck("fabric-ready")->judge(o, p);
}

RayGroup& Workers(Observations& o) {
  return o.cluster.ray_clusters.value()[0].workers[0];
}
ContainerSpec& WorkerContainer(Observations& o) {
  return Workers(o).pod.containers[0];
}

/// The RayCluster and the nodes, as HX-07 gives them: no pods yet.
Observations Planned() {
  Observations o = SampleObservations();
  o.cluster.pods = NotLookedAt{"files only", ""};
  return o;
}

void DropLimit(Observations& o) {
  WorkerContainer(o).limits.erase(kEfa);
  WorkerContainer(o).requests.erase(kEfa);
}

void SetType(Observations& o, const std::string& type, const char* efa, const char* gpus) {
  for (Node& node : o.cluster.nodes.value()) {
    if (node.name.starts_with("gpu-")) {
      node.instance_type = type;
      node.allocatable["nvidia.com/gpu"] = gpus;
      if (efa == nullptr) {
        node.allocatable.erase(kEfa);
      } else {
        node.allocatable[kEfa] = efa;
      }
    }
  }
}

Policy Required() {
  Policy p;
  p.fabric.efa = "required";
  return p;
}

TEST_CASE("fabric-ready: the sample passes every rule, and claims nothing of the transport") {
  for (const Observations& o : {SampleObservations(), Planned()}) {
    const auto findings = JudgeFabric(o, Required());
    CHECK(findings.size() >= 6);
    for (const Finding& finding : findings) {
      CAPTURE(finding.rule);
      CAPTURE(finding.subject.name);
      CAPTURE(finding.reason.message);
      // No rank looked into a pod.
      const bool of_ranks = finding.subject.name == "ranks";
      CHECK(finding.verdict == (of_ranks ? Verdict::kNotApplicable : Verdict::kPass));
    }
    const Finding limit = Only(findings, "fabric-ready/efa-limit", kGroup);
    CHECK(limit.does_not_establish.at(0).find("transport") != std::string::npos);
    CHECK(limit.notes.at(0).find("hugepages-2Mi") != std::string::npos);
  }
}

TEST_CASE("fabric-ready: EFA by environment only fails before anything runs (HX-07)") {
  Observations o = Planned();
  DropLimit(o);
  const auto findings = JudgeFabric(o);
  CHECK(Only(findings, "fabric-ready/efa-limit", kGroup).verdict == Verdict::kFail);
  CHECK(Only(findings, "fabric-ready/provider-by-env-only", kGroup).verdict == Verdict::kFail);
  CHECK(Aggregate(findings, false) == Outcome::kFailed);
}

TEST_CASE("fabric-ready: a request without a limit fails (HX-07)") {
  Observations o = Planned();
  WorkerContainer(o).limits.erase(kEfa);
  const auto findings = JudgeFabric(o);
  const Finding finding = Only(findings, "fabric-ready/limit-in-ray-container", kGroup);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.notes.at(0) == "there is a request of 1 without a limit");
  CHECK(Only(findings, "fabric-ready/efa-limit", kGroup).verdict == Verdict::kFail);
}

TEST_CASE("fabric-ready: an init container that holds the limit instead fails (HX-07)") {
  Observations o = Planned();
  DropLimit(o);
  ContainerSpec init;
  init.name = "warm-up";
  init.limits = {{kEfa, "1"}};
  Workers(o).pod.init_containers.push_back(init);
  const auto findings = JudgeFabric(o);
  const Finding finding = Only(findings, "fabric-ready/limit-in-ray-container", kGroup);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.notes.at(0) == "the limit is on init container 'warm-up' (1)");
  CHECK(Only(findings, "fabric-ready/efa-limit", kGroup).verdict == Verdict::kFail);
}

TEST_CASE("fabric-ready: a type without EFA is not applicable with a warning (HX-07)") {
  Observations o = Planned();
  DropLimit(o);
  SetType(o, "g6.4xlarge", nullptr, "4");
  const auto findings = JudgeFabric(o);
  CHECK(Only(findings, "fabric-ready/efa-limit", kGroup).verdict == Verdict::kNotApplicable);
  const Finding warning = Only(findings, "fabric-ready/type-has-efa", kGroup);
  CHECK(warning.verdict == Verdict::kFail);
  CHECK(warning.severity == Severity::kWarn);
  CHECK(Of(findings, "fabric-ready/provider-by-env-only").empty());
  CHECK(Aggregate(findings, false) == Outcome::kIncomplete);  // nothing was judged

  CHECK(Only(JudgeFabric(o, Required()), "fabric-ready/efa-limit", kGroup).verdict ==
        Verdict::kFail);
}

TEST_CASE("fabric-ready: one interface of 32 warns and names both numbers (HX-07)") {
  Observations o = Planned();
  SetType(o, "p5.48xlarge", "32", "8");
  WorkerContainer(o).limits["nvidia.com/gpu"] = "8";
  const auto findings = JudgeFabric(o);
  const Finding share = Only(findings, "fabric-ready/interface-share", kGroup);
  CHECK(share.verdict == Verdict::kFail);
  CHECK(share.severity == Severity::kWarn);
  CHECK(share.expected.find("32") != std::string::npos);
  CHECK(share.actual == "1");
  CHECK(Only(findings, "fabric-ready/efa-limit", kGroup).verdict == Verdict::kPass);

  WorkerContainer(o).limits["nvidia.com/gpu"] = "4";  // half the GPUs: half the interfaces
  WorkerContainer(o).limits[kEfa] = "16";
  CHECK(Only(JudgeFabric(o), "fabric-ready/interface-share", kGroup).verdict == Verdict::kPass);
  WorkerContainer(o).limits[kEfa] = "15";
  CHECK(Only(JudgeFabric(o), "fabric-ready/interface-share", kGroup).verdict == Verdict::kFail);
}

TEST_CASE("fabric-ready: the policy's number of interfaces is exact") {
  Policy p;
  p.fabric.interfaces_per_worker_pod = 1;
  CHECK(Only(JudgeFabric(Planned(), p), "fabric-ready/efa-limit", kGroup).verdict ==
        Verdict::kPass);
  p.fabric.interfaces_per_worker_pod = 2;
  CHECK(Only(JudgeFabric(Planned(), p), "fabric-ready/efa-limit", kGroup).verdict ==
        Verdict::kFail);
}

TEST_CASE("fabric-ready: an unknown instance type leaves a missing limit unknown, not failed") {
  Observations o = Planned();
  DropLimit(o);
  WorkerContainer(o).env.clear();
  SetType(o, "z9.huge", nullptr, "4");
  const Finding finding = Only(JudgeFabric(o), "fabric-ready/efa-limit", kGroup);
  CHECK(finding.verdict == Verdict::kUnknown);
  CHECK(finding.reason.message.find("z9.huge") != std::string::npos);

  SetType(o, "z9.huge", "2", "4");  // allocatable shows that it has EFA
  CHECK(Only(JudgeFabric(o), "fabric-ready/efa-limit", kGroup).verdict == Verdict::kFail);

  WorkerContainer(o).limits[kEfa] = "1";
  const auto findings = JudgeFabric(o);
  CHECK(Only(findings, "fabric-ready/efa-limit", kGroup).verdict == Verdict::kPass);
  CHECK(Only(findings, "fabric-ready/interface-share", kGroup).verdict == Verdict::kUnknown);
}

TEST_CASE("fabric-ready: without nodes the nodeSelector may still name the type") {
  Observations o = Planned();
  o.cluster.nodes = NotLookedAt{"files only", ""};
  DropLimit(o);
  WorkerContainer(o).env.clear();
  const auto unknown = JudgeFabric(o);
  CHECK(Only(unknown, "fabric-ready/efa-limit", kGroup).verdict == Verdict::kUnknown);
  CHECK(Only(unknown, "fabric-ready/one-zone").verdict == Verdict::kUnknown);
  Workers(o).pod.node_selector["node.kubernetes.io/instance-type"] = "p5.48xlarge";
  CHECK(Only(JudgeFabric(o), "fabric-ready/efa-limit", kGroup).verdict == Verdict::kFail);
}

TEST_CASE("fabric-ready: resource claims make an absent limit unknown") {
  Observations o = Planned();
  DropLimit(o);
  Workers(o).pod.resource_claims = {"efa"};
  const auto findings = JudgeFabric(o);
  const Finding finding = Only(findings, "fabric-ready/efa-limit", kGroup);
  CHECK(finding.verdict == Verdict::kUnknown);
  CHECK(finding.reason.message.find("efa") != std::string::npos);
  CHECK(Of(findings, "fabric-ready/provider-by-env-only").empty());
  CHECK(Aggregate(findings, false) == Outcome::kIncomplete);
}

TEST_CASE("fabric-ready: one worker pod has no traffic between nodes") {
  Observations o = Planned();
  Workers(o).replicas = Workers(o).min_replicas = 1;
  const auto findings = JudgeFabric(o, Required());
  const Finding finding = Only(findings, "fabric-ready/efa-limit");
  CHECK(finding.verdict == Verdict::kNotApplicable);
  CHECK(finding.reason.message.find("1 worker pods") != std::string::npos);
  Workers(o).replicas = Workers(o).max_replicas = 2;
  CHECK(Only(JudgeFabric(o, Required()), "fabric-ready/efa-limit").verdict == Verdict::kPass);
}

TEST_CASE("fabric-ready: a policy that asks for no EFA judges none of it") {
  Policy p;
  p.fabric.efa = "no";
  Observations o = Planned();
  DropLimit(o);
  const auto findings = JudgeFabric(o, p);
  CHECK(Only(findings, "fabric-ready/efa-limit").verdict == Verdict::kNotApplicable);
  CHECK(Of(findings, "fabric-ready/one-zone").empty());
}

TEST_CASE("fabric-ready: workers in two zones fail, nodes that might be are unknown") {
  Observations o = SampleObservations();
  o.cluster.nodes.value()[2].zone = "us-west-2b";
  const Finding running = Only(JudgeFabric(o), "fabric-ready/one-zone");
  CHECK(running.verdict == Verdict::kFail);
  CHECK(running.notes.at(0) == "worker nodes are in us-west-2a, us-west-2b");

  o.cluster.pods = NotLookedAt{"files only", ""};
  CHECK(Only(JudgeFabric(o), "fabric-ready/one-zone").verdict == Verdict::kUnknown);

  Observations unlabelled = SampleObservations();
  unlabelled.cluster.nodes.value()[2].zone = "";
  CHECK(Only(JudgeFabric(unlabelled), "fabric-ready/one-zone").verdict == Verdict::kUnknown);
}

TEST_CASE("fabric-ready: the head's zone does not matter") {
  const Observations o = SampleObservations();
  REQUIRE(o.cluster.nodes.value()[0].zone != o.cluster.nodes.value()[1].zone);
  CHECK(Only(JudgeFabric(o), "fabric-ready/one-zone").verdict == Verdict::kPass);
}

TEST_CASE("fabric-ready: nodes that may not be listed leave zones and interfaces unknown") {
  Observations o = SampleObservations();
  o.cluster.nodes = Error{ErrorCode::kPermissionDenied, "nodes is forbidden", "grant list nodes"};
  const auto findings = JudgeFabric(o);
  CHECK(Only(findings, "fabric-ready/one-zone").reason.code == "permission-denied");
  CHECK(Only(findings, "fabric-ready/node-allocatable").reason.code == "permission-denied");
  CHECK(Aggregate(findings, false) == Outcome::kIncomplete);
}

TEST_CASE("fabric-ready: nodes that offer too few interfaces fail, a wrong count only warns") {
  Observations o = SampleObservations();
  o.cluster.nodes.value()[1].allocatable[kEfa] = "0";
  const auto findings = JudgeFabric(o);
  CHECK(Only(findings, "fabric-ready/node-allocatable", "gpu-1").verdict == Verdict::kFail);
  CHECK(Only(findings, "fabric-ready/node-allocatable", "gpu-2").verdict == Verdict::kPass);

  Observations odd = SampleObservations();
  odd.cluster.nodes.value()[1].allocatable[kEfa] = "2";
  const Finding count = Only(JudgeFabric(odd), "fabric-ready/allocatable-matches-type", "gpu-1");
  CHECK(count.verdict == Verdict::kFail);
  CHECK(count.severity == Severity::kWarn);
}

TEST_CASE("fabric-ready: a hostPath on /dev/infiniband is a warning") {
  Observations o = Planned();
  Workers(o).pod.volumes = {{"fsx", "persistentVolumeClaim", "claim"},
                            {"ib", "hostPath", "/dev/infiniband/uverbs0"}};
  const Finding finding = Only(JudgeFabric(o), "fabric-ready/no-infiniband-hostpath", kGroup);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.severity == Severity::kWarn);
  CHECK(finding.actual == "ib (/dev/infiniband/uverbs0)");
}

TEST_CASE("fabric-ready: a running pod is judged for itself, beside its group") {
  Observations o = SampleObservations();
  o.cluster.pods.value()[2].spec.containers[0].limits.erase(kEfa);
  o.cluster.pods.value()[2].spec.containers[0].requests.erase(kEfa);
  const auto findings = JudgeFabric(o);
  CHECK(Only(findings, "fabric-ready/efa-limit", kGroup).verdict == Verdict::kPass);
  CHECK(Only(findings, "fabric-ready/efa-limit", "worker-1").verdict == Verdict::kPass);
  CHECK(Only(findings, "fabric-ready/efa-limit", "worker-2").verdict == Verdict::kFail);
}

TEST_CASE("fabric-ready: pods alone are judged with their nodes") {
  Observations o = SampleObservations();
  o.cluster.ray_clusters = NotLookedAt{"not asked for", ""};
  const auto findings = JudgeFabric(o);
  CHECK(Of(findings, "fabric-ready/interface-share").size() == 2);
  CHECK(Only(findings, "fabric-ready/one-zone").verdict == Verdict::kPass);
}

TEST_CASE("fabric-ready: nothing found and nothing seen are unknown, each with its reason") {
  Observations o;
  o.cluster.ray_clusters = std::vector<RayCluster>{};
  o.cluster.pods = std::vector<Pod>{};
  const auto empty = JudgeFabric(o, Required());
  CHECK(empty.at(0).reason.code == "not-found");
  CHECK(Aggregate(empty, false) == Outcome::kIncomplete);
  o.cluster.ray_clusters = Error{ErrorCode::kTimedOut, "no answer in 30 s", ""};
  CHECK(JudgeFabric(o, Required()).at(0).reason.code == "timeout");
}

}  // namespace
}  // namespace dlc
