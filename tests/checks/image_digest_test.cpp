#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/checks/image_fixture.h"

namespace dlc {
namespace {

using namespace fixture;  // NOLINT(google-build-using-namespace): the test's own vocabulary

const std::string kServed = "image-digest/policy-digest-served";
const std::string kRuns = "image-digest/pod-runs-accepted-digest";
const std::string kOne = "image-digest/one-digest-per-cluster";
const std::string kStarted = "image-digest/image-started";
const std::string kPinned = "image-digest/reference-pinned";
const std::string kPull = "image-digest/pull-policy";
const std::string kArch = "image-digest/architecture";

std::vector<Finding> Judged(const Observations& o, const Policy& p) {
  auto findings = JudgeWith("image-digest", o, p);
  CheckShape(findings);
  return findings;
}

Node MakeNode(const std::string& name, const std::string& architecture) {
  Node node;
  node.name = name;
  node.architecture = architecture;
  return node;
}

/// HX-01: the head reports the index, the worker its amd64 member.
Observations IndexAndMember() {
  Observations o;
  o.served_image = MakeIndex();
  o.cluster.pods = std::vector<Pod>{MakePod("1", "head", RepoId(Of('a'))),
                                    MakePod("2", "worker", RepoId(Of('b')))};
  o.cluster.nodes = std::vector<Node>{MakeNode("node-1", "amd64"), MakeNode("node-2", "amd64")};
  return o;
}

Policy Pin(char digit) {
  Policy p;
  p.image.digests = {Of(digit)};
  return p;
}

void SetImageId(Observations& o, std::size_t pod, const std::string& image_id) {
  o.cluster.pods.value()[pod].statuses[0].image_id = image_id;
}

TEST_CASE("image-digest: an index and its member are one image (HX-01)") {
  const auto f = Judged(IndexAndMember(), Pin('a'));
  CHECK(Only(f, kServed).verdict == Verdict::kPass);
  const Finding head = About(f, kRuns, "1");
  CHECK(head.verdict == Verdict::kPass);
  CHECK(Notes(head, "is the index"));
  const Finding worker = About(f, kRuns, "2");
  CHECK(worker.verdict == Verdict::kPass);
  CHECK(Notes(worker, "linux/amd64 member of index"));
  CHECK(Only(f, kOne).verdict == Verdict::kPass);
  CHECK(Only(f, kStarted).verdict == Verdict::kPass);
  CHECK(OfRule(f, kArch).size() == 2);
  CHECK(About(f, kArch, "node-2").verdict == Verdict::kPass);
}

TEST_CASE("image-digest: the other architecture's member and an attestation fail (HX-01)") {
  for (const char digit : {'d', 'e', 'f'}) {
    CAPTURE(digit);
    Observations o = IndexAndMember();
    SetImageId(o, 1, RepoId(Of(digit)));
    const auto f = Judged(o, Pin('a'));
    CHECK(About(f, kRuns, "1").verdict == Verdict::kPass);
    CHECK(About(f, kRuns, "2").verdict == Verdict::kFail);
    CHECK(Only(f, kOne).verdict == Verdict::kFail);
  }
}

TEST_CASE("image-digest: prefix and registry host of imageID change nothing (HX-01)") {
  for (const std::string& id : {"docker-pullable://" + RepoId(Of('b')),
                                "mirror.example:5000/cache/ray@" + Of('b').ToString(),
                                "docker://" + Of('c').ToString(), Of('c').ToString()}) {
    CAPTURE(id);
    Observations o = IndexAndMember();
    SetImageId(o, 1, id);
    const auto f = Judged(o, Pin('a'));
    const Finding worker = About(f, kRuns, "2");
    CHECK(worker.verdict == Verdict::kPass);
    CHECK(Notes(worker, "mirror.example:5000/cache/ray") == Has(id, "mirror"));
    CHECK(Only(f, kOne).verdict == Verdict::kPass);
  }
}

TEST_CASE("image-digest: without the registry equality passes and the rest is unknown (HX-01)") {
  for (const bool failed : {false, true}) {
    CAPTURE(failed);
    Observations o = IndexAndMember();
    o.served_image = failed ? Observed<ServedImage>(Error{ErrorCode::kTimedOut, "no answer", ""})
                            : Observed<ServedImage>();
    const auto f = Judged(o, Pin('a'));
    CHECK(Only(f, kServed).verdict == Verdict::kUnknown);
    CHECK(About(f, kRuns, "1").verdict == Verdict::kPass);
    const Finding worker = About(f, kRuns, "2");
    CHECK(worker.verdict == Verdict::kUnknown);
    CHECK(worker.reason.code == (failed ? "timeout" : "not-looked-at"));
    CHECK(Only(f, kOne).verdict == Verdict::kUnknown);
    CHECK(Only(f, kArch).verdict == Verdict::kUnknown);
    CHECK(Aggregate(f, false) == Outcome::kIncomplete);
  }
}

TEST_CASE("image-digest: a policy may pin the member or the config") {
  for (const char digit : {'b', 'c'}) {
    CAPTURE(digit);
    const auto f = Judged(IndexAndMember(), Pin(digit));
    CHECK(Only(f, kServed).verdict == Verdict::kPass);
    CHECK(About(f, kRuns, "1").verdict == Verdict::kPass);
  }
}

TEST_CASE("image-digest: a policy that pins an attestation or another architecture fails (A-04)") {
  for (const char digit : {'d', 'f'}) {
    CAPTURE(digit);
    const auto f = Judged(IndexAndMember(), Pin(digit));
    CHECK(Only(f, kServed).verdict == Verdict::kFail);
    CHECK(Notes(Only(f, kServed), "the policy pins"));
    CHECK(About(f, kRuns, "1").verdict == Verdict::kFail);
  }
}

TEST_CASE("image-digest: a tag that moved away from the policy fails, and so do its pods") {
  const auto f = Judged(IndexAndMember(), Pin('9'));
  const Finding served = Only(f, kServed);
  CHECK(served.verdict == Verdict::kFail);
  CHECK(Has(served.actual, Of('a').ToString()));
  CHECK(About(f, kRuns, "1").verdict == Verdict::kFail);
  CHECK(About(f, kRuns, "2").verdict == Verdict::kFail);
  CHECK(Only(f, kOne).verdict == Verdict::kPass);
}

TEST_CASE("image-digest: after the tag moved, a pod on the pinned digest is right") {
  Observations o = IndexAndMember();
  SetImageId(o, 0, RepoId(Of('9')));
  SetImageId(o, 1, RepoId(Of('8')));
  const auto f = Judged(o, Pin('9'));
  CHECK(Only(f, kServed).verdict == Verdict::kFail);
  CHECK(About(f, kRuns, "1").verdict == Verdict::kPass);
  // '8' may be the amd64 member of '9', which the registry was not asked for.
  CHECK(About(f, kRuns, "2").verdict == Verdict::kUnknown);
}

TEST_CASE("image-digest: a pod on neither digest fails when the policy's image is served") {
  Observations o = IndexAndMember();
  SetImageId(o, 1, RepoId(Of('9')));
  const auto f = Judged(o, Pin('a'));
  CHECK(About(f, kRuns, "2").verdict == Verdict::kFail);
  CHECK(Has(About(f, kRuns, "2").actual, Of('9').ToString()));
  CHECK(Only(f, kOne).verdict == Verdict::kFail);
}

TEST_CASE("image-digest: a bare digest is unknown while the config was not seen") {
  Observations o = IndexAndMember();
  ServedImage image = MakeIndex();
  image.members[2].config_digest = Error{ErrorCode::kUnavailable, "blob not read", ""};
  image.config = Error{ErrorCode::kUnavailable, "blob not read", ""};
  o.served_image = image;
  SetImageId(o, 1, Of('c').ToString());
  const auto f = Judged(o, Pin('a'));
  CHECK(About(f, kRuns, "2").verdict == Verdict::kUnknown);
  CHECK(Only(f, kOne).verdict == Verdict::kUnknown);
  // With a repository the digest is a manifest's, which are all known.
  SetImageId(o, 1, RepoId(Of('c')));
  CHECK(About(Judged(o, Pin('a')), kRuns, "2").verdict == Verdict::kFail);
}

TEST_CASE("image-digest: an artifact never runs, whatever platform it claims") {
  Observations o = IndexAndMember();
  IndexMember& attestation = o.served_image.value().members[0];
  attestation.os = "linux";
  attestation.architecture = "amd64";
  SetImageId(o, 1, RepoId(Of('f')));
  const auto f = Judged(o, Pin('a'));
  CHECK(About(f, kRuns, "2").verdict == Verdict::kFail);
  CHECK(Notes(About(f, kRuns, "2"), "cannot run"));
}

TEST_CASE("image-digest: the fetched config tells the amd64 member's config digest") {
  Observations o = IndexAndMember();
  o.served_image.value().members[2].config_digest = Observed<Digest>();
  SetImageId(o, 1, Of('c').ToString());
  CHECK(About(Judged(o, Pin('a')), kRuns, "2").verdict == Verdict::kPass);
}

TEST_CASE("image-digest: one rejected container fails the pod beside one that is unknown") {
  Observations o = IndexAndMember();
  o.served_image.value().members[2].config_digest = Observed<Digest>();
  o.served_image.value().config = Observed<ImageConfig>();
  Pod& worker = o.cluster.pods.value()[1];
  worker.statuses[0].image_id = Of('c').ToString();
  ContainerSpec init = worker.spec.containers[0];
  init.name = "wait-gcs-ready";
  worker.spec.init_containers = {init};
  worker.init_statuses = {worker.statuses[0]};
  worker.init_statuses[0].name = init.name;
  CHECK(About(Judged(o, Pin('a')), kRuns, "2").verdict == Verdict::kUnknown);
  worker.init_statuses[0].image_id = RepoId(Of('9'));
  const Finding finding = About(Judged(o, Pin('a')), kRuns, "2");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.assertions.size() == 1);
}

TEST_CASE("image-digest: no policy digest compares the pods with what is served") {
  Observations o = IndexAndMember();
  const auto f = Judged(o, {});
  const Finding served = Only(f, kServed);
  CHECK(served.verdict == Verdict::kNotApplicable);
  CHECK(served.reason.message == "no digest demanded by policy");
  CHECK(About(f, kRuns, "2").verdict == Verdict::kPass);
  SetImageId(o, 1, RepoId(Of('9')));
  CHECK(About(Judged(o, {}), kRuns, "2").verdict == Verdict::kFail);
  o.served_image = Observed<ServedImage>();
  CHECK(About(Judged(o, {}), kRuns, "1").verdict == Verdict::kUnknown);
}

TEST_CASE("image-digest: a lone manifest accepts itself and its config") {
  Observations o = IndexAndMember();
  ServedImage image = MakeIndex();
  image.is_index = false;
  image.members.clear();
  image.digest = Of('b');
  o.served_image = image;
  SetImageId(o, 0, Of('c').ToString());
  const auto f = Judged(o, Pin('b'));
  CHECK(Only(f, kServed).verdict == Verdict::kPass);
  CHECK(About(f, kRuns, "1").verdict == Verdict::kPass);
  CHECK(About(f, kRuns, "2").verdict == Verdict::kPass);
  CHECK(Only(f, kOne).verdict == Verdict::kPass);
}

TEST_CASE("image-digest: an index without the policy's platform fails") {
  Observations o = IndexAndMember();
  ServedImage image = MakeIndex();
  image.members.pop_back();
  o.served_image = image;
  CHECK(Only(Judged(o, Pin('a')), kServed).verdict == Verdict::kFail);
}

TEST_CASE("image-digest: reference digest and digest header must agree with the bytes") {
  Observations o = IndexAndMember();
  ServedImage image = MakeIndex();
  image.reference = RepoId(Of('a'));
  image.header_digest = Of('a').ToString();
  o.served_image = image;
  CHECK(Only(Judged(o, Pin('a')), kServed).verdict == Verdict::kPass);
  image.reference = RepoId(Of('9'));
  o.served_image = image;
  CHECK(Only(Judged(o, Pin('a')), kServed).verdict == Verdict::kFail);
  image.reference = RepoId(Of('a'));
  image.header_digest = Of('9').ToString();
  o.served_image = image;
  CHECK(Only(Judged(o, Pin('a')), kServed).verdict == Verdict::kFail);
}

// --- HX-02

Policy TwoReleases() {
  Policy p;
  p.image.releases = {
      {"v1.0", Of('1'), {{"ray", "2.58.0"}, {"efa-installer", "1.47.0"}}, {"broadcast may hang"}},
      {"v1.1", Of('2'), {{"ray", "2.58.0"}, {"efa-installer", "1.49.0"}}, {}}};
  return p;
}

Observations FloatingTag(char head, char first, char second) {
  Observations o;
  o.cluster.pods = std::vector<Pod>{MakePod("1", "head", RepoId(Of(head))),
                                    MakePod("2", "worker", RepoId(Of(first))),
                                    MakePod("3", "worker", RepoId(Of(second)))};
  for (Pod& pod : o.cluster.pods.value()) {
    pod.spec.containers[0].image_pull_policy = "IfNotPresent";
  }
  return o;
}

TEST_CASE("image-digest: one tag, two releases, fails and names both (HX-02)") {
  const auto f = Judged(FloatingTag('2', '2', '1'), TwoReleases());
  const Finding one = Only(f, kOne);
  CHECK(one.verdict == Verdict::kFail);
  CHECK(one.severity == Severity::kRequired);
  for (const char* part : {"(v1.0) on 1 pod: 3", "(v1.1) on 2 pods: 1, 2"}) {
    CHECK(Has(one.actual, part));
  }
  CHECK(Notes(one, "differ in efa-installer (1.49.0, 1.47.0) and agree in ray (2.58.0)"));
  CHECK(Only(f, kPinned).verdict == Verdict::kFail);
  CHECK(Only(f, kPinned).severity == Severity::kWarn);
  CHECK(Only(f, kPull).verdict == Verdict::kFail);
  CHECK(Only(f, kPull).severity == Severity::kWarn);
  CHECK(Aggregate(f, false) == Outcome::kFailed);
}

TEST_CASE("image-digest: with a pin, a pod on another known release fails without the registry") {
  Policy p = TwoReleases();
  p.image.digests = {Of('2')};
  const auto f = Judged(FloatingTag('2', '2', '1'), p);
  CHECK(About(f, kRuns, "2").verdict == Verdict::kPass);
  CHECK(About(f, kRuns, "3").verdict == Verdict::kFail);
  CHECK(About(f, kRuns, "3").reason.message ==
        "ray-worker runs " + Of('1').ToString() +
            " (v1.0), which is not a release that the policy pins");
}

TEST_CASE("image-digest: a digest that may be a member does not count as another image") {
  const Finding one = Only(Judged(FloatingTag('2', '1', '7'), TwoReleases()), kOne);
  CHECK(one.verdict == Verdict::kFail);
  CHECK(one.assertions[0].observed == AssertedValue{std::int64_t{2}});
  CHECK(one.actual.starts_with("at least 2: "));
}

TEST_CASE("image-digest: two unknown digests without the registry are not shown to differ") {
  const auto f = Judged(FloatingTag('2', '2', '1'), {});
  CHECK(Only(f, kOne).verdict == Verdict::kUnknown);
}

TEST_CASE("image-digest: all pods on the older release are one image (HX-02 variant)") {
  const auto f = Judged(FloatingTag('1', '1', '1'), TwoReleases());
  CHECK(Only(f, kOne).verdict == Verdict::kPass);
  CHECK(Notes(Only(f, kOne), "(v1.0)"));
  CHECK(Only(f, kPinned).verdict == Verdict::kFail);
}

// --- which pods

TEST_CASE("image-digest: no pods seen, none found and pods unseen are unknown, never a pass") {
  Observations o = IndexAndMember();
  o.cluster.pods = std::vector<Pod>{};
  for (const std::string& rule : {kRuns, kOne, kStarted}) {
    CHECK(Only(Judged(o, Pin('a')), rule).verdict == Verdict::kUnknown);
  }
  o.cluster.pods = Error{ErrorCode::kPermissionDenied, "may not list pods", "grant list pods"};
  const auto f = Judged(o, Pin('a'));
  for (const std::string& rule : {kRuns, kOne, kStarted}) {
    CHECK(Only(f, rule).verdict == Verdict::kUnknown);
    CHECK(Only(f, rule).reason.code == "permission-denied");
  }
  CHECK(Aggregate(f, false) == Outcome::kIncomplete);
}

TEST_CASE("image-digest: ended, deleting, redis-cleanup and foreign pods are left out and told") {
  Observations o = IndexAndMember();
  auto& pods = o.cluster.pods.value();
  for (int i = 0; i < 4; ++i) {
    pods.push_back(MakePod("x" + std::to_string(i), "worker", RepoId(Of('9'))));
  }
  pods[2].phase = "Failed";
  pods[3].deleting = true;
  pods[4].ray_node_type = "redis-cleanup";
  pods[5].ray_cluster = "";
  pods[5].spec.containers[0].image = "nginx:1";
  CHECK(OfRule(Judged(o, Pin('a')), kRuns).size() == 2);
  // Only these are there: unknown, and each reason is told.
  pods.erase(pods.begin(), pods.begin() + 2);
  const Finding none = Only(Judged(o, Pin('a')), kRuns);
  CHECK(none.verdict == Verdict::kUnknown);
  CHECK(none.notes.size() == 4);
  CHECK(Notes(none, "whose image is not under test (x3)"));
}

TEST_CASE("image-digest: a pod without the label is judged when it runs the image under test") {
  Observations o = IndexAndMember();
  o.cluster.pods.value()[1].ray_cluster = "";
  const auto f = Judged(o, Pin('a'));
  CHECK(OfRule(f, kRuns).size() == 2);
  CHECK(OfRule(f, kOne).size() == 2);
}

RayCluster MakeCluster(const std::string& name, int replicas) {
  RayCluster cluster;
  cluster.name_space = "ray-train";
  cluster.name = name;
  ContainerSpec container;
  container.name = "ray";
  container.image = std::string(kRepository) + ":train-ml-cuda";
  container.image_pull_policy = "Always";
  cluster.head.pod.containers = {container};
  RayGroup group;
  group.name = "gpu-workers";
  group.replicas = replicas;
  group.max_replicas = 100;
  group.pod.containers = {container};
  group.source = {"cluster.yaml", 12};
  cluster.workers = {group};
  return cluster;
}

TEST_CASE("image-digest: pods are grouped by RayCluster, and those of others are left out") {
  Observations o = IndexAndMember();
  auto& pods = o.cluster.pods.value();
  pods.push_back(MakePod("3", "head", RepoId(Of('9'))));
  pods[2].ray_cluster = "other";
  auto f = Judged(o, Pin('a'));
  CHECK(OfRule(f, kOne).size() == 2);
  CHECK(About(f, kRuns, "3").verdict == Verdict::kFail);
  o.cluster.ray_clusters = std::vector<RayCluster>{MakeCluster("ray-train-cluster", 1)};
  f = Judged(o, Pin('a'));
  CHECK(OfRule(f, kRuns).size() == 2);
  CHECK(Only(f, kOne).verdict == Verdict::kPass);
}

TEST_CASE(
    "image-digest: fewer pods than the RayCluster asks for is unknown, a RayCluster without "
    "pods too") {
  Observations o = IndexAndMember();
  o.cluster.ray_clusters =
      std::vector<RayCluster>{MakeCluster("ray-train-cluster", 2), MakeCluster("empty", 1)};
  auto f = Judged(o, Pin('a'));
  CHECK(About(f, kOne, "ray-train-cluster").verdict == Verdict::kUnknown);
  CHECK(Has(About(f, kOne, "ray-train-cluster").reason.message, "asks for 3 pods and 2"));
  CHECK(About(f, kOne, "empty").verdict == Verdict::kUnknown);
  // KubeRay keeps at least minReplicas, whatever replicas says.
  o.cluster.ray_clusters.value()[0].workers[0].replicas = 1;
  o.cluster.ray_clusters.value()[0].workers[0].min_replicas = 2;
  f = Judged(o, Pin('a'));
  CHECK(About(f, kOne, "ray-train-cluster").verdict == Verdict::kUnknown);
  CHECK(Has(About(f, kOne, "ray-train-cluster").reason.message, "asks for 3 pods and 2"));
  o.cluster.ray_clusters.value()[0].workers[0].suspended = true;
  o.cluster.ray_clusters.value()[1].suspended = true;
  f = Judged(o, Pin('a'));
  CHECK(About(f, kOne, "ray-train-cluster").verdict == Verdict::kPass);
  CHECK(About(f, kOne, "empty").verdict == Verdict::kNotApplicable);
}

TEST_CASE("image-digest: statuses are matched by name, and status.image is not looked at") {
  Observations o = IndexAndMember();
  Pod& head = o.cluster.pods.value()[0];
  ContainerStatus sidecar;
  sidecar.name = "autoscaler";
  sidecar.image_id = RepoId(Of('9'));
  head.statuses.insert(head.statuses.begin(), sidecar);
  head.statuses[1].image = "sha256:whatever";
  CHECK(About(Judged(o, Pin('a')), kRuns, "1").verdict == Verdict::kPass);
}

TEST_CASE("image-digest: the init container that waits for the head must run the image too") {
  Observations o = IndexAndMember();
  Pod& worker = o.cluster.pods.value()[1];
  ContainerSpec init = worker.spec.containers[0];
  init.name = "wait-gcs-ready";
  worker.spec.init_containers = {init};
  Finding finding = About(Judged(o, Pin('a')), kRuns, "2");
  CHECK(finding.verdict == Verdict::kPass);
  CHECK(Notes(finding, "wait-gcs-ready was not seen"));
  worker.init_statuses = {worker.statuses[0]};
  worker.init_statuses[0].name = "wait-gcs-ready";
  CHECK(About(Judged(o, Pin('a')), kRuns, "2").verdict == Verdict::kPass);
  worker.init_statuses[0].image_id = RepoId(Of('9'));
  finding = About(Judged(o, Pin('a')), kRuns, "2");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(Has(finding.expected, "wait-gcs-ready"));
}

TEST_CASE("image-digest: pods of two namespaces are told apart") {
  Observations o = IndexAndMember();
  auto& pods = o.cluster.pods.value();
  pods.push_back(pods[0]);
  pods[2].name_space = "other";
  const auto f = Judged(o, Pin('a'));
  CHECK(About(f, kRuns, "ray-train/1").verdict == Verdict::kPass);
  CHECK(About(f, kRuns, "other/1").verdict == Verdict::kPass);
}

TEST_CASE("image-digest: a cluster of many pods is told in a short line") {
  Observations o = IndexAndMember();
  for (int i = 3; i < 10; ++i) {
    o.cluster.pods.value().push_back(MakePod(std::to_string(i), "worker", RepoId(Of('a'))));
  }
  CHECK(Notes(Only(Judged(o, Pin('a')), kOne), "on 9 pods: 1, 2, 3, 4, 5 and 4 more"));
}

// --- start

void Wait(Observations& o, const std::string& reason, const std::string& message) {
  ContainerStatus& status = o.cluster.pods.value()[1].statuses[0];
  status.image_id = "";
  status.state = "waiting";
  status.reason = reason;
  status.message = message;
  status.ready = false;
}

TEST_CASE("image-digest: a failed pull is quoted, its cause told apart, and the digest unknown") {
  struct Row {
    const char* reason;
    const char* message;
    const char* cause;
  };
  const Row rows[] = {
      {"ErrImagePull", "failed to authorize: 401 Unauthorized", "auth"},
      {"ImagePullBackOff", "pulling from host x failed with status code 403 Forbidden", "auth"},
      {"ErrImagePull", "Head \"https://x\": no basic auth credentials", "auth"},
      {"ErrImagePull", "manifest unknown", "not found"},
      {"ErrImagePull", "no match for platform in manifest: not found", "platform"},
      {"ErrImagePull", "unexpected commit digest sha256:1, expected sha256:2", "damaged content"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.message);
    Observations o = IndexAndMember();
    Wait(o, row.reason, row.message);
    const auto f = Judged(o, Pin('a'));
    const Finding start = Only(f, kStarted);
    CHECK(start.verdict == Verdict::kFail);
    CHECK(start.subject.name == "2");
    CHECK(Has(start.actual, row.reason));
    CHECK(Has(start.actual, row.message));
    CHECK(Has(start.actual, std::string("cause: ") + row.cause));
    const Finding runs = About(f, kRuns, "2");
    CHECK(runs.verdict == Verdict::kUnknown);
    CHECK(runs.reason.blocked_by == kStarted + " pod 2");
    CHECK(Only(f, kOne).verdict == Verdict::kUnknown);
  }
}

TEST_CASE("image-digest: a container that cannot be created fails, one that waits is unknown") {
  Observations o = IndexAndMember();
  Wait(o, "CreateContainerError", "context deadline exceeded");
  CHECK(Only(Judged(o, Pin('a')), kStarted).verdict == Verdict::kFail);
  Wait(o, "ContainerCreating", "");
  auto f = Judged(o, Pin('a'));
  CHECK(Only(f, kStarted).verdict == Verdict::kUnknown);
  CHECK(About(f, kRuns, "2").verdict == Verdict::kUnknown);
  o.cluster.pods.value()[1].statuses.clear();
  f = Judged(o, Pin('a'));
  CHECK(Only(f, kStarted).verdict == Verdict::kUnknown);
  CHECK(About(f, kRuns, "2").verdict == Verdict::kUnknown);
}

TEST_CASE("image-digest: an init container that cannot be pulled is the obstacle") {
  Observations o = IndexAndMember();
  Wait(o, "PodInitializing", "");
  ContainerStatus init = o.cluster.pods.value()[1].statuses[0];
  init.name = "wait-gcs-ready";
  init.reason = "ErrImagePull";
  o.cluster.pods.value()[1].init_statuses = {init};
  const Finding start = Only(Judged(o, Pin('a')), kStarted);
  CHECK(start.verdict == Verdict::kFail);
  CHECK(Has(start.reason.message, "wait-gcs-ready"));
}

TEST_CASE(
    "image-digest: an image of the wrong architecture fails to start though its digest fits "
    "(A-10)") {
  Observations o = IndexAndMember();
  ContainerStatus& status = o.cluster.pods.value()[1].statuses[0];
  status.state = "terminated";
  status.reason = "Error";
  status.message = "exec /bin/bash: exec format error";
  const auto f = Judged(o, Pin('a'));
  CHECK(About(f, kRuns, "2").verdict == Verdict::kPass);
  CHECK(Only(f, kStarted).verdict == Verdict::kFail);
}

// --- references

TEST_CASE("image-digest: only a reference with a digest is pinned, and a full version is noted") {
  struct Row {
    std::string tag;
    Verdict pinned;
    bool noted;
  };
  const Row rows[] = {
      {":train-ml-cuda", Verdict::kFail, false},
      {":train-ml-cuda-v1.1", Verdict::kFail, false},
      {":train-ml-cuda-v1.1.0", Verdict::kFail, true},
      {"@" + Of('a').ToString(), Verdict::kPass, false},
      {":train-ml-cuda@" + Of('a').ToString(), Verdict::kPass, false},
      {":Bad Tag", Verdict::kUnknown, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.tag);
    Observations o = IndexAndMember();
    o.cluster.pods = std::vector<Pod>{MakePod("1", "head", RepoId(Of('a')), row.tag)};
    const Finding finding = Only(Judged(o, Pin('a')), kPinned);
    CHECK(finding.verdict == row.pinned);
    CHECK(Notes(finding, "names one release") == row.noted);
  }
}

TEST_CASE("image-digest: a tag must be pulled always, a digest need not") {
  struct Row {
    std::string tag;
    std::string policy;
    Verdict verdict;
  };
  const Row rows[] = {
      {":t", "Always", Verdict::kPass},
      {":t", "IfNotPresent", Verdict::kFail},
      {":t", "", Verdict::kFail},
      {":t", "Never", Verdict::kFail},
      {":latest", "", Verdict::kPass},
      {"", "", Verdict::kPass},
      {"@" + Of('a').ToString(), "IfNotPresent", Verdict::kNotApplicable},
  };
  for (const Row& row : rows) {
    CAPTURE(row.tag);
    CAPTURE(row.policy);
    Observations o;
    o.cluster.pods = std::vector<Pod>{MakePod("1", "head", RepoId(Of('a')), row.tag)};
    o.cluster.pods.value()[0].spec.containers[0].image_pull_policy = row.policy;
    CHECK(Only(Judged(o, {}), kPull).verdict == row.verdict);
  }
}

TEST_CASE("image-digest: manifests alone are judged on their references, with the place") {
  Observations o;
  o.cluster.ray_clusters = std::vector<RayCluster>{MakeCluster("c", 2)};
  const Finding finding = Only(Judged(o, {}), kPinned);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(Notes(finding, "worker group gpu-workers of RayCluster c (cluster.yaml line 12)"));
}

// --- architecture

TEST_CASE("image-digest: a node of another architecture is a warning, unseen nodes unknown") {
  Observations o = IndexAndMember();
  o.cluster.nodes.value()[1].architecture = "s390x";
  auto f = Judged(o, Pin('a'));
  CHECK(About(f, kArch, "node-2").verdict == Verdict::kFail);
  CHECK(About(f, kArch, "node-2").severity == Severity::kWarn);
  // The image has an arm64 member, which is not what the policy wants to run.
  o.cluster.nodes.value()[1].architecture = "arm64";
  CHECK(About(Judged(o, Pin('a')), kArch, "node-2").verdict == Verdict::kFail);
  o.cluster.nodes.value().pop_back();
  CHECK(About(Judged(o, Pin('a')), kArch, "node-2").verdict == Verdict::kUnknown);
  o.cluster.nodes = Error{ErrorCode::kPermissionDenied, "may not list nodes", ""};
  f = Judged(o, Pin('a'));
  CHECK(Only(f, kArch).verdict == Verdict::kUnknown);
  CHECK(About(f, kRuns, "2").verdict == Verdict::kPass);
}

TEST_CASE("image-digest: a wrong digest takes the ground from later stages, a tag does not") {
  Observations o = IndexAndMember();
  CHECK(FirstBlocker(Judged(o, Pin('a'))) == nullptr);
  SetImageId(o, 1, RepoId(Of('9')));
  const auto f = Judged(o, Pin('a'));
  REQUIRE(FirstBlocker(f) != nullptr);
  CHECK(FirstBlocker(f)->rule == kRuns);
}

TEST_CASE("image-digest: twenty thousand pods on two thousand nodes are all judged") {
  constexpr int count = 20'000;
  Observations o;
  o.served_image = MakeIndex();
  std::vector<Pod> pods;
  std::vector<Node> nodes;
  for (int i = 0; i < count; ++i) {
    pods.push_back(MakePod(std::to_string(i), "worker", RepoId(Of(i % 2 == 0 ? 'a' : 'b'))));
    pods.back().node = "n" + std::to_string(i % (count / 10));
  }
  for (int i = 0; i < count / 10; ++i) {
    nodes.push_back(MakeNode("n" + std::to_string(i), "amd64"));
  }
  o.cluster.pods = std::move(pods);
  o.cluster.nodes = std::move(nodes);
  const auto f = JudgeWith("image-digest", o, Pin('a'));
  CHECK(f.size() == static_cast<std::size_t>(count + count / 10 + 5));
}

}  // namespace
}  // namespace dlc
