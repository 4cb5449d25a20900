#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "checks/check.h"
#include "tests/checks/cluster_facts.h"

namespace dlc {
namespace {

using testing::Of;
using testing::Only;
using testing::SampleObservations;

std::vector<Finding> JudgeGpu(const Observations& o, const Policy& p = {}) {
  return FindCheck("gpu-allocation")->judge(o, p);
}

Policy SamplePolicy() {
  Policy p;
  p.gpu.per_worker_pod = 4;
  p.gpu.worker_pods = 2;
  p.gpu.total = 8;
  return p;
}

RayCluster& ClusterOf(Observations& o) {
  return o.cluster.ray_clusters.value()[0];
}
ContainerSpec& WorkerContainer(Observations& o) {
  return ClusterOf(o).workers[0].pod.containers[0];
}

int Count(const std::vector<Finding>& findings, Verdict verdict) {
  return static_cast<int>(std::count_if(findings.begin(), findings.end(),
                                        [&](const Finding& f) { return f.verdict == verdict; }));
}

TEST_CASE("gpu-allocation: the sample at its limits passes every rule") {
  const auto findings = JudgeGpu(SampleObservations(), SamplePolicy());
  for (const Finding& finding : findings) {
    CAPTURE(finding.rule);
    CAPTURE(finding.subject.name);
    CAPTURE(finding.reason.message);
    CHECK(finding.verdict == Verdict::kPass);
  }
  CHECK(Aggregate(findings, false) == Outcome::kPassed);
  CHECK(Of(findings, "gpu-allocation/limit-matches-policy").size() == 3);  // group and two pods
  CHECK(Of(findings, "gpu-allocation/ray-advertises-limit").size() == 3);  // one per pod
  CHECK(Of(findings, "gpu-allocation/node-allocatable").size() == 2);      // one per GPU node
}

TEST_CASE(
    "gpu-allocation: one GPU more than the policy's number fails, in the group and in a pod") {
  Observations o = SampleObservations();
  WorkerContainer(o).limits["nvidia.com/gpu"] = "5";
  o.cluster.pods.value()[2].spec.containers[0].limits["nvidia.com/gpu"] = "3";
  const auto findings = JudgeGpu(o, SamplePolicy());
  const Finding group = Only(findings, "gpu-allocation/limit-matches-policy", "sample/gpu-workers");
  CHECK(group.verdict == Verdict::kFail);
  CHECK(group.actual == "5");
  CHECK(Only(findings, "gpu-allocation/limit-matches-policy", "worker-1").verdict ==
        Verdict::kPass);
  CHECK(Only(findings, "gpu-allocation/limit-matches-policy", "worker-2").verdict ==
        Verdict::kFail);
}

TEST_CASE("gpu-allocation: a limit that is no number fails and is quoted") {
  Observations o = SampleObservations();
  WorkerContainer(o).limits["nvidia.com/gpu"] = "four";
  const Finding finding = Only(JudgeGpu(o, SamplePolicy()), "gpu-allocation/limit-matches-policy",
                               "sample/gpu-workers");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.actual == "four");
}

TEST_CASE("gpu-allocation: without a number in the policy the limit is not judged") {
  const auto findings = JudgeGpu(SampleObservations());
  const Finding finding =
      Only(findings, "gpu-allocation/limit-matches-policy", "sample/gpu-workers");
  CHECK(finding.verdict == Verdict::kNotApplicable);
  CHECK(finding.reason.message.find("4") != std::string::npos);
}

TEST_CASE("gpu-allocation: a request without a limit fails, as extended resources demand") {
  Observations o = SampleObservations();
  WorkerContainer(o).limits.erase("nvidia.com/gpu");
  const Finding finding =
      Only(JudgeGpu(o), "gpu-allocation/limit-in-ray-container", "sample/gpu-workers");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.notes.at(0) == "there is a request of 4 without a limit");
}

TEST_CASE("gpu-allocation: a request that differs from the limit fails") {
  Observations o = SampleObservations();
  WorkerContainer(o).requests["nvidia.com/gpu"] = "2";
  CHECK(Only(JudgeGpu(o), "gpu-allocation/limit-in-ray-container", "sample/gpu-workers").verdict ==
        Verdict::kFail);
}

TEST_CASE("gpu-allocation: a limit on a sidecar or an init container instead fails and is named") {
  for (const bool init : {false, true}) {
    CAPTURE(init);
    Observations o = SampleObservations();
    PodSpec& spec = ClusterOf(o).workers[0].pod;
    ContainerSpec other;
    other.name = "prepare";
    other.limits = {{"nvidia.com/gpu", "4"}};
    spec.containers[0].limits.erase("nvidia.com/gpu");
    spec.containers[0].requests.erase("nvidia.com/gpu");
    (init ? spec.init_containers : spec.containers).push_back(other);
    const Finding finding =
        Only(JudgeGpu(o), "gpu-allocation/limit-in-ray-container", "sample/gpu-workers");
    CHECK(finding.verdict == Verdict::kFail);
    CHECK(finding.notes.at(0).find("prepare") != std::string::npos);
  }
}

TEST_CASE("gpu-allocation: num-gpus of the worker group equals the limit, is derived, or fails") {
  struct Row {
    const char* name;
    const char* flag;  // nullptr: not set
    const char* limit;
    Verdict verdict;
  };
  const Row rows[] = {
      {"equal", "4", "4", Verdict::kPass},
      {"more than the limit", "8", "4", Verdict::kFail},
      {"less than the limit", "2", "4", Verdict::kFail},
      {"no number", "all", "4", Verdict::kFail},
      {"not set: KubeRay takes the limit", nullptr, "4", Verdict::kPass},
      {"not set, no limit", nullptr, nullptr, Verdict::kNotApplicable},
      {"set without limit", "4", nullptr, Verdict::kFail},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    Observations o = SampleObservations();
    RayGroup& group = ClusterOf(o).workers[0];
    group.ray_start_params.clear();
    if (row.flag != nullptr) {
      group.ray_start_params["num-gpus"] = row.flag;
    }
    if (row.limit == nullptr) {
      WorkerContainer(o).limits.erase("nvidia.com/gpu");
    } else {
      WorkerContainer(o).limits["nvidia.com/gpu"] = row.limit;
    }
    CHECK(
        Only(JudgeGpu(o), "gpu-allocation/ray-flag-matches-limit", "sample/gpu-workers").verdict ==
        row.verdict);
  }
}

TEST_CASE(
    "gpu-allocation: without num-gpus KubeRay takes the first GPU key, whatever the policy's") {
  Observations o = SampleObservations();
  ClusterOf(o).workers[0].ray_start_params.clear();
  WorkerContainer(o).limits["example.com/gpu"] = "1";  // sorts before nvidia.com/gpu
  const Finding finding =
      Only(JudgeGpu(o), "gpu-allocation/ray-flag-matches-limit", "sample/gpu-workers");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.notes.at(0).find("example.com/gpu") != std::string::npos);
}

TEST_CASE("gpu-allocation: a head without limit and without num-gpus is a warning before it runs") {
  Observations o = SampleObservations();
  ClusterOf(o).head.ray_start_params.clear();
  const Finding finding = Only(JudgeGpu(o), "gpu-allocation/ray-flag-stated", "sample/headgroup");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.severity == Severity::kWarn);
}

TEST_CASE("gpu-allocation: Ray advertising more on the head than its pod was given fails (HX-05)") {
  Observations o = SampleObservations();
  o.ray.nodes.value()[0].resources["GPU"] = 8;
  const auto findings = JudgeGpu(o, SamplePolicy());
  const Finding head = Only(findings, "gpu-allocation/ray-advertises-limit", "head-0");
  CHECK(head.verdict == Verdict::kFail);
  CHECK(head.actual == "8");
  CHECK(head.hint.find("NVIDIA_VISIBLE_DEVICES=void") != std::string::npos);
  CHECK(Only(findings, "gpu-allocation/ray-advertises-limit", "worker-1").verdict ==
        Verdict::kPass);
  CHECK(FirstBlocker(findings) != nullptr);
}

TEST_CASE("gpu-allocation: totals that agree do not hide two wrong nodes") {
  Observations o = SampleObservations();
  o.ray.nodes.value()[1].resources["GPU"] = 8;
  o.ray.nodes.value()[2].resources["GPU"] = 0;
  const auto findings = JudgeGpu(o, SamplePolicy());
  CHECK(Only(findings, "gpu-allocation/ray-advertises-limit", "worker-1").verdict ==
        Verdict::kFail);
  CHECK(Only(findings, "gpu-allocation/ray-advertises-limit", "worker-2").verdict ==
        Verdict::kFail);
}

TEST_CASE("gpu-allocation: half a GPU in Ray's table is told as it is") {
  Observations o = SampleObservations();
  o.ray.nodes.value()[1].resources["GPU"] = 3.5;
  const Finding finding = Only(JudgeGpu(o), "gpu-allocation/ray-advertises-limit", "worker-1");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.actual == "3.5");
}

TEST_CASE("gpu-allocation: a running worker whose Ray never joined fails") {
  Observations o = SampleObservations();
  o.ray.nodes.value()[2].alive = false;  // DEAD nodes stay listed
  const Finding finding = Only(JudgeGpu(o), "gpu-allocation/ray-advertises-limit", "worker-2");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.expected.find("10.0.0.3") != std::string::npos);
}

TEST_CASE("gpu-allocation: a Ray node that no pod accounts for is unknown") {
  Observations o = SampleObservations();
  o.ray.nodes.value().push_back(testing::RayNodeAt("10.9.9.9", false, 4));
  const Finding finding =
      Only(JudgeGpu(o), "gpu-allocation/ray-advertises-limit", "ray node 10.9.9.9");
  CHECK(finding.verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-allocation: two Ray nodes behind one host address cannot be told apart") {
  Observations o = SampleObservations();
  for (std::size_t i = 1; i < 3; ++i) {
    o.cluster.pods.value()[i].pod_ip = "10.0.0.2";
    o.ray.nodes.value()[i].node_ip = "10.0.0.2";
  }
  const auto findings = JudgeGpu(o);
  CHECK(Only(findings, "gpu-allocation/ray-advertises-limit", "worker-1").verdict ==
        Verdict::kUnknown);
}

TEST_CASE("gpu-allocation: head and worker behind one host address are told apart by role") {
  Observations o = SampleObservations();
  o.cluster.pods.value()[0].pod_ip = "10.0.0.2";
  o.ray.nodes.value()[0].node_ip = "10.0.0.2";
  const auto findings = JudgeGpu(o);
  CHECK(Only(findings, "gpu-allocation/ray-advertises-limit", "head-0").verdict == Verdict::kPass);
  CHECK(Only(findings, "gpu-allocation/ray-advertises-limit", "worker-1").verdict ==
        Verdict::kPass);
}

TEST_CASE("gpu-allocation: without pods the Ray nodes are held against their groups") {
  Observations o = SampleObservations();
  o.cluster.pods = NotLookedAt{"files only", ""};
  o.ray.nodes.value()[0].resources["GPU"] = 8;
  const auto findings = JudgeGpu(o, SamplePolicy());
  CHECK(Only(findings, "gpu-allocation/ray-advertises-limit", "ray node 10.0.0.1").verdict ==
        Verdict::kFail);
  CHECK(Only(findings, "gpu-allocation/ray-advertises-limit", "ray node 10.0.0.2").verdict ==
        Verdict::kPass);
  CHECK(Only(findings, "gpu-allocation/ray-advertises-limit", "sample").verdict == Verdict::kPass);

  o.ray.nodes.value().pop_back();
  CHECK(Only(JudgeGpu(o), "gpu-allocation/ray-advertises-limit", "sample").verdict ==
        Verdict::kFail);
}

TEST_CASE("gpu-allocation: without pods, unlike groups leave a Ray worker unknown") {
  Observations o = SampleObservations();
  o.cluster.pods = NotLookedAt{"files only", ""};
  RayGroup small = ClusterOf(o).workers[0];
  small.name = "small";
  small.pod.containers[0].limits["nvidia.com/gpu"] = "1";
  ClusterOf(o).workers.push_back(small);
  CHECK(Only(JudgeGpu(o), "gpu-allocation/ray-advertises-limit", "ray node 10.0.0.2").verdict ==
        Verdict::kUnknown);
}

TEST_CASE("gpu-allocation: each thing that was not seen is unknown, with its reason") {
  struct Row {
    const char* name;
    void (*hide)(Observations&);
    const char* rule;
    const char* code;
  };
  const Error forbidden{ErrorCode::kPermissionDenied, "nodes is forbidden", "grant list nodes"};
  static const Error kForbidden = forbidden;
  const Row rows[] = {
      {"Ray's nodes not looked at",
       [](Observations& o) {
         o.ray.nodes = NotLookedAt{"no dashboard", ""};
       },
       "gpu-allocation/ray-advertises-limit", "not-looked-at"},
      {"Ray's nodes failed", [](Observations& o) { o.ray.nodes = kForbidden; },
       "gpu-allocation/ray-advertises-limit", "permission-denied"},
      {"Ray lists nothing", [](Observations& o) { o.ray.nodes = std::vector<RayNode>{}; },
       "gpu-allocation/ray-advertises-limit", "not-found"},
      {"nodes not looked at",
       [](Observations& o) {
         o.cluster.nodes = NotLookedAt{"no", ""};
       },
       "gpu-allocation/node-allocatable", "not-looked-at"},
      {"nodes failed", [](Observations& o) { o.cluster.nodes = kForbidden; },
       "gpu-allocation/node-allocatable", "permission-denied"},
      {"pods not looked at",
       [](Observations& o) {
         o.cluster.pods = NotLookedAt{"no", ""};
       },
       "gpu-allocation/worker-pods-running", "not-looked-at"},
      {"pods failed", [](Observations& o) { o.cluster.pods = kForbidden; },
       "gpu-allocation/worker-pods-running", "permission-denied"},
      {"RayCluster not looked at",
       [](Observations& o) {
         o.cluster.ray_clusters = NotLookedAt{"no", ""};
       },
       "gpu-allocation/worker-pods-asked", "not-looked-at"},
      {"RayCluster failed", [](Observations& o) { o.cluster.ray_clusters = kForbidden; },
       "gpu-allocation/worker-pods-asked", "permission-denied"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    Observations o = SampleObservations();
    row.hide(o);
    const auto findings = JudgeGpu(o, SamplePolicy());
    const Finding finding = Only(findings, row.rule);
    CHECK(finding.verdict == Verdict::kUnknown);
    CHECK(finding.reason.code == row.code);
    CHECK(Aggregate(findings, false) == Outcome::kIncomplete);
  }
}

TEST_CASE("gpu-allocation: an empty cluster is not a pass") {
  Observations o;
  o.cluster.ray_clusters = std::vector<RayCluster>{};
  o.cluster.pods = std::vector<Pod>{};
  o.cluster.nodes = std::vector<Node>{};
  o.ray.nodes = std::vector<RayNode>{};
  const auto findings = JudgeGpu(o, SamplePolicy());
  CHECK(Count(findings, Verdict::kPass) == 0);
  CHECK(Aggregate(findings, false) == Outcome::kIncomplete);
  CHECK(findings.at(0).reason.code == "not-found");

  o.cluster.pods = Error{ErrorCode::kPermissionDenied, "pods is forbidden", ""};
  CHECK(JudgeGpu(o).at(0).reason.code == "permission-denied");
}

TEST_CASE("gpu-allocation: pods alone are judged, and the missing RayCluster is told") {
  Observations o = SampleObservations();
  o.cluster.ray_clusters = NotLookedAt{"not asked for", ""};
  const auto findings = JudgeGpu(o, SamplePolicy());
  CHECK(Of(findings, "gpu-allocation/limit-matches-policy").size() == 2);
  CHECK(Only(findings, "gpu-allocation/ray-flag-matches-limit").verdict == Verdict::kUnknown);
  CHECK(Only(findings, "gpu-allocation/worker-pods-running").verdict == Verdict::kPass);
  o.cluster.pods.value().erase(o.cluster.pods.value().begin());
  CHECK(Only(JudgeGpu(o), "gpu-allocation/head-has-no-gpu").verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-allocation: a limit of the head that is no whole number is not none") {
  for (const char* text : {"500m", "one"}) {
    CAPTURE(text);
    Observations o = SampleObservations();
    ClusterOf(o).head.pod.containers[0].limits["nvidia.com/gpu"] = text;
    const Finding finding = Only(JudgeGpu(o), "gpu-allocation/head-has-no-gpu", "sample/headgroup");
    CHECK(finding.verdict == Verdict::kFail);
    CHECK(finding.actual == text);
  }
}

TEST_CASE("gpu-allocation: a GPU on the head fails, an open head warns") {
  Observations o = SampleObservations();
  ClusterOf(o).head.pod.containers[0].limits["nvidia.com/gpu"] = "1";
  CHECK(Only(JudgeGpu(o), "gpu-allocation/head-has-no-gpu", "sample/headgroup").verdict ==
        Verdict::kFail);

  struct Row {
    EnvVar variable;
    Verdict verdict;
  };
  const Row rows[] = {{{"NVIDIA_VISIBLE_DEVICES", "void", ""}, Verdict::kPass},
                      {{"NVIDIA_VISIBLE_DEVICES", "none", ""}, Verdict::kPass},
                      {{"NVIDIA_VISIBLE_DEVICES", "all", ""}, Verdict::kFail},
                      {{"NVIDIA_VISIBLE_DEVICES", "", "configMapKeyRef"}, Verdict::kUnknown},
                      {{"OTHER", "void", ""}, Verdict::kFail}};
  for (const Row& row : rows) {
    Observations open = SampleObservations();
    ClusterOf(open).head.pod.containers[0].env = {row.variable};
    const Finding finding =
        Only(JudgeGpu(open), "gpu-allocation/head-visibility", "sample/headgroup");
    CHECK(finding.verdict == row.verdict);
    CHECK(finding.severity == Severity::kWarn);
  }
}

TEST_CASE("gpu-allocation: worker pods are counted as KubeRay counts them") {
  struct Row {
    const char* name;
    int replicas, min, max, hosts;
    std::int64_t pods;
  };
  const Row rows[] = {{"plain", 2, 0, 9, 1, 2},
                      {"several hosts", 2, 0, 9, 2, 4},
                      {"below min", 0, 2, 9, 1, 2},
                      {"above max", 5, 0, 3, 1, 3},
                      {"min above max: max wins", 1, 4, 3, 1, 3}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    Observations o = SampleObservations();
    RayGroup& group = ClusterOf(o).workers[0];
    group.replicas = row.replicas;
    group.min_replicas = row.min;
    group.max_replicas = row.max;
    group.hosts_per_replica = row.hosts;
    const Finding finding = Only(JudgeGpu(o), "gpu-allocation/worker-pods-asked");
    CHECK(std::get<std::int64_t>(finding.assertions.at(0).observed) == row.pods);
  }
}

TEST_CASE("gpu-allocation: fewer pods than wanted fail, suspension is named") {
  Observations o = SampleObservations();
  Policy p = SamplePolicy();
  p.gpu.worker_pods = 3;
  CHECK(Only(JudgeGpu(o, p), "gpu-allocation/worker-pods-asked").verdict == Verdict::kFail);
  CHECK(Only(JudgeGpu(o, p), "gpu-allocation/worker-pods-running").verdict == Verdict::kFail);

  ClusterOf(o).workers[0].suspended = true;
  const Finding group = Only(JudgeGpu(o), "gpu-allocation/worker-pods-asked");
  CHECK(group.verdict == Verdict::kFail);
  CHECK(group.notes.at(0).find("gpu-workers") != std::string::npos);

  Observations whole = SampleObservations();
  ClusterOf(whole).suspended = true;
  CHECK(Only(JudgeGpu(whole), "gpu-allocation/worker-pods-asked").verdict == Verdict::kFail);
}

TEST_CASE("gpu-allocation: a pod that crashes, waits, ends or goes away does not run") {
  struct Row {
    const char* name;
    void (*bend)(Pod&);
  };
  const Row rows[] = {
      {"pending", [](Pod& pod) { pod.phase = "Pending"; }},
      {"crash loop",
       [](Pod& pod) {
         pod.statuses[0].state = "waiting";
         pod.statuses[0].reason = "CrashLoopBackOff";
       }},
      {"failed", [](Pod& pod) { pod.phase = "Failed"; }},
      {"being deleted", [](Pod& pod) { pod.deleting = true; }},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    Observations o = SampleObservations();
    row.bend(o.cluster.pods.value()[2]);
    const auto findings = JudgeGpu(o, SamplePolicy());
    CHECK(Only(findings, "gpu-allocation/worker-pods-running").verdict == Verdict::kFail);
    CHECK(Only(findings, "gpu-allocation/worker-total").verdict == Verdict::kFail);
  }
  Observations o = SampleObservations();
  rows[1].bend(o.cluster.pods.value()[2]);
  CHECK(Only(JudgeGpu(o), "gpu-allocation/worker-pods-running").notes.at(0) ==
        "worker-2: CrashLoopBackOff");
}

TEST_CASE("gpu-allocation: clean-up pods with the cluster's label are no Ray nodes") {
  Observations o = SampleObservations();
  Pod cleanup = testing::RayPod("redis-cleanup", "redis-cleanup", "gpu-1", "10.0.0.9");
  o.cluster.pods.value().push_back(cleanup);
  CHECK(JudgeGpu(o).size() == JudgeGpu(SampleObservations()).size());
}

TEST_CASE("gpu-allocation: the total is the policy's exactly, or at least the workload's") {
  Observations o = SampleObservations();
  Policy p;
  p.gpu.total = 7;
  CHECK(Only(JudgeGpu(o, p), "gpu-allocation/worker-total").verdict == Verdict::kFail);
  o.run.workload.workers = 8;
  CHECK(Only(JudgeGpu(o), "gpu-allocation/worker-total").verdict == Verdict::kPass);
  o.run.workload.workers = 9;
  CHECK(Only(JudgeGpu(o), "gpu-allocation/worker-total").verdict == Verdict::kFail);
  o.run.workload.workers = 4;
  o.run.workload.gpus_per_worker = 2;
  CHECK(Only(JudgeGpu(o), "gpu-allocation/worker-total").verdict == Verdict::kPass);
}

TEST_CASE("gpu-allocation: workers without any GPU are no pass even if nothing was demanded") {
  Observations o = SampleObservations();
  for (Pod& pod : o.cluster.pods.value()) {
    pod.spec.containers[0].limits.erase("nvidia.com/gpu");
  }
  WorkerContainer(o).limits.erase("nvidia.com/gpu");
  CHECK(Only(JudgeGpu(o), "gpu-allocation/worker-total").verdict == Verdict::kFail);
}

TEST_CASE("gpu-allocation: node allocatable covers the pods, is too small, zero or missing") {
  struct Row {
    const char* name;
    const char* allocatable;  // nullptr: the key is missing
    Verdict verdict;
    const char* hint;
  };
  const Row rows[] = {{"exactly", "4", Verdict::kPass, ""},
                      {"one less", "3", Verdict::kFail, "kubectl describe node"},
                      {"zero", "0", Verdict::kFail, "offers no nvidia.com/gpu"},
                      {"missing", nullptr, Verdict::kFail, "has registered nvidia.com/gpu"}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    Observations o = SampleObservations();
    auto& allocatable = o.cluster.nodes.value()[1].allocatable;
    if (row.allocatable == nullptr) {
      allocatable.erase("nvidia.com/gpu");
    } else {
      allocatable["nvidia.com/gpu"] = row.allocatable;
    }
    const Finding finding = Only(JudgeGpu(o), "gpu-allocation/node-allocatable", "gpu-1");
    CHECK(finding.verdict == row.verdict);
    CHECK(finding.hint.find(row.hint) != std::string::npos);
  }
}

TEST_CASE("gpu-allocation: two pods on one node are added up") {
  Observations o = SampleObservations();
  o.cluster.pods.value()[2].node = "gpu-1";
  const auto findings = Of(JudgeGpu(o), "gpu-allocation/node-allocatable");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].verdict == Verdict::kFail);
  CHECK(findings[0].expected.find("8") != std::string::npos);
}

TEST_CASE("gpu-allocation: a pod on a node that the list lacks is unknown") {
  Observations o = SampleObservations();
  o.cluster.nodes.value().pop_back();
  CHECK(Only(JudgeGpu(o), "gpu-allocation/node-allocatable", "gpu-2").verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-allocation: before pods exist the fitting nodes must hold the group") {
  Observations o = SampleObservations();
  o.cluster.pods = NotLookedAt{"files only", ""};
  CHECK(Only(JudgeGpu(o), "gpu-allocation/node-allocatable", "sample/gpu-workers").verdict ==
        Verdict::kPass);
  o.cluster.nodes.value()[2].taints = {{"nvidia.com/gpu", "true", "NoSchedule"}};
  CHECK(Only(JudgeGpu(o), "gpu-allocation/node-allocatable", "sample/gpu-workers").verdict ==
        Verdict::kFail);
  ClusterOf(o).workers[0].pod.tolerations = {{"nvidia.com/gpu", "Exists", "", ""}};
  CHECK(Only(JudgeGpu(o), "gpu-allocation/node-allocatable", "sample/gpu-workers").verdict ==
        Verdict::kPass);
}

/// The RayCluster and the nodes, before any pod exists.
Observations Planned() {
  Observations o = SampleObservations();
  o.cluster.pods = NotLookedAt{"files only", ""};
  return o;
}

TEST_CASE("gpu-allocation: a group that no node fits fails, and says which nodes drop out why") {
  struct Row {
    const char* name;
    void (*bend)(Observations&);
    const char* message;
  };
  const Row rows[] = {
      {"nodeSelector",
       [](Observations& o) {
         ClusterOf(o).workers[0].pod.node_selector = {{"role", "gpu"}};
       },
       "none of 3 nodes: 3 without label role=gpu"},
      {"taint",
       [](Observations& o) {
         for (Node& node : o.cluster.nodes.value()) {
           node.taints = {{"aws.amazon.com/efa", "true", "NoSchedule"}};
         }
       },
       "none of 3 nodes: 1 without label role=gpu-worker, 2 with a taint that is not tolerated "
       "(aws.amazon.com/efa=true:NoSchedule)"},
      {"cordoned and not ready",
       [](Observations& o) {
         o.cluster.nodes.value()[1].unschedulable = true;
         o.cluster.nodes.value()[2].ready = false;
       },
       "none of 3 nodes: 1 without label role=gpu-worker, 2 not ready or cordoned"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    Observations o = Planned();
    row.bend(o);
    const Finding finding =
        Only(JudgeGpu(o), "gpu-allocation/workers-schedulable", "sample/gpu-workers");
    CHECK(finding.verdict == Verdict::kFail);
    CHECK(finding.reason.message == row.message);
  }
}

TEST_CASE("gpu-allocation: tolerations are matched as the scheduler does") {
  struct Row {
    Toleration toleration;
    Verdict verdict;
  };
  const Row rows[] = {
      {{"aws.amazon.com/efa", "Equal", "true", "NoSchedule"}, Verdict::kPass},
      {{"aws.amazon.com/efa", "", "true", ""}, Verdict::kPass},
      {{"aws.amazon.com/efa", "Exists", "", ""}, Verdict::kPass},
      {{"", "Exists", "", ""}, Verdict::kPass},
      {{"aws.amazon.com/efa", "Equal", "false", "NoSchedule"}, Verdict::kFail},
      {{"aws.amazon.com/efa", "Exists", "", "NoExecute"}, Verdict::kFail},
      {{"nvidia.com/gpu", "Exists", "", ""}, Verdict::kFail},
  };
  for (const Row& row : rows) {
    CAPTURE(row.toleration.key);
    CAPTURE(row.toleration.op);
    Observations o = Planned();
    for (Node& node : o.cluster.nodes.value()) {
      node.taints = {{"aws.amazon.com/efa", "true", "NoSchedule"},
                     {"soft", "", "PreferNoSchedule"}};
    }
    ClusterOf(o).workers[0].pod.tolerations = {row.toleration};
    CHECK(Only(JudgeGpu(o), "gpu-allocation/workers-schedulable", "sample/gpu-workers").verdict ==
          row.verdict);
  }
}

TEST_CASE("gpu-allocation: pods on nodes prove that they could be scheduled, whatever was seen") {
  Observations o = SampleObservations();
  o.cluster.nodes = Error{ErrorCode::kPermissionDenied, "nodes is forbidden", "grant list nodes"};
  CHECK(Only(JudgeGpu(o), "gpu-allocation/workers-schedulable").verdict == Verdict::kPass);
  o.cluster.pods.value()[2].node = "";
  CHECK(Only(JudgeGpu(o), "gpu-allocation/workers-schedulable").verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-allocation: without the RayCluster a waiting pod speaks for its group") {
  Observations o = SampleObservations();
  o.cluster.ray_clusters = NotLookedAt{"not asked for", ""};
  o.cluster.pods.value()[2].node = "";
  const auto findings = JudgeGpu(o);
  CHECK(Only(findings, "gpu-allocation/workers-schedulable", "sample").verdict == Verdict::kPass);
  CHECK(Only(findings, "gpu-allocation/workers-schedulable", "worker-2").verdict == Verdict::kPass);
  o.cluster.nodes.value().resize(1);
  CHECK(Only(JudgeGpu(o), "gpu-allocation/workers-schedulable", "worker-2").verdict ==
        Verdict::kFail);
}

TEST_CASE("gpu-allocation: settings that open every GPU of the node are a warning") {
  Observations o = SampleObservations();
  WorkerContainer(o).privileged = true;
  WorkerContainer(o).env.push_back({"NVIDIA_VISIBLE_DEVICES", "all", ""});
  const Finding finding = Only(JudgeGpu(o), "gpu-allocation/visible-devices", "sample/gpu-workers");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.severity == Severity::kWarn);
  CHECK(finding.actual == "ray-worker: privileged, ray-worker: NVIDIA_VISIBLE_DEVICES=all");
}

TEST_CASE("gpu-allocation: MIG slices are counted and told") {
  Observations o = SampleObservations();
  auto& limits = WorkerContainer(o).limits;
  limits.erase("nvidia.com/gpu");
  limits["nvidia.com/mig-1g.10gb"] = "3";
  ClusterOf(o).workers[0].ray_start_params["num-gpus"] = "3";
  const auto findings = JudgeGpu(o, SamplePolicy());
  const Finding mig = Only(findings, "gpu-allocation/whole-gpus", "sample/gpu-workers");
  CHECK(mig.verdict == Verdict::kFail);
  CHECK(mig.severity == Severity::kWarn);
  CHECK(mig.actual == "3");
  CHECK(Only(findings, "gpu-allocation/ray-flag-matches-limit", "sample/gpu-workers").verdict ==
        Verdict::kPass);
  CHECK(Only(findings, "gpu-allocation/limit-matches-policy", "sample/gpu-workers").verdict ==
        Verdict::kFail);
}

TEST_CASE("gpu-allocation: an autoscaler that may remove wanted workers is a warning") {
  Observations o = SampleObservations();
  CHECK(Of(JudgeGpu(o), "gpu-allocation/workers-stay").empty());
  ClusterOf(o).autoscaling = true;
  CHECK(Only(JudgeGpu(o, SamplePolicy()), "gpu-allocation/workers-stay").verdict == Verdict::kPass);
  ClusterOf(o).workers[0].min_replicas = 1;
  const Finding finding = Only(JudgeGpu(o, SamplePolicy()), "gpu-allocation/workers-stay");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.severity == Severity::kWarn);
}

TEST_CASE("gpu-allocation: pods of a RayCluster that no manifest describes are not mixed in") {
  Observations o = SampleObservations();
  for (Pod& pod : o.cluster.pods.value()) {
    pod.ray_cluster = "other";
  }
  const auto findings = JudgeGpu(o, SamplePolicy());
  CHECK(Only(findings, "gpu-allocation/worker-pods-running", "sample").verdict == Verdict::kFail);
  CHECK(Only(findings, "gpu-allocation/worker-pods-asked", "other").verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-allocation: names carry the namespace when the facts span several") {
  Observations o = SampleObservations();
  RayCluster second = testing::SampleCluster();
  second.name_space = "elsewhere";
  o.cluster.ray_clusters.value().push_back(second);
  const auto findings = JudgeGpu(o);
  CHECK(Of(findings, "gpu-allocation/worker-pods-asked", "ray-train/sample").size() == 1);
  CHECK(Of(findings, "gpu-allocation/worker-pods-asked", "elsewhere/sample").size() == 1);
}

TEST_CASE("gpu-allocation: ten thousand pods on a thousand nodes are all judged") {
  Observations o = SampleObservations();
  auto& pods = o.cluster.pods.value();
  auto& nodes = o.cluster.nodes.value();
  auto& ray = o.ray.nodes.value();
  pods.resize(1);
  ray.resize(1);
  for (int i = 0; i < 10'000; ++i) {
    const std::string ip = "10.1." + std::to_string(i / 250) + "." + std::to_string(i % 250);
    pods.push_back(
        testing::RayPod("w" + std::to_string(i), "worker", "n" + std::to_string(i % 1000), ip));
    ray.push_back(testing::RayNodeAt(ip, false, 4));
  }
  for (int i = 0; i < 1000; ++i) {
    nodes.push_back(testing::GpuNode("n" + std::to_string(i)));
  }
  const auto gpu = JudgeGpu(o, SamplePolicy());
  const auto fabric = FindCheck("fabric-ready")->judge(o, {});
  CHECK(gpu.size() > 30'000);
  CHECK(fabric.size() > 20'000);
}

}  // namespace
}  // namespace dlc
