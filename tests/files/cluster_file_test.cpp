#include "probes/control/files/cluster_file.h"

#include <doctest/doctest.h>

#include <string>

namespace dlc {
namespace {

constexpr const char* kCluster = R"(apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: c}
spec:
  headGroupSpec:
    rayStartParams: {}
    template: {spec: {containers: [{name: ray-head}]}}
)";

struct Read {
  Result<void> result;
  ClusterFacts facts;
  std::vector<std::string> notes;
};
Read Parse(std::string_view text, ClusterFacts facts = {}, const std::string& name = "f.yaml") {
  Read read{{}, std::move(facts), {}};
  read.result = ParseClusterFile(text, name, read.facts, read.notes);
  return read;
}

std::string PodJson(const std::string& name, const std::string& extra = "") {
  return R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
         R"(","namespace":"ns","labels":{"ray.io/cluster":"c","ray.io/node-type":"worker"}},)" +
         R"("spec":{"containers":[{"name":"ray-worker"}]})" + extra + "}";
}

TEST_CASE("cluster file: both manifests that AWS publishes are read as they are") {
  for (const char* file : {"raycluster-sample.yaml", "raycluster-release-test.yaml"}) {
    CAPTURE(std::string(file));
    ClusterFacts facts;
    std::vector<std::string> notes;
    const auto result =
        ReadClusterFile(std::string(DLC_TESTDATA) + "/files/aws/" + file, facts, notes);
    REQUIRE_MESSAGE(result, result.error().message);
    CHECK(notes.empty());
    CHECK_FALSE(facts.pods.seen());
    CHECK_FALSE(facts.nodes.seen());
    REQUIRE(facts.ray_clusters.value().size() == 1);
    const RayCluster& cluster = facts.ray_clusters.value()[0];
    CHECK(cluster.name_space == "ray-train");
    CHECK(cluster.ray_version == "2.58.0");
    CHECK_FALSE(cluster.autoscaling);
    CHECK(cluster.head.name == "headgroup");
    CHECK(cluster.head.ray_start_params.at("num-gpus") == "0");
    CHECK(cluster.head.pod.containers[0].env[0] == EnvVar{"NVIDIA_VISIBLE_DEVICES", "void", ""});
    REQUIRE(cluster.workers.size() == 1);
    const RayGroup& workers = cluster.workers[0];
    CHECK(workers.name == "gpu-workers");
    CHECK(workers.replicas == 2);
    CHECK(workers.hosts_per_replica == 1);
    CHECK(workers.ray_start_params.at("num-gpus") == "4");
    CHECK(workers.pod.containers[0].limits.at("nvidia.com/gpu") == "4");
    CHECK(workers.pod.containers[0].limits.at("vpc.amazonaws.com/efa") == "1");
    CHECK(workers.source.line > 1);
  }
  ClusterFacts facts;
  std::vector<std::string> notes;
  REQUIRE(ReadClusterFile(std::string(DLC_TESTDATA) + "/files/aws/raycluster-release-test.yaml",
                          facts, notes));
  const PodSpec& worker = facts.ray_clusters.value()[0].workers[0].pod;
  CHECK(worker.node_selector.at("node-type") == "g6-ray-train");
  REQUIRE(worker.tolerations.size() == 2);
  CHECK(worker.tolerations[1] == Toleration{"aws.amazon.com/efa", "Equal", "true", "NoSchedule"});
  CHECK(worker.volumes[1] == Volume{"fsx-storage", "persistentVolumeClaim", "fsx-lustre-pvc"});
  CHECK(worker.containers[0].mounts[0] == VolumeMount{"fsx-storage", "/fsx", false});
}

TEST_CASE("cluster file: several documents, other kinds and empty ones beside the cluster") {
  const Read read = Parse(std::string("---\n# nothing\n---\napiVersion: v1\nkind: ConfigMap\n"
                                      "data: {script: '{{ not ours }}'}\n---\n") +
                          kCluster + "---\napiVersion: v1\nkind: Service\n");
  REQUIRE_MESSAGE(read.result, read.result.error().message);
  REQUIRE(read.facts.ray_clusters.value().size() == 1);
  CHECK(read.facts.ray_clusters.value()[0].source == Source{"f.yaml", 8});
}

TEST_CASE("cluster file: nothing usable is an error that names the kinds found") {
  const Read read = Parse("kind: Service\napiVersion: v1\n---\nkind: ConfigMap\napiVersion: v1\n");
  REQUIRE_FALSE(read.result);
  CHECK(read.result.error().code == ErrorCode::kInvalidInput);
  CHECK(read.result.error().message ==
        "f.yaml: holds no RayCluster, RayJob, RayService, Pod or Node (found: ConfigMap, Service)");
  CHECK_FALSE(Parse("# only a comment\n").result);
  CHECK_FALSE(Parse("apiVersion: v1\nkind: List\nitems: []\n").result);
  CHECK_FALSE(Parse("just text\n").result);
  CHECK_FALSE(Parse("kind: RayCluster\napiVersion: example.com/v1\n").result);
}

TEST_CASE("cluster file: an empty PodList is pods that were seen and are none") {
  for (const char* items : {"[]", "null"}) {
    const Read read =
        Parse(R"({"apiVersion":"v1","kind":"PodList","items":)" + std::string(items) + "}");
    REQUIRE(read.result);
    CHECK(read.facts.pods.value().empty());
    CHECK_FALSE(read.facts.ray_clusters.seen());
  }
}

TEST_CASE("cluster file: lists of every form, items with and without a kind") {
  const Read typed = Parse(R"({"apiVersion":"v1","kind":"List","items":[)" + PodJson("a") + "," +
                           R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}]})");
  REQUIRE_MESSAGE(typed.result, typed.result.error().message);
  CHECK(typed.facts.pods.value().size() == 1);
  CHECK(typed.facts.nodes.value().size() == 1);

  // As the API answers: items of a PodList carry no kind.
  const Read raw = Parse(
      R"({"apiVersion":"v1","kind":"NodeList","items":[{"metadata":{"name":"n"}},{"metadata":{"name":"m"}}]})");
  REQUIRE(raw.result);
  CHECK(raw.facts.nodes.value().size() == 2);

  const Read clusters = Parse(
      R"({"apiVersion":"ray.io/v1","kind":"RayClusterList","items":[{"metadata":{"name":"c"},"spec":
      {"headGroupSpec":{"template":{"spec":{"containers":[{"name":"h"}]}}}}}]})");
  REQUIRE_MESSAGE(clusters.result, clusters.result.error().message);
  CHECK(clusters.facts.ray_clusters.value()[0].name_space == "default");

  const Read bare = Parse("[" + PodJson("a") + "," + PodJson("b") + "]");
  REQUIRE(bare.result);
  CHECK(bare.facts.pods.value().size() == 2);
}

TEST_CASE("cluster file: clusters inside RayJob and RayService, by the name that status gives") {
  const std::string head =
      "{headGroupSpec: {template: {spec: {containers: [{name: h}]}}}, rayVersion: 2.58.0}";
  const Read job = Parse(
      "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: j}\nspec: "
      "{rayClusterSpec: " +
      head + "}\nstatus: {rayClusterName: j-x7k2p}\n");
  REQUIRE_MESSAGE(job.result, job.result.error().message);
  CHECK(job.facts.ray_clusters.value()[0].name == "j-x7k2p");
  CHECK(job.facts.ray_clusters.value()[0].ray_version == "2.58.0");

  const Read service = Parse(
      "apiVersion: ray.io/v1\nkind: RayService\nmetadata: {name: s}\nspec: "
      "{rayClusterConfig: " +
      head + "}\n");
  REQUIRE(service.result);
  CHECK(service.facts.ray_clusters.value()[0].name == "s");

  const Read selected = Parse(
      "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: j}\nspec: "
      "{clusterSelector: {ray.io/cluster: c}}\n");
  REQUIRE_FALSE(selected.result);
  CHECK(selected.result.error().message.find("found: RayJob") != std::string::npos);
}

TEST_CASE("cluster file: v1alpha1 is read, with a note") {
  std::string text = kCluster;
  text.replace(text.find("ray.io/v1"), 9, "ray.io/v1alpha1");
  const Read read = Parse(text);
  REQUIRE(read.result);
  REQUIRE(read.notes.size() == 1);
  CHECK(read.notes[0] == "f.yaml: RayCluster of ray.io/v1alpha1 is read as ray.io/v1");
}

TEST_CASE("cluster file: files add up, an object given twice is an error that names both places") {
  const Read first = Parse(kCluster);
  const Read second = Parse(PodJson("a"), first.facts, "pods.json");
  REQUIRE(second.result);
  CHECK(second.facts.ray_clusters.value().size() == 1);
  CHECK(second.facts.pods.value().size() == 1);

  const Read again = Parse(kCluster, second.facts, "again.yaml");
  REQUIRE_FALSE(again.result);
  CHECK(again.result.error().message ==
        "again.yaml: line 3: metadata: RayCluster default/c is also in f.yaml, line 1");
  CHECK(again.facts == second.facts);  // unchanged on an error

  CHECK_FALSE(Parse("[" + PodJson("a") + "," + PodJson("a") + "]").result);
}

TEST_CASE("cluster file: resource slices and claims, as v1 and v1beta1 write them") {
  const Read read = Parse(R"(apiVersion: v1
kind: List
items:
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {name: s}
  spec:
    driver: dra.net
    nodeName: n
    pool: {name: p, generation: 2, resourceSliceCount: 1}
    devices: [{name: efa-0, attributes: {dra.net/pciDevice: {string: Elastic Fabric Adapter (EFA)}, x: {int: 1}}}]
- apiVersion: resource.k8s.io/v1beta1
  kind: ResourceSlice
  metadata: {name: t}
  spec:
    driver: gpu.nvidia.com
    nodeName: n
    pool: {name: n}
    devices: [{name: gpu-0, basic: {attributes: {type: {string: gpu}}}}, {name: bare}]
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaim
  metadata: {name: c, namespace: ns}
  status: {allocation: {devices: {results: [{request: r, driver: gpu.nvidia.com, pool: n, device: gpu-0}, {request: m, driver: gpu.nvidia.com, pool: n, device: gpu-1, adminAccess: true}]}}}
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaim
  metadata: {name: waiting, namespace: ns}
)");
  REQUIRE(read.result.has_value());
  REQUIRE(read.facts.dra.has_value());
  const auto& slices = read.facts.dra->slices.value();
  REQUIRE(slices.size() == 2);
  CHECK(slices[0].devices == std::vector<SliceDevice>{{"efa-0", "Elastic Fabric Adapter (EFA)"}});
  CHECK(slices[0].generation == 2);
  CHECK(slices[1].devices == std::vector<SliceDevice>{{"gpu-0", "gpu"}, {"bare", ""}});
  const auto& claims = read.facts.dra->claims.value();
  REQUIRE(claims.size() == 2);
  CHECK(claims[0].devices == std::vector<ClaimedDevice>{{"r", "gpu.nvidia.com", "n", "gpu-0"}});
  CHECK(claims[0].allocated);
  CHECK_FALSE(claims[1].allocated);
  CHECK_FALSE(Parse(kCluster).facts.dra.has_value());

  const Read again = Parse(R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim",)"
                           R"("metadata":{"name":"c","namespace":"ns"}})",
                           read.facts);
  REQUIRE_FALSE(again.result.has_value());
  CHECK(again.result.error().message.find("ResourceClaim ns/c is also in f.yaml") !=
        std::string::npos);
  const Read broken = Parse(R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice",)"
                            R"("metadata":{"name":"s"},"spec":{"driver":"d","devices":7}})");
  CHECK_FALSE(broken.result.has_value());
}

TEST_CASE("cluster file: pods that are not Ray's are left out, and that is told") {
  const Read read = Parse(
      R"({"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"db"},"spec":{}},)" +
      PodJson("a") + "]}");
  REQUIRE_MESSAGE(read.result, read.result.error().message);
  CHECK(read.facts.pods.value().size() == 1);
  CHECK(read.notes.at(0) == "f.yaml: 1 pods without label ray.io/cluster left out");
}

TEST_CASE("cluster file: a saved error answer is an error, not an empty cluster") {
  const Read read = Parse(
      R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods is forbidden","code":403})");
  REQUIRE_FALSE(read.result);
  CHECK(read.result.error().message.find("pods is forbidden") != std::string::npos);
}

TEST_CASE("cluster file: wrong types name file, line and path") {
  struct Row {
    const char* from;
    const char* to;
    const char* message;
  };
  const Row rows[] = {
      {"metadata: {name: c}", "metadata: [c]",
       "f.yaml: line 3: metadata: must be a map, not a list"},
      {"metadata: {name: c}", "metadata: {}", "f.yaml: line 3: metadata.name: is missing"},
      {"    rayStartParams: {}", "    rayStartParams: {num-gpus: [4]}",
       "f.yaml: line 6: spec.headGroupSpec.rayStartParams.num-gpus: must be text, not a list"},
      {"{containers: [{name: ray-head}]}", "{containers: []}",
       "f.yaml: line 7: spec.headGroupSpec.template.spec.containers: must hold at least the Ray "
       "container"},
      {"{containers: [{name: ray-head}]}", "{containers: [{image: x}]}",
       "f.yaml: line 7: spec.headGroupSpec.template.spec.containers[0].name: is missing"},
      {"{containers: [{name: ray-head}]}", "{containers: {name: x}}",
       "f.yaml: line 7: spec.headGroupSpec.template.spec.containers: must be a list, not a map"},
      {"template: {spec:", "other: {spec:",
       "f.yaml: line 6: spec.headGroupSpec.template: must hold a pod spec (template.spec)"},
      {"  headGroupSpec:", "  headGroup:", "f.yaml: line 5: spec.headGroupSpec: is missing"},
      {"spec:\n", "spec:\n  suspend: 'true'\n",
       "f.yaml: line 5: spec.suspend: must be true or false, not 'true'"},
      {"spec:\n", "spec:\n  workerGroupSpecs: [{groupName: g, replicas: two}]\n",
       "f.yaml: line 5: spec.workerGroupSpecs[0].replicas: must be a whole number, not 'two'"},
      {"spec:\n", "spec:\n  workerGroupSpecs: [{groupName: g, replicas: -1}]\n",
       "f.yaml: line 5: spec.workerGroupSpecs[0].replicas: must be from 0 to 2147483647, not -1"},
      {"spec:\n", "spec:\n  workerGroupSpecs: [{replicas: 1}]\n",
       "f.yaml: line 5: spec.workerGroupSpecs[0].groupName: is missing"},
      {"spec:\n", "spec:\n  workerGroupSpecs: [text]\n",
       "f.yaml: line 5: spec.workerGroupSpecs[0]: must be a map, not 'text'"},
  };
  for (const Row& row : rows) {
    std::string text = kCluster;
    CAPTURE(std::string(row.to));
    text.replace(text.find(row.from), std::string(row.from).size(), row.to);
    const Read read = Parse(text);
    REQUIRE_FALSE(read.result);
    CHECK(read.result.error().code == ErrorCode::kInvalidInput);
    CHECK(read.result.error().message == row.message);
    CHECK_FALSE(read.facts.ray_clusters.seen());
  }
}

TEST_CASE("cluster file: templates and variables that nobody filled in are refused") {
  struct Row {
    const char* from;
    const char* to;
  };
  const Row rows[] = {
      {"metadata: {name: c}", "metadata: {name: '{{ .Release.Name }}'}"},
      {"metadata: {name: c}", "metadata: {name: {{ .Release.Name }}}"},
      {"rayStartParams: {}", "rayStartParams: {num-gpus: '${GPUS}'}"},
      {"{name: ray-head}", "{name: h, image: '${IMAGE}'}"},
      {"{name: ray-head}", "{name: h, resources: {limits: {nvidia.com/gpu: '{{ .Values.n }}'}}}"},
      {"spec:\n", "spec:\n  workerGroupSpecs: [{groupName: g, replicas: '${N}'}]\n"},
      {"spec:\n", "spec:\n  workerGroupSpecs:\n    - groupName: g\n      replicas: {{ .n }}\n"},
  };
  for (const Row& row : rows) {
    std::string text = kCluster;
    CAPTURE(std::string(row.to));
    text.replace(text.find(row.from), std::string(row.from).size(), row.to);
    const Read read = Parse(text);
    REQUIRE_FALSE(read.result);
    CAPTURE(read.result.error().message);
    CAPTURE(read.result.error().hint);
    CHECK(read.result.error().hint.find("rendered manifest") != std::string::npos);
  }
}

TEST_CASE("cluster file: ten thousand pods in one list are all read") {
  std::string text = R"({"apiVersion":"v1","kind":"PodList","items":[)";
  for (int i = 0; i < 10'000; ++i) {
    text += (i == 0 ? "" : ",") + PodJson("pod-" + std::to_string(i));
  }
  const Read read = Parse(text + "]}", {}, "pods.json");
  REQUIRE(read.result);
  CHECK(read.facts.pods.value().size() == 10'000);
}

TEST_CASE("cluster file: a missing file is its own error") {
  ClusterFacts facts;
  std::vector<std::string> notes;
  const auto result = ReadClusterFile(std::string(DLC_TESTDATA) + "/files/none.yaml", facts, notes);
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::kNotFound);
}

}  // namespace
}  // namespace dlc
