#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/checks/image_fixture.h"

namespace dlc {
namespace {

using namespace fixture;  // NOLINT(google-build-using-namespace): the test's own vocabulary

const std::string kSpec = "ray-version/spec-matches-image";
const std::string kOne = "ray-version/one-running-version";
const std::string kExpected = "ray-version/running-matches-expected";
const std::string kPython = "ray-version/python-matches-expected";
const std::string kAlive = "ray-version/ray-nodes-alive";

std::vector<Finding> Judged(const Observations& o, const Policy& p = {}) {
  auto findings = JudgeWith("ray-version", o, p);
  CheckShape(findings);
  return findings;
}

/// One head and two workers that all answer Ray 2.58.0 and Python 3.13.2.
Observations Healthy() {
  Observations o;
  o.served_image = MakeIndex();
  std::vector<Pod> pods;
  std::vector<PodVersions> versions;
  std::vector<RayNode> nodes;
  for (const char* name : {"1", "2", "3"}) {
    pods.push_back(MakePod(name, pods.empty() ? "head" : "worker", RepoId(Of('a'))));
    PodVersions one;
    one.pod = name;
    one.ray = "2.58.0";
    one.python = "3.13.2";
    versions.push_back(one);
    RayNode node;
    node.node_ip = pods.back().pod_ip;
    node.alive = true;
    nodes.push_back(node);
  }
  RayCluster cluster;
  cluster.name_space = "ray-train";
  cluster.name = "ray-train-cluster";
  cluster.ray_version = "2.58.0";
  cluster.source = {"raycluster.yaml", 1};
  o.cluster.pods = pods;
  o.cluster.ray_clusters = std::vector<RayCluster>{cluster};
  o.ray.version = RayVersionAnswer{"2.58.0", "abc", "4", "session"};
  o.ray.pod_versions = versions;
  o.ray.nodes = nodes;
  return o;
}

TEST_CASE("ray-version: equal versions pass, and version 4 of the Jobs API is not Ray's") {
  Policy p;
  p.ray.python = "3.13";
  for (const Finding& finding : Judged(Healthy(), p)) {
    CAPTURE(finding.rule);
    CHECK(finding.verdict == Verdict::kPass);
  }
}

TEST_CASE("ray-version: spec.rayVersion one minor below is a warning with both versions (HX-03)") {
  Observations o = Healthy();
  o.cluster.ray_clusters.value()[0].ray_version = "2.57.0";
  const auto f = Judged(o);
  const Finding spec = Only(f, kSpec);
  CHECK(spec.verdict == Verdict::kFail);
  CHECK(spec.severity == Severity::kWarn);
  CHECK(Has(spec.expected, "2.58.0"));
  CHECK(Has(spec.actual, "2.57.0"));
  CHECK(Notes(spec, "raycluster.yaml line 1"));
  CHECK(spec.reason.message ==
        "spec.rayVersion says 2.57.0; Ray 2.58.0 runs, the image's label says 2.58.0");
  CHECK(Only(f, kOne).verdict == Verdict::kPass);
  CHECK(Aggregate(f, false) == Outcome::kPassed);
}

TEST_CASE("ray-version: an absent rayVersion is no complaint (HX-03)") {
  Observations o = Healthy();
  o.cluster.ray_clusters.value()[0].ray_version = "";
  CHECK(Only(Judged(o), kSpec).verdict == Verdict::kNotApplicable);
}

TEST_CASE("ray-version: one worker with another Ray fails and is named (HX-03)") {
  Observations o = Healthy();
  o.ray.pod_versions.value()[2].ray = "2.57.0";
  const auto f = Judged(o);
  CHECK(Only(f, kOne).verdict == Verdict::kFail);
  CHECK(Only(f, kOne).severity == Severity::kRequired);
  CHECK(Notes(Only(f, kOne), "Ray 2.57.0 on 1 pod: 3"));
  CHECK(Only(f, kExpected).verdict == Verdict::kFail);
}

TEST_CASE("ray-version: a Python that differs in the patch level fails (HX-03, B-02)") {
  Observations o = Healthy();
  o.ray.pod_versions.value()[2].python = "3.13.3";
  const auto f = Judged(o);
  CHECK(Only(f, kOne).verdict == Verdict::kFail);
  CHECK(Notes(Only(f, kOne), "Python 3.13.3 on 1 pod: 3"));
  CHECK(Only(f, kExpected).verdict == Verdict::kPass);
}

TEST_CASE("ray-version: the dashboard's ray_version must agree with the pods") {
  Observations o = Healthy();
  o.ray.version.value().ray_version = "2.57.0";
  const auto f = Judged(o);
  CHECK(Only(f, kOne).verdict == Verdict::kFail);
  CHECK(Only(f, kExpected).verdict == Verdict::kFail);
}

TEST_CASE("ray-version: runtime answers that are missing are unknown") {
  Observations o = Healthy();
  o.ray.version = Error{ErrorCode::kPermissionDenied, "401 from the dashboard", "set the token"};
  auto f = Judged(o);
  CHECK(Only(f, kOne).reason.code == "permission-denied");
  CHECK(Only(f, kExpected).reason.code == "permission-denied");
  CHECK(Only(f, kOne).hint == "set the token");
  // Without the dashboard the pods still tell what spec.rayVersion should be.
  o.served_image = Observed<ServedImage>();
  CHECK(Only(Judged(o), kSpec).verdict == Verdict::kPass);
  CHECK_FALSE(Notes(Only(Judged(o), kSpec), "was not seen"));

  o = Healthy();
  o.ray.pod_versions = Observed<std::vector<PodVersions>>();
  f = Judged(o);
  CHECK(Only(f, kOne).reason.code == "not-looked-at");
  CHECK(Only(f, kExpected).verdict == Verdict::kUnknown);
  CHECK(Notes(Only(f, kExpected), "/api/version says Ray 2.58.0"));
  o.ray.version.value().ray_version = "2.57.0";
  CHECK(Only(Judged(o), kExpected).verdict == Verdict::kFail);

  o = Healthy();
  o.ray.version.value().ray_version = "";
  CHECK(Only(Judged(o), kOne).verdict == Verdict::kUnknown);
}

TEST_CASE("ray-version: a pod that reports nothing is unknown, beside one that differs a failure") {
  Observations o = Healthy();
  o.ray.pod_versions.value()[2].ray = "";
  CHECK(Only(Judged(o), kOne).verdict == Verdict::kUnknown);
  CHECK(Has(Only(Judged(o), kOne).reason.message, "1 pod: 3"));
  o.ray.pod_versions.value().pop_back();
  CHECK(Only(Judged(o), kOne).verdict == Verdict::kUnknown);
  CHECK(Only(Judged(o), kExpected).verdict == Verdict::kUnknown);
  o.ray.pod_versions.value()[1].ray = "2.57.0";
  CHECK(Only(Judged(o), kOne).verdict == Verdict::kFail);
  CHECK(Only(Judged(o), kExpected).verdict == Verdict::kFail);
}

TEST_CASE("ray-version: a Python without patch level is unknown, not equal and not different") {
  Observations o = Healthy();
  for (PodVersions& versions : o.ray.pod_versions.value()) {
    versions.python = "3.13";
  }
  CHECK(Only(Judged(o), kOne).verdict == Verdict::kUnknown);
  CHECK(Has(Only(Judged(o), kOne).reason.message, "patch level"));
  o.ray.pod_versions.value()[0].python = "3.13.2";
  CHECK(Only(Judged(o), kOne).verdict == Verdict::kUnknown);
}

TEST_CASE("ray-version: the expectation is the policy's, else the image's label, else unknown") {
  Observations o = Healthy();
  Policy p;
  p.ray.version = "2.59.0";
  CHECK(Only(Judged(o, p), kExpected).verdict == Verdict::kFail);
  p.ray.version = "2.58.0";
  o.served_image = Observed<ServedImage>();
  CHECK(Only(Judged(o, p), kExpected).verdict == Verdict::kPass);
  CHECK(Only(Judged(o), kExpected).verdict == Verdict::kUnknown);
  o.served_image = MakeIndex();
  o.served_image.value().config.value().labels.clear();
  CHECK(Only(Judged(o), kExpected).verdict == Verdict::kUnknown);
}

TEST_CASE("ray-version: Python is compared in as many parts as the policy names") {
  struct Row {
    const char* wanted;
    const char* found;
    Verdict verdict;
  };
  const Row rows[] = {
      {"3.13", "3.13.2", Verdict::kPass},   {"3.13.2", "3.13.2", Verdict::kPass},
      {"3.13.2", "3.13.3", Verdict::kFail}, {"3.13", "3.1.3", Verdict::kFail},
      {"3.1", "3.13.2", Verdict::kFail},    {"3", "3.13.2", Verdict::kPass},
  };
  for (const Row& row : rows) {
    CAPTURE(row.wanted);
    CAPTURE(row.found);
    Observations o = Healthy();
    for (PodVersions& versions : o.ray.pod_versions.value()) {
      versions.python = row.found;
    }
    Policy p;
    p.ray.python = row.wanted;
    CHECK(Only(Judged(o, p), kPython).verdict == row.verdict);
  }
  Policy p;
  p.ray.python = "3.13";
  Observations o = Healthy();
  o.ray.pod_versions.value()[1].python = "";
  CHECK(Only(Judged(o, p), kPython).verdict == Verdict::kUnknown);
  CHECK(Only(Judged(o), kPython).verdict == Verdict::kNotApplicable);
}

TEST_CASE("ray-version: no RayCluster, no pods and pods unseen are unknown") {
  Observations o = Healthy();
  o.cluster.ray_clusters = std::vector<RayCluster>{};
  CHECK(Only(Judged(o), kSpec).verdict == Verdict::kUnknown);
  o.cluster.ray_clusters = Error{ErrorCode::kNotFound, "no CRD", ""};
  CHECK(Only(Judged(o), kSpec).reason.code == "not-found");
  o.cluster.pods = std::vector<Pod>{};
  for (const std::string& rule : {kOne, kExpected, kAlive}) {
    CHECK(Only(Judged(o), rule).verdict == Verdict::kUnknown);
  }
  o.cluster.pods = Error{ErrorCode::kTimedOut, "no answer", ""};
  for (const std::string& rule : {kOne, kExpected, kAlive}) {
    CHECK(Only(Judged(o), rule).reason.code == "timeout");
  }
}

TEST_CASE("ray-version: spec.rayVersion with nothing to compare is unknown") {
  Observations o = Healthy();
  o.served_image = Observed<ServedImage>();
  o.ray = {};
  CHECK(Only(Judged(o), kSpec).verdict == Verdict::kUnknown);
  o.served_image = MakeIndex();
  CHECK(Only(Judged(o), kSpec).verdict == Verdict::kPass);
  CHECK(Notes(Only(Judged(o), kSpec), "was not seen"));
}

TEST_CASE("ray-version: a ready pod that Ray does not list as alive fails (B-04)") {
  Observations o = Healthy();
  o.ray.nodes.value()[2].alive = false;
  const Finding finding = Only(Judged(o), kAlive);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(Notes(finding, "address of 3"));
  // Another alive node does not stand in for it.
  RayNode stranger;
  stranger.node_ip = "10.9.9.9";
  stranger.alive = true;
  o.ray.nodes.value().push_back(stranger);
  CHECK(Only(Judged(o), kAlive).verdict == Verdict::kFail);
  o.cluster.pods.value()[2].statuses[0].ready = false;
  CHECK(Only(Judged(o), kAlive).verdict == Verdict::kPass);
}

TEST_CASE("ray-version: without pod addresses the numbers are compared") {
  Observations o = Healthy();
  for (Pod& pod : o.cluster.pods.value()) {
    pod.pod_ip = "";
  }
  CHECK(Only(Judged(o), kAlive).verdict == Verdict::kPass);
  o.ray.nodes.value()[0].alive = false;
  CHECK(Only(Judged(o), kAlive).verdict == Verdict::kFail);
  o.ray.nodes = Error{ErrorCode::kUnavailable, "no answer", ""};
  CHECK(Only(Judged(o), kAlive).verdict == Verdict::kUnknown);
  o.ray.nodes = std::vector<RayNode>{};
  CHECK(Only(Judged(o), kAlive).verdict == Verdict::kFail);
}

TEST_CASE("ray-version: answers of one Ray cluster are not used for several RayClusters") {
  Observations o = Healthy();
  RayCluster other = o.cluster.ray_clusters.value()[0];
  other.name = "other";
  o.cluster.ray_clusters.value().push_back(other);
  o.cluster.pods.value()[2].ray_cluster = "other";
  const auto f = Judged(o);
  CHECK(About(f, kOne, "other").verdict == Verdict::kUnknown);
  CHECK(About(f, kOne, "ray-train-cluster").verdict == Verdict::kUnknown);
  CHECK(Only(f, kAlive).verdict == Verdict::kUnknown);
  CHECK(About(f, kSpec, "other").verdict == Verdict::kPass);
}

}  // namespace
}  // namespace dlc
