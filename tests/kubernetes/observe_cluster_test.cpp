#include "probes/control/kubernetes/observe_cluster.h"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "probes/control/kubernetes/rights.h"
#include "probes/observations/json.h"
#include "tests/http/scripted_server.h"
#include "tests/kubernetes/scratch.h"

namespace dlc {
namespace {

const std::vector<Stage> kAll = {Stage::kImage, Stage::kGpu, Stage::kNccl, Stage::kFsdp,
                                 Stage::kCheckpoint};

/// What kube-apiserver 1.20 answered, from tests/testdata/kubernetes/recorded.
std::string Recorded(const std::string& name) {
  std::ifstream file(std::string(DLC_TESTDATA) + "/kubernetes/recorded/" + name + ".http");
  REQUIRE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const auto body = all.find("\n\n");
  const auto type = all.find("Content-Type: ");
  const int status = std::stoi(all.substr(9, 3));
  return HttpAnswer(status, all.substr(body + 2),
                    all.substr(type, all.find('\n', type) - type) + "\r\n");
}

/// Answers as recorded, but where a part of the request line has another answer.
class RecordedServer {
 public:
  explicit RecordedServer(std::map<std::string, std::string> other = {})
      : other_(std::move(other)),
        server_([this](const std::string& request) { return Answer(request); }) {}

  Result<Observations> Look(const std::vector<Stage>& stages = kAll,
                            const std::string& ray_cluster = "", bool dashboard = false) {
    KubeAccess access;
    access.server = *ParseUrl(server_.Url(""));
    access.context = "test";
    KubeClient client(access, {});
    Observations observations;
    const auto step = [](const std::string&) {};
    const auto warn = [this](const std::string& text) { warnings += text + "\n"; };
    const auto done =
        ObserveCluster(client, {"ray-train", ray_cluster, stages, dashboard},
                       Deadline::After(std::chrono::seconds(20)), {step, warn}, observations);
    if (!done) {
      return done.error();
    }
    return observations;
  }
  std::vector<std::string> Requests() const { return server_.Requests(); }

  std::string warnings;

 private:
  std::string Answer(const std::string& request) const {
    const std::string line = request.substr(0, request.find("\r\n"));
    const std::string resource =
        request.find("\"resource\":\"") == std::string::npos
            ? ""
            : " review:" + request.substr(request.find("\"resource\":\"") + 12, 5);
    for (const auto& [part, answer] : other_) {
      if (Has(line + resource, part)) {
        return answer;
      }
    }
    for (const char* name : {"rayclusters", "rayjobs", "pods", "nodes", "version"}) {
      if (Has(line, std::string("/") + name)) {
        return Recorded(name);
      }
    }
    return Recorded("review-allowed");
  }

  std::map<std::string, std::string> other_;
  ScriptedServer server_;
};

TEST_CASE("observe cluster: everything that the stages read, from a real server's answers") {
  RecordedServer server;
  const auto seen = server.Look();
  REQUIRE(seen.has_value());
  const ClusterFacts& cluster = seen->cluster;
  REQUIRE(cluster.ray_clusters.seen());
  CHECK(cluster.ray_clusters.value().at(0).name == "ray-train-cluster");
  CHECK(cluster.ray_clusters.value()[0].head_service_name == "ray-train-cluster-head-svc");
  CHECK(cluster.ray_clusters.value()[0].workers.at(0).replicas == 2);
  REQUIRE(cluster.pods.seen());
  REQUIRE(cluster.pods.value().size() == 3);
  const Pod& pod = cluster.pods.value()[0];
  CHECK(pod.ray_cluster == "ray-train-cluster");
  CHECK(pod.phase == "Running");
  CHECK(pod.statuses.at(0).image_id.starts_with("registry.example/ray@sha256:"));
  CHECK(pod.source == Source{"/api/v1/namespaces/ray-train/pods/" + pod.name, 0});
  REQUIRE(cluster.nodes.seen());
  CHECK(cluster.nodes.value().size() == 3);
  REQUIRE(seen->ray.job_objects.has_value());
  REQUIRE(seen->ray.job_objects->seen());
  const RayJob& job = seen->ray.job_objects->value().at(0);
  CHECK(job.submission_id == "qwen");
  CHECK(job.runtime_env.env_vars.at("HF_TOKEN") == "(redacted)");
  CHECK(seen->ray.jobs.not_looked_at());

  REQUIRE(cluster.api_server.has_value());
  CHECK(cluster.api_server->version == "v0.0.0-master+faecb196815e2");
  CHECK(cluster.api_server->name_space == "ray-train");
  REQUIRE(cluster.api_server->lists.size() == 4);
  CHECK(cluster.api_server->lists[1].path == "/api/v1/namespaces/ray-train/pods");
  CHECK(cluster.api_server->lists[1].objects == 3);
  CHECK_FALSE(cluster.api_server->lists[1].resource_version.empty());
  CHECK(server.warnings.empty());
}

TEST_CASE("observe cluster: what was seen reads back as the same") {
  const auto seen = RecordedServer().Look();
  REQUIRE(seen.has_value());
  const auto again = ParseObservations(ObservationsToJson(*seen, -1), 1U << 20U);
  REQUIRE(again.has_value());
  CHECK(*again == *seen);
}

TEST_CASE("observe cluster: a right that is missing takes away that one observation (HX-10)") {
  RecordedServer server({{"review:nodes", Recorded("review-denied")}});
  const auto seen = server.Look();
  REQUIRE(seen.has_value());
  REQUIRE(seen->cluster.nodes.not_looked_at());
  CHECK(seen->cluster.nodes.why_not().reason == "needs list on nodes");
  CHECK(seen->cluster.pods.seen());
  CHECK(seen->cluster.ray_clusters.seen());
  CHECK(Has(server.warnings, "lacks list on nodes"));
  for (const std::string& request : server.Requests()) {
    CHECK_FALSE(request.starts_with("GET /api/v1/nodes"));
  }
}

TEST_CASE("observe cluster: the way to Ray's dashboard is asked for before anything is listed") {
  RecordedServer server({{"review:servi", Recorded("review-denied")}});
  REQUIRE(server.Look(kAll, "", true).has_value());
  std::size_t asked = 0;
  std::size_t listed = 0;
  const std::vector<std::string> requests = server.Requests();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (Has(requests[i], R"("verb":"get","resource":"services","subresource":"proxy")")) {
      asked = i + 1;
    }
    if (listed == 0 && Has(requests[i], "limit=")) {
      listed = i + 1;
    }
  }
  CHECK(asked > 0);
  CHECK(asked < listed);
  RecordedServer elsewhere;
  REQUIRE(elsewhere.Look().has_value());
  for (const std::string& request : elsewhere.Requests()) {
    CHECK_FALSE(Has(request, "services"));
  }
}

const char* const kGroupOfDra =
    R"({"kind":"APIGroup","name":"resource.k8s.io","versions":[{"version":"v1beta2"},{"version":"v1"}]})";

std::string JsonReply(int status, const std::string& body) {
  return HttpAnswer(status, body, "Content-Type: application/json\r\n");
}

/// Pods with claims, and what resource.k8s.io/v1 answers about them in the shapes of its types.
std::map<std::string, std::string> WithClaims() {
  return {
      {"/pods", JsonReply(200, R"({"kind":"PodList","metadata":{},"items":[{"metadata":{"name":"w",
        "namespace":"ray-train","labels":{"ray.io/cluster":"ray-train-cluster"}},"spec":{
        "resourceClaims":[{"name":"gpus","resourceClaimTemplateName":"t"}],"containers":[{"name":"r",
        "image":"i","resources":{"claims":[{"name":"gpus","request":"gpu"}]}}]},"status":{
        "resourceClaimStatuses":[{"name":"gpus","resourceClaimName":"w-gpus-x"}]}}]})")},
      {"GET /apis/resource.k8s.io HTTP", JsonReply(200, kGroupOfDra)},
      {"/apis/resource.k8s.io/v1/resourceslices",
       JsonReply(200,
                 R"({"kind":"ResourceSliceList","metadata":{},"items":[{"metadata":{"name":"s"},
        "spec":{"driver":"gpu.nvidia.com","nodeName":"n","pool":{"name":"n","generation":3},
        "devices":[{"name":"gpu-0","attributes":{"type":{"string":"gpu"}}}]}}]})")},
      {"/apis/resource.k8s.io/v1/namespaces/ray-train/resourceclaims",
       JsonReply(200, R"({"kind":"ResourceClaimList","metadata":{},"items":[{"metadata":{
        "name":"w-gpus-x","namespace":"ray-train"},"status":{"allocation":{"devices":{"results":[
        {"request":"gpu","driver":"gpu.nvidia.com","pool":"n","device":"gpu-0"}]}}}}]})")}};
}

TEST_CASE("observe cluster: devices of resource claims, only where a pod has some") {
  RecordedServer server(WithClaims());
  const auto seen = server.Look();
  REQUIRE(seen.has_value());
  REQUIRE(seen->cluster.dra.has_value());
  REQUIRE(seen->cluster.dra->slices.seen());
  CHECK(seen->cluster.dra->slices.value().at(0).devices ==
        std::vector<SliceDevice>{{"gpu-0", "gpu"}});
  CHECK(seen->cluster.dra->slices.value()[0].generation == 3);
  REQUIRE(seen->cluster.dra->claims.seen());
  CHECK(seen->cluster.dra->claims.value().at(0).devices ==
        std::vector<ClaimedDevice>{{"gpu", "gpu.nvidia.com", "n", "gpu-0"}});
  CHECK(seen->cluster.pods.value()[0].claim_objects.at("gpus") == "w-gpus-x");
  const auto again = ParseObservations(ObservationsToJson(*seen, -1), 1U << 20U);
  REQUIRE(again.has_value());
  CHECK(*again == *seen);

  RecordedServer without;
  REQUIRE(without.Look().has_value());
  for (const std::string& request : without.Requests()) {
    CHECK_FALSE(Has(request, "resource.k8s.io"));
  }
}

TEST_CASE("observe cluster: claims without the right, or the kind, are not looked at or an error") {
  auto denied = WithClaims();
  denied["review:resou"] = Recorded("review-denied");
  RecordedServer server(denied);
  const auto seen = server.Look();
  REQUIRE(seen->cluster.dra.has_value());
  REQUIRE(seen->cluster.dra->slices.not_looked_at());
  CHECK(seen->cluster.dra->slices.why_not().reason ==
        "needs list on resourceslices.resource.k8s.io");
  CHECK(seen->cluster.dra->claims.why_not().reason ==
        "needs list on resourceclaims.resource.k8s.io in namespace ray-train");
  CHECK(seen->cluster.pods.seen());

  auto old = WithClaims();
  old["GET /apis/resource.k8s.io HTTP"] = Recorded("kind-unknown");
  const auto absent = RecordedServer(old).Look();
  REQUIRE(absent->cluster.dra->slices.failed());
  CHECK(absent->cluster.dra->claims.error().code == ErrorCode::kNotFound);
  old["GET /apis/resource.k8s.io HTTP"] =
      JsonReply(200, R"({"kind":"APIGroup","versions":[{"version":"v1alpha3"}]})");
  CHECK(RecordedServer(old).Look()->cluster.dra->slices.error().code == ErrorCode::kUnsupported);

  const auto image = RecordedServer(WithClaims()).Look({Stage::kImage});
  CHECK_FALSE(image->cluster.dra.has_value());
}

TEST_CASE("observe cluster: a 403 says the same, whatever the review said") {
  RecordedServer server({{"GET /api/v1/nodes", Recorded("nodes-forbidden")}});
  const auto seen = server.Look();
  REQUIRE(seen.has_value());
  REQUIRE(seen->cluster.nodes.not_looked_at());
  CHECK(seen->cluster.nodes.why_not().reason.starts_with("needs list on nodes (403 Forbidden: "));
  CHECK(seen->cluster.pods.seen());
}

TEST_CASE("observe cluster: without a right on RayClusters the pods are still looked at") {
  RecordedServer server({{"review:raycl", Recorded("review-denied")}});
  const auto seen = server.Look();
  REQUIRE(seen.has_value());
  CHECK(seen->cluster.ray_clusters.not_looked_at());
  CHECK(seen->cluster.pods.seen());
  bool selected = false;
  for (const std::string& request : server.Requests()) {
    selected = selected || Has(request, "pods?limit=500&labelSelector=ray.io%2Fcluster ");
  }
  CHECK(selected);
}

TEST_CASE("observe cluster: no KubeRay is an error that says so") {
  RecordedServer server({{"GET /apis/ray.io", Recorded("kind-unknown")}});
  const auto seen = server.Look();
  REQUIRE(seen.has_value());
  REQUIRE(seen->cluster.ray_clusters.failed());
  CHECK(seen->cluster.ray_clusters.error().code == ErrorCode::kNotFound);
  CHECK(Has(seen->cluster.ray_clusters.error().message, "KubeRay is not installed"));
  CHECK(seen->cluster.nodes.seen());
}

std::string Clusters(const std::vector<std::string>& names) {
  std::string items;
  for (const std::string& name : names) {
    items +=
        (items.empty() ? "" : ",") + std::string(R"({"metadata":{"namespace":"ray-train",)") +
        R"("name":")" + name +
        R"("},"spec":{"headGroupSpec":{"template":{"spec":{"containers":[{"name":"r","image":"i"}]}}}}})";
  }
  return HttpAnswer(
      200,
      R"({"kind":"RayClusterList","metadata":{"resourceVersion":"1"},"items":[)" + items + "]}",
      "Content-Type: application/json\r\n");
}

TEST_CASE(
    "observe cluster: several RayClusters want a name, and a wrong one is told what is there") {
  RecordedServer server({{"/rayclusters", Clusters({"a", "b"})}});
  const auto several = server.Look();
  REQUIRE_FALSE(several.has_value());
  CHECK(several.error().code == ErrorCode::kInvalidInput);
  CHECK(several.error().message == "2 RayClusters in namespace ray-train: a, b");
  CHECK(Has(several.error().hint, "--ray-cluster"));
  const auto chosen = server.Look(kAll, "b");
  REQUIRE(chosen.has_value());
  REQUIRE(chosen->cluster.ray_clusters.value().size() == 1);
  CHECK(chosen->cluster.ray_clusters.value()[0].name == "b");
  const auto absent = server.Look(kAll, "c");
  REQUIRE_FALSE(absent.has_value());
  CHECK(absent.error().hint == "there is a, b");
  RecordedServer empty({{"/rayclusters", Clusters({})}});
  const auto none = empty.Look();
  REQUIRE_FALSE(none.has_value());
  CHECK(Has(none.error().message, "no RayCluster in namespace ray-train"));
}

TEST_CASE("observe cluster: an object that cannot be read is named, and its list not seen") {
  RecordedServer server(
      {{"GET /api/v1/nodes",
        HttpAnswer(200,
                   R"({"kind":"NodeList","metadata":{},"items":[{"metadata":{"name":"n1"}},)"
                   R"({"metadata":{"name":"n2"},"spec":{"taints":7}}]})",
                   "Content-Type: application/json\r\n")}});
  const auto seen = server.Look();
  REQUIRE(seen.has_value());
  REQUIRE(seen->cluster.nodes.failed());
  CHECK(Has(seen->cluster.nodes.error().message, "/api/v1/nodes/n2: spec.taints: must be a list"));
}

TEST_CASE("observe cluster: a server that answers nothing is asked no more than once a question") {
  RecordedServer server({{"", Recorded("unauthorized")}});
  const auto seen = server.Look();
  REQUIRE(seen.has_value());
  for (const Error* error : {&seen->cluster.ray_clusters.error(), &seen->cluster.pods.error(),
                             &seen->cluster.nodes.error()}) {
    CHECK(Has(error->message, "does not accept the credential"));
  }
  CHECK(server.Requests().size() == 5);
}

TEST_CASE("observe cluster: only what the stages read is asked for") {
  RecordedServer server;
  const auto seen = server.Look({Stage::kCheckpoint});
  REQUIRE(seen.has_value());
  CHECK(seen->cluster.ray_clusters.seen());
  CHECK(seen->cluster.pods.not_looked_at());
  CHECK(seen->cluster.nodes.why_not().reason == "no selected stage reads it");
  CHECK_FALSE(seen->ray.job_objects.has_value());
  CHECK(RightsOf({Stage::kCheckpoint}, "n") ==
        std::vector<KubeRight>{{"list", "ray.io", "rayclusters", "", "n"}});
  CHECK(RightsOf(kAll, "n").size() == 7);
  CHECK(RightsOf({Stage::kImage}, "n").back() == KubeRight{"get", "", "services", "proxy", "n"});
  CHECK(RightsOf({Stage::kNccl}, "n") ==
        std::vector<KubeRight>{{"list", "ray.io", "rayclusters", "", "n"},
                               {"list", "", "pods", "", "n"},
                               {"list", "", "nodes", "", ""},
                               {"list", kDraGroup, "resourceslices", "", ""},
                               {"list", kDraGroup, "resourceclaims", "", "n"}});
  CHECK(IsNeeded("nodes", {Stage::kNccl}));
  CHECK_FALSE(IsNeeded("rayjobs", {Stage::kNccl}));
}

}  // namespace
}  // namespace dlc
