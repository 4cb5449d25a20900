#include "cmd/dlc-check/config.h"

#include <doctest/doctest.h>

#include <string>

namespace dlc {
namespace {

const std::string kHead = "apiVersion: dlc-check/v1\nkind: Config\n";  // two lines

Config Read(const std::string& body, const std::string& file = "examples/local/dlc-check.yaml") {
  const auto config = ParseConfig(kHead + body, file);
  REQUIRE_MESSAGE(config.has_value(), config.error().message);
  return *config;
}

std::string Problem(const std::string& body) {
  const auto config = ParseConfig(kHead + body, "c.yaml");
  if (config) {
    return "ok";
  }
  CHECK(config.error().code == ErrorCode::kInvalidInput);
  return config.error().message +
         (config.error().hint.empty() ? "" : " (" + config.error().hint + ")");
}

TEST_CASE("config: target ray") {
  const Config config = Read(
      "target: {type: ray, ranks: 8, gpusPerRank: 0, placement: strict-spread, waitSeconds: 90,\n"
      "         leaseSeconds: 5, timeoutSeconds: 7}\n");
  CHECK(config.target.ranks == 8);
  CHECK(config.target.ray.gpus_per_rank == 0);
  CHECK(config.target.ray.placement == "strict-spread");
  CHECK(config.target.ray.wait == std::chrono::seconds(90));
  CHECK(config.target.ray.lease == std::chrono::seconds(5));
  const RayTargetConfig usual = Read("target: {type: ray, ranks: 1}\n").target.ray;
  CHECK(usual.gpus_per_rank == 1);
  CHECK(usual.placement == "pack");
  CHECK(usual.wait == std::chrono::seconds(300));
  CHECK(usual.lease == std::chrono::seconds(60));

  CHECK(Problem("target: {type: ray}\n").starts_with("c.yaml: line 3: "));
  CHECK(Problem("target: {type: ray}\n").find("ranks") != std::string::npos);
  for (const char* key :
       {"gpusPerRank: 1", "placement: pack", "waitSeconds: 1", "leaseSeconds: 5"}) {
    const std::string problem = Problem("target:\n  type: local\n  " + std::string(key) + "\n");
    CHECK_MESSAGE(
        problem.find("c.yaml: line 5: 'target." + std::string(key, std::string(key).find(':')) +
                     "' is only for target type ray, not local") != std::string::npos,
        problem);
  }
  for (const char* bad :
       {"gpusPerRank: 2", "placement: spread", "waitSeconds: 0", "leaseSeconds: 4"}) {
    const std::string problem =
        Problem("target:\n  type: ray\n  ranks: 1\n  " + std::string(bad) + "\n");
    CHECK_MESSAGE(problem.starts_with("c.yaml: line 6: 'target."), problem);
  }
  CHECK(Problem("target: {type: ray, ranks: 1}\ncheckpoint: {path: shared}\n")
            .find("c.yaml: line 4: checkpoint.path must start with '/': 'shared' is opened on the "
                  "nodes") != std::string::npos);
  CHECK(Problem("target: {type: ray, ranks: 1}\nnccl: {library: libnccl.so}\n")
            .find("line 4: nccl.library") != std::string::npos);
}

TEST_CASE("config: every key reaches its field") {
  const std::string body = R"(
target: {type: replay, ranks: 4, observations: saved.json}
image:
  reference: public.ecr.aws/deep-learning-containers/ray:train-ml-cuda
  manifests: [raycluster.yaml, /abs/pods.json]
  registry: {ca: ca.pem, plainHttp: false, timeoutSeconds: 90}
cluster:
  name: ray-train-cluster
  namespace: ray-train
  manifests: [nodes.json, raycluster.yaml]
  kubeconfig: ../kubeconfig
  context: admin
ray: {version: v.json, nodes: n.json, podVersions: p.json, jobs: [a.json, b.json], runtimeEnv: e.json}
checkpoint: {path: /fsx/check}
gpu: {seconds: 2.5, memoryShare: 0.5}
workload: {model: qwen2-tiny, workers: 8, gpusPerWorker: 1, nodes: 2, steps: 4, code: train.py, config: w.yaml}
policy: {gpu: {total: 8}}
)";
  const Config config = Read(body, "dir/c.yaml");
  CHECK(config.file == "dir/c.yaml");
  CHECK(config.bytes == kHead + body);
  CHECK(config.gpu.seconds == 2.5);
  CHECK(config.gpu.memory_share == 0.5);
  CHECK(config.target.type.text == "replay");
  CHECK(config.target.type.line == 4);
  CHECK(config.target.ranks == 4);
  CHECK(config.target.observations.path == "dir/saved.json");
  CHECK(config.image.reference.text == "public.ecr.aws/deep-learning-containers/ray:train-ml-cuda");
  CHECK(config.image.reference.line == 6);
  REQUIRE(config.image.manifests.size() == 2);
  CHECK(config.image.manifests[0].path == "dir/raycluster.yaml");
  CHECK(config.image.manifests[0].written == "raycluster.yaml");
  CHECK(config.image.manifests[0].line == 7);
  CHECK(config.image.manifests[1].path == "/abs/pods.json");
  CHECK(config.image.registry.ca.path == "dir/ca.pem");
  CHECK_FALSE(config.image.registry.plain_http);
  CHECK(config.image.registry.timeout == std::chrono::seconds(90));
  CHECK(config.cluster.name.text == "ray-train-cluster");
  CHECK(config.cluster.name_space.text == "ray-train");
  CHECK(config.cluster.kubeconfig.path == "dir/../kubeconfig");
  CHECK(config.cluster.context.text == "admin");
  REQUIRE(config.Manifests().size() == 3);
  CHECK(config.Manifests()[2].path == "dir/nodes.json");
  CHECK(config.ray.version.path == "dir/v.json");
  CHECK(config.ray.nodes.path == "dir/n.json");
  CHECK(config.ray.pod_versions.path == "dir/p.json");
  REQUIRE(config.ray.jobs.size() == 2);
  CHECK(config.ray.jobs[1].path == "dir/b.json");
  CHECK(config.ray.runtime_env.path == "dir/e.json");
  CHECK(config.checkpoint_path.path == "/fsx/check");
  CHECK(config.workload.workload == Workload{"qwen2-tiny", 8, 1, 2, 4});
  CHECK(config.workload.code.path == "dir/train.py");
  CHECK(config.workload.config.path == "dir/w.yaml");
  REQUIRE(config.policy.has_value());
  CHECK(config.policy->gpu.total == 8);
}

TEST_CASE("config: a dashboard's address, and no saved answer of it beside") {
  const Config config = Read(
      "ray: {address: http://head:8265, ca: ca.pem, timeoutSeconds: 7, podVersions: p.json, "
      "runtimeEnv: e.json}\n",
      "dir/c.yaml");
  CHECK(config.ray.address.text == "http://head:8265");
  CHECK(config.ray.address.line == 3);
  CHECK(config.ray.ca.path == "dir/ca.pem");
  CHECK(config.ray.timeout == std::chrono::seconds(7));
  CHECK(config.ray.SavedAnswer().empty());
  for (const char* key : {"version: v.json", "nodes: n.json", "jobs: [j.json]"}) {
    CAPTURE(key);
    const std::string problem =
        Problem("ray: {address: http://head:8265, " + std::string(key) + "}\n");
    CHECK(problem.find("c.yaml: line 3: 'ray.address' cannot be used with ray.") == 0);
  }
  CHECK(Problem("ray: {timeoutSeconds: 0}\n") != "ok");
}

TEST_CASE("config: what is absent is told apart from what is given") {
  const Config config = Read("");
  CHECK(config.target.type.empty());
  CHECK(config.image.reference.empty());
  CHECK(config.Manifests().empty());
  CHECK_FALSE(config.image.registry.timeout.has_value());
  CHECK_FALSE(config.target.timeout.has_value());
  CHECK(config.target.planted_faults.empty());
  CHECK(config.checkpoint_path.empty());
  CHECK_FALSE(config.policy.has_value());
  CHECK(Read("policy:\n").policy.has_value());
}

TEST_CASE("config: relative paths start at the directory of the config") {
  const auto manifest = [](const std::string& file) {
    return Read("image: {manifests: [m.yaml]}", file).image.manifests[0].path;
  };
  CHECK(manifest("c.yaml") == "m.yaml");
  CHECK(manifest("./c.yaml") == "./m.yaml");
  CHECK(manifest("a/b/c.yaml") == "a/b/m.yaml");
  CHECK(manifest("/c.yaml") == "/m.yaml");
  CHECK(manifest("/etc/x/c.yaml") == "/etc/x/m.yaml");
}

TEST_CASE("config: the directory of an OCI layout is a path, a registry's reference is not") {
  const auto reference = [](const std::string& text) {
    return Read("image: {reference: \"" + text + "\"}", "a/c.yaml").image.reference.text;
  };
  CHECK(reference("oci:image") == "oci:a/image");
  CHECK(reference("oci:image:v1.1") == "oci:a/image:v1.1");
  CHECK(reference("oci:/srv/image") == "oci:/srv/image");
  CHECK(reference("localhost:5000/ray:train") == "localhost:5000/ray:train");
}

TEST_CASE("config: what this version may not run is read all the same") {
  for (const char* type : {"local", "env", "ray"}) {
    CHECK(Read("target: {type: " + std::string(type) + ", ranks: 1}").target.type.text == type);
  }
}

TEST_CASE("config: faults to plant are read with their lines") {
  const Config config = Read(
      "target:\n  type: local\n  ranks: 3\n  timeoutSeconds: 5\n  plantedFaults:\n"
      "  - {rank: 1, step: storage-shared, kind: other-directory, path: other}\n"
      "  - {rank: 2, kind: wrong-secret}\n",
      "dir/c.yaml");
  CHECK(config.target.timeout == std::chrono::seconds(5));
  const auto& faults = config.target.planted_faults;
  REQUIRE(faults.size() == 2);
  CHECK(faults[0].fault == PlantedFault{1, "storage-shared", "other-directory", "dir/other"});
  CHECK(faults[0].line == 8);
  CHECK(faults[1].fault == PlantedFault{2, "", "wrong-secret", ""});
}

TEST_CASE("config: what is wrong is said with line, key and hint") {
  struct Row {
    std::string body;
    const char* problem;
  };
  const Row rows[] = {
      {"taget: {type: local}\n", "c.yaml: line 3: unknown key 'taget' (did you mean 'target'?)"},
      {"target: {type: locl}\n",
       "c.yaml: line 3: 'target.type' must be one of local, env, replay, ray, not 'locl' (did you "
       "mean 'local'?)"},
      {"target: {ranks: 4}\n", "c.yaml: line 3: key 'type' is missing in 'target'"},
      {"target:\n", "c.yaml: line 3: key 'type' is missing in 'target'"},
      {"target: {type: local, ranks: 0}\n",
       "c.yaml: line 3: 'target.ranks' must be a whole number from 1 to 100000, not '0'"},
      {"target: {type: local, timeoutSeconds: 0}\n",
       "c.yaml: line 3: 'target.timeoutSeconds' must be a whole number from 1 to 86400, not '0'"},
      {"gpu: {seconds: 0}\n",
       "c.yaml: line 3: 'gpu.seconds' must be a number from 0.1 to 600, not '0'"},
      {"gpu: {memoryShare: 0.95}\n",
       "c.yaml: line 3: 'gpu.memoryShare' must be a number from 0.001 to 0.9, not '0.95'"},
      {"target: {type: local, plantedFaults: exit}\n",
       "c.yaml: line 3: 'target.plantedFaults' must be a list, not 'exit'"},
      {"target:\n  type: local\n  ranks: 2\n  plantedFaults:\n  - {rank: 2, kind: exit}\n",
       "c.yaml: line 7: 'target.plantedFaults[0].rank' must be a whole number from 0 to 1, not "
       "'2'"},
      {"target: {type: local, plantedFaults: [{kind: exit}]}\n",
       "c.yaml: line 3: key 'rank' is missing in 'target.plantedFaults[0]'"},
      {"target: {type: local, plantedFaults: [{rank: 0}]}\n",
       "c.yaml: line 3: key 'kind' is missing in 'target.plantedFaults[0]'"},
      {"target: {type: local, plantedFaults: [{rank: 0, kind: slep, step: meet}]}\n",
       "c.yaml: line 3: 'target.plantedFaults[0].kind' must be one of exit, crash, kill, sleep, "
       "exit-rank, other-directory, flip-bit, flip-transfer, flip-host-copy, flip-product, "
       "wrong-average, skipped-shard, padding-leak, stale-gather, dropped-micro-batch, "
       "lost-moments, stale-step, corrupt-shard, wrong-seed, not 'slep' (did you mean 'sleep'?)"},
      {"target: {type: local, plantedFaults: [{rank: 0, kind: sleep}]}\n",
       "c.yaml: line 3: 'target.plantedFaults[0].kind' must be one of never-arrive, wrong-secret, "
       "exit, not 'sleep'"},
      {"target: {type: local, plantedFaults: [{rank: 0, kind: exit, path: /x}]}\n",
       "c.yaml: line 3: 'target.plantedFaults[0].path' is only for faults of kind "
       "other-directory"},
      {"target: {type: local, plantedFaults: [{rank: 0, kind: other-directory, step: s}]}\n",
       "c.yaml: line 3: key 'path' is missing in 'target.plantedFaults[0]'"},
      {"target: {type: local, plantedFaults: [{rank: 0, kind: exit, wher: s}]}\n",
       "c.yaml: line 3: unknown key 'wher' in 'target.plantedFaults[0]' (known keys: rank, step, "
       "kind, path)"},
      {"target: {type: replay}\n", "c.yaml: line 3: key 'observations' is missing in 'target'"},
      {"target: {type: local, observations: x.json}\n",
       "c.yaml: line 3: 'target.observations' is only for target type replay, not local"},
      {"image:\n  reference: Not/A/Reference\n",
       "c.yaml: line 4: 'image.reference': image reference 'Not/A/Reference': 'Not/A/Reference' is "
       "not a repository name (lower case, digits, . _ - /) (expected "
       "[host[:port]/]repository[:tag][@sha256:...] or oci:DIRECTORY[:tag])"},
      {"image:\n  reference: 'oci:'\n",
       "c.yaml: line 4: 'image.reference': image reference 'oci:': no directory after 'oci:' "
       "(expected [host[:port]/]repository[:tag][@sha256:...] or oci:DIRECTORY[:tag])"},
      {"image: {manifests: a.yaml}\n",
       "c.yaml: line 3: 'image.manifests' must be a list, not 'a.yaml'"},
      {"image:\n  manifests:\n  - a.yaml\n  - [b]\n",
       "c.yaml: line 6: 'image.manifests[1]' must be text, not a list"},
      {"image:\n  manifests:\n  - a.yaml\n  - ''\n",
       "c.yaml: line 6: 'image.manifests[1]' must not be empty (remove the key)"},
      {"image:\n  manifests: [a.yaml, a.yaml]\n",
       "c.yaml: line 4: 'image.manifests[1]' is given twice"},
      {"image: {manifests: [~/a.yaml]}\n",
       "c.yaml: line 3: 'image.manifests[0]' cannot start with '~': only a shell expands it (write "
       "the path out, or relative to this file)"},
      {"image: {registry: {plainHttp: yes}}\n",
       "c.yaml: line 3: 'image.registry.plainHttp' must be true or false, not 'yes' (write true)"},
      {"image: {registry: {timeoutSeconds: 0}}\n",
       "c.yaml: line 3: 'image.registry.timeoutSeconds' must be a whole number from 1 to 86400, "
       "not "
       "'0'"},
      {"image: {registry: {timeoutSeconds: 1.5}}\n",
       "c.yaml: line 3: 'image.registry.timeoutSeconds' must be a whole number, not '1.5'"},
      {"image: {registry: {plainHttp: true, ca: ca.pem}}\n",
       "c.yaml: line 3: 'image.registry.ca' cannot be used with plainHttp (remove one of them)"},
      {"image: {registry: {insecureSkipTlsVerify: true}}\n",
       "c.yaml: line 3: unknown key 'insecureSkipTlsVerify' in 'image.registry' (known keys: ca, "
       "plainHttp, timeoutSeconds)"},
      {"cluster: {name: ''}\n",
       "c.yaml: line 3: 'cluster.name' must not be empty (remove the key)"},
      {"cluster: {kubeConfig: x, nmae: x}\n",
       "c.yaml: line 3: unknown key 'kubeConfig' in 'cluster' (did you mean 'kubeconfig'?)"},
      {"ray: {jobs: {}}\n", "c.yaml: line 3: 'ray.jobs' must be a list, not a map"},
      {"checkpoint: /fsx\n", "c.yaml: line 3: 'checkpoint' must be a map, not '/fsx'"},
      {"workload: {steps: many}\n",
       "c.yaml: line 3: 'workload.steps' must be a whole number, not 'many'"},
      {"policy:\n  gpu:\n    totall: 8\n",
       "c.yaml: line 5: unknown key 'totall' in 'policy.gpu' (did you mean 'total'?)"},
      {"policy: none\n", "c.yaml: line 3: 'policy' must be a map, not 'none'"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.body);
    CHECK(Problem(row.body) == row.problem);
  }
  CHECK(ParseConfig("apiVersion: dlc-check/v1\nkind: Policy\n", "c.yaml").error().message ==
        "c.yaml: line 2: 'kind' must be Config, not 'Policy'");
}

TEST_CASE("config: a missing file is named") {
  const auto config = ReadConfig("no/such/config.yaml");
  REQUIRE_FALSE(config.has_value());
  CHECK(config.error() == Error{ErrorCode::kNotFound, "no/such/config.yaml: no such file", ""});
}

}  // namespace
}  // namespace dlc
