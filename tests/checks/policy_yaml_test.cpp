#include "checks/policy_yaml.h"

#include <doctest/doctest.h>

#include <string>

namespace dlc {
namespace {

const std::string kHead = "apiVersion: dlc-check/v1\nkind: Policy\n";  // two lines
const std::string kDigestA = "sha256:" + std::string(64, 'a');
const std::string kDigestB = "sha256:" + std::string(64, 'b');

Policy Read(const std::string& body) {
  const auto policy = ParsePolicy(kHead + body, "p.yaml");
  REQUIRE_MESSAGE(policy.has_value(), policy.error().message);
  return *policy;
}

std::string ProblemOfFile(const std::string& bytes) {
  const auto policy = ParsePolicy(bytes, "p.yaml");
  if (policy) {
    return "ok";
  }
  CHECK(policy.error().code == ErrorCode::kInvalidInput);
  return policy.error().message +
         (policy.error().hint.empty() ? "" : " (" + policy.error().hint + ")");
}

std::string Problem(const std::string& body) {
  return ProblemOfFile(kHead + body);
}

TEST_CASE("policy: every key reaches its field") {
  const Policy policy = Read(R"(
metadata: {name: two-nodes}
stages: [image, gpu]
image:
  digests: [)" + kDigestA + ", " +
                             kDigestB +
                             R"(]
  platform: linux/arm64
  labels: {framework: ray, dlc_major_version: 1}
  containerType: training
  efaInstaller: 1.49.0
  releases:
    - name: v1.1
      digest: )" + kDigestA + R"(
      contents: {ray: 2.58.0, efa-installer: 1.49.0}
      knownProblems: [one, two]
    - {name: v1.0, digest: ")" +
                             kDigestB + R"("}
ray: {version: 2.58.0, python: 3.10}
jobPackages:
  protected: [Torch, "nvidia_*", "*"]
  imagePackages: {Flash_Attn: 2.8.3, torch: 2.9.0}
  allowed: [tensorboard]
gpu:
  perWorkerPod: 4
  workerPods: 2
  total: 8
  resource: amd.com/gpu
  devices: required
  model: L4
  minMemoryBytes: 2.3e10
  minDriver: 580.65.06
  maxUsedMemoryShare: 0.05
  minCopyBytesPerSecond: 2e11
  minHostCopyBytesPerSecond: 1e10
  minProductOperationsPerSecond: 3e13
  minShareOfMedian: 0.8
  peerAccess: required
  minNvLinks: 18
fabric:
  efa: no
  interfacesPerWorkerPod: 1
  resource: example.com/efa
  provider: efa
  minPairBandwidth: {sizeBytes: 1048576, bytesPerSecond: 1.5e9}
  maxPairLatency: {sizeBytes: 8, seconds: 0.00003}
  minBusBandwidth:
    - {collective: all_reduce, sizeBytes: 67108864, bytesPerSecond: 2e9}
    - {collective: all_gather, sizeBytes: 67108864, bytesPerSecond: 1e9}
severity: {image-release: warn, image-release/known-problems: off, coverage: required}
)");
  CHECK(policy.name == "two-nodes");
  CHECK(policy.stages == std::vector<Stage>{Stage::kImage, Stage::kGpu});
  REQUIRE(policy.image.digests.size() == 2);
  CHECK(policy.image.digests[1].ToString() == kDigestB);
  CHECK(policy.image.platform == "linux/arm64");
  CHECK(policy.image.labels ==
        std::map<std::string, std::string>{{"framework", "ray"}, {"dlc_major_version", "1"}});
  CHECK(policy.image.container_type == "training");
  CHECK(policy.image.efa_installer == "1.49.0");
  REQUIRE(policy.image.releases.size() == 2);
  CHECK(policy.image.releases[0].name == "v1.1");
  CHECK(policy.image.releases[0].digest.ToString() == kDigestA);
  CHECK(policy.image.releases[0].contents.at("efa-installer") == "1.49.0");
  CHECK(policy.image.releases[0].known_problems == std::vector<std::string>{"one", "two"});
  CHECK(policy.image.releases[1].digest.ToString() == kDigestB);
  CHECK(policy.ray.version == "2.58.0");
  CHECK(policy.ray.python == "3.10");
  CHECK(policy.job_packages.protected_names == std::vector<std::string>{"torch", "nvidia-*", "*"});
  CHECK(policy.job_packages.image_packages ==
        std::map<std::string, std::string>{{"flash-attn", "2.8.3"}, {"torch", "2.9.0"}});
  CHECK(policy.job_packages.allowed == std::vector<std::string>{"tensorboard"});
  CHECK(policy.gpu.per_worker_pod == 4);
  CHECK(policy.gpu.worker_pods == 2);
  CHECK(policy.gpu.total == 8);
  CHECK(policy.gpu.resource == "amd.com/gpu");
  CHECK(policy.gpu.devices == "required");
  CHECK(policy.gpu.model == "L4");
  CHECK(policy.gpu.min_memory_bytes == 23'000'000'000);
  CHECK(policy.gpu.min_driver == "580.65.06");
  CHECK(policy.gpu.max_used_memory_share == 0.05);
  CHECK(policy.gpu.min_copy_bytes_per_second == 2e11);
  CHECK(policy.gpu.min_host_copy_bytes_per_second == 1e10);
  CHECK(policy.gpu.min_product_operations_per_second == 3e13);
  CHECK(policy.gpu.min_share_of_median == 0.8);
  CHECK(policy.gpu.peer_access == "required");
  CHECK(policy.gpu.min_nvlinks == 18);
  CHECK(policy.fabric.efa == "no");
  CHECK(policy.fabric.interfaces_per_worker_pod == 1);
  CHECK(policy.fabric.resource == "example.com/efa");
  CHECK(policy.fabric.provider == "efa");
  REQUIRE(policy.fabric.min_pair_bandwidth.has_value());
  CHECK(policy.fabric.min_pair_bandwidth->size_bytes == 1048576);
  CHECK(policy.fabric.min_pair_bandwidth->bytes_per_second == 1.5e9);
  REQUIRE(policy.fabric.max_pair_latency.has_value());
  CHECK(policy.fabric.max_pair_latency->size_bytes == 8);
  CHECK(policy.fabric.max_pair_latency->seconds == 0.00003);
  REQUIRE(policy.fabric.min_bus_bandwidth.size() == 2);
  CHECK(policy.fabric.min_bus_bandwidth[1].collective == "all_gather");
  CHECK(policy.fabric.min_bus_bandwidth[1].size_bytes == 67108864);
  CHECK(policy.fabric.min_bus_bandwidth[1].bytes_per_second == 1e9);
  CHECK(policy.severity ==
        std::map<std::string, Severity>{{"coverage", Severity::kRequired},
                                        {"image-release", Severity::kWarn},
                                        {"image-release/known-problems", Severity::kOff}});
}

void CheckIsDefault(const Policy& policy) {
  const Policy built_in;
  CHECK(policy.name.empty());
  CHECK(policy.stages.empty());
  CHECK(policy.image.digests.empty());
  CHECK(policy.image.platform == "linux/amd64");
  CHECK(policy.job_packages.protected_names == built_in.job_packages.protected_names);
  CHECK(policy.gpu.resource == "nvidia.com/gpu");
  CHECK(policy.fabric.efa == "when-available");
  CHECK(policy.fabric.provider.empty());
  CHECK_FALSE(policy.fabric.min_pair_bandwidth.has_value());
  CHECK_FALSE(policy.fabric.max_pair_latency.has_value());
  CHECK(policy.fabric.min_bus_bandwidth.empty());
  CHECK(policy.severity.empty());
}

TEST_CASE("policy: what is absent keeps its default") {
  CheckIsDefault(Read(""));
  CheckIsDefault(Read("image:\nray:\ngpu: {}\nseverity:\n"));
  CheckIsDefault(*ParsePolicy(kDefaultPolicyText, "built-in"));
}

TEST_CASE("policy: amounts are whole numbers, however they are written") {
  const Policy policy = Read("storage: {minFreeBytes: 2.0e+9, minFreeInodes: 1000}\n");
  CHECK(policy.storage.min_free_bytes == 2'000'000'000);
  CHECK(policy.storage.min_free_inodes == 1'000);
}

TEST_CASE("policy: JSON is read like YAML") {
  const auto policy = ParsePolicy(
      R"({"apiVersion": "dlc-check/v1", "kind": "Policy", "gpu": {"perWorkerPod": 4},
          "ray": {"version": "2.58.0"}})",
      "p.json");
  REQUIRE(policy.has_value());
  CHECK(policy->gpu.per_worker_pod == 4);
  CHECK(policy->ray.version == "2.58.0");
}

TEST_CASE("policy: one digest may stand alone") {
  CHECK(Read("image: {digest: " + kDigestA + "}").image.digests.size() == 1);
}

TEST_CASE("policy: of a config only the policy part is read") {
  const std::string config = "apiVersion: dlc-check/v1\nkind: Config\nnot-looked-at: 1\n";
  CheckIsDefault(*ParsePolicy(config, "c.yaml"));
  CheckIsDefault(*ParsePolicy(config + "policy:\n", "c.yaml"));
  CHECK(ParsePolicy(config + "policy: {gpu: {total: 8}}\n", "c.yaml")->gpu.total == 8);
  CHECK(ProblemOfFile(config + "policy:\n  gpu: {totl: 8}\n") ==
        "p.yaml: line 5: unknown key 'totl' in 'policy.gpu' (did you mean 'total'?)");
  CHECK(ProblemOfFile(config + "policy:\n  kind: Policy\n") ==
        "p.yaml: line 5: unknown key 'kind' in 'policy' (known keys: metadata, stages, image, ray, "
        "jobPackages, gpu, fabric, nccl, fsdp, storage, checkpoint, severity)");
}

TEST_CASE("policy: another file is told apart by apiVersion and kind") {
  struct Row {
    std::string bytes;
    const char* problem;
  };
  const Row rows[] = {
      {"", "p.yaml: holds nothing (start with 'apiVersion: dlc-check/v1' and 'kind: Policy')"},
      {"# gpu: 4\n",
       "p.yaml: holds nothing (start with 'apiVersion: dlc-check/v1' and 'kind: Policy')"},
      {"- a\n", "p.yaml: line 1: the document must be a map, not a list"},
      {"apiVersion: v1\nkind: Pod\n",
       "p.yaml: line 1: 'apiVersion' must be dlc-check/v1, not 'v1'"},
      {"apiVersion: dlc-check/v2\nkind: Policy\n",
       "p.yaml: line 1: 'apiVersion' must be dlc-check/v1, not 'dlc-check/v2' (did you mean "
       "'dlc-check/v1'?)"},
      {"kind: Policy\n", "p.yaml: line 1: key 'apiVersion' is missing"},
      {"apiVersion: dlc-check/v1\n", "p.yaml: line 1: key 'kind' is missing"},
      {"apiVersion: dlc-check/v1\nkind: Polcy\n",
       "p.yaml: line 2: 'kind' must be one of Policy, Config, not 'Polcy' (did you mean "
       "'Policy'?)"},
      {kHead + "---\n" + kHead,
       "p.yaml: line 4: a second document starts here (keep one document in the file)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.bytes);
    CHECK(ProblemOfFile(row.bytes) == row.problem);
  }
}

TEST_CASE("policy: what is wrong is said with line, key and hint") {
  struct Row {
    std::string body;
    std::string problem;
  };
  const Row rows[] = {
      {"imgae: {}\n", "p.yaml: line 3: unknown key 'imgae' (did you mean 'image'?)"},
      {"gpu: 4\n", "p.yaml: line 3: 'gpu' must be a map, not '4'"},
      {"gpu: {total: 8}\ngpu: {total: 4}\n",
       "p.yaml: line 4: duplicate key 'gpu' (it is first given on line 3; keep one)"},
      {"stages: image\n", "p.yaml: line 3: 'stages' must be a list, not 'image'"},
      {"stages: [image, nvcl]\n",
       "p.yaml: line 3: 'stages[1]': unknown stage 'nvcl' (stages are image, gpu, nccl, fsdp, "
       "checkpoint)"},
      {"stages: [gpu, gpu]\n", "p.yaml: line 3: 'stages[1]': stage 'gpu' is given twice"},
      {"image:\n  digest: 1234\n",
       "p.yaml: line 4: 'image.digest': '1234' is not a digest (a digest is 'sha256:' and 64 "
       "lower-case hex digits)"},
      {"image:\n  digest:\n", "p.yaml: line 4: 'image.digest' must be text, not nothing"},
      {"image:\n  digest: \"\"\n",
       "p.yaml: line 4: 'image.digest' must not be empty (remove the key to demand nothing)"},
      {"image:\n  digests: []\n",
       "p.yaml: line 4: 'image.digests' must not be empty (remove the key to demand no digest)"},
      {"image:\n  digest: " + kDigestA + "\n  digests: [" + kDigestB + "]\n",
       "p.yaml: line 5: 'image.digests' cannot stand beside 'digest' (put all of them in "
       "'digests')"},
      {"image:\n  digests:\n  - " + kDigestA + "\n  - latest\n",
       "p.yaml: line 6: 'image.digests[1]': 'latest' is not a digest (a digest is 'sha256:' and 64 "
       "lower-case hex digits)"},
      {"image: {platform: amd64}\n",
       "p.yaml: line 3: 'image.platform' must be OS/ARCHITECTURE, not 'amd64' (usually "
       "linux/amd64)"},
      {"image: {labels: [a]}\n",
       "p.yaml: line 3: 'image.labels' must be a map of texts, not a list"},
      {"image: {containerType: ''}\n",
       "p.yaml: line 3: 'image.containerType' must not be empty (remove the key to demand "
       "nothing)"},
      {"image:\n  releases:\n  - name: v1.1\n",
       "p.yaml: line 5: key 'digest' is missing in 'image.releases[0]'"},
      {"image:\n  releases:\n  - {name: a, digest: " + kDigestA + "}\n  - {name: b, diggest: x}\n",
       "p.yaml: line 6: key 'digest' is missing in 'image.releases[1]'"},
      {"image:\n  releases:\n  - {name: a, digest: " + kDigestA + ", content: {}}\n",
       "p.yaml: line 5: unknown key 'content' in 'image.releases[0]' (did you mean 'contents'?)"},
      {"ray: {version: 2.58}\n",
       "p.yaml: line 3: 'ray.version' must be one full version, not '2.58' (write all parts: "
       "2.58.0; "
       "ranges are not supported)"},
      {"ray: {version: \">=2.58.0\"}\n",
       "p.yaml: line 3: 'ray.version' must be one full version, not '>=2.58.0' (write all parts: "
       "2.58.0; ranges are not supported)"},
      {"ray: {version: 2.58.0.*}\n",
       "p.yaml: line 3: 'ray.version' must be one full version, not '2.58.0.*' (write all parts: "
       "2.58.0; ranges are not supported)"},
      {"ray: {python: 3}\n",
       "p.yaml: line 3: 'ray.python' must be a version of two or three numbers, not '3' (3.13 "
       "matches "
       "any patch level, 3.13.2 exactly that)"},
      {"ray: {python: py313}\n",
       "p.yaml: line 3: 'ray.python' must be a version of two or three numbers, not 'py313' (3.13 "
       "matches any patch level, 3.13.2 exactly that)"},
      {"jobPackages: {protected: torch}\n",
       "p.yaml: line 3: 'jobPackages.protected' must be a list, not 'torch'"},
      {"jobPackages:\n  protected:\n  - torch==2.9\n",
       "p.yaml: line 5: 'jobPackages.protected[0]': 'torch==2.9' is not a package name (a name, or "
       "a "
       "prefix and *; no version)"},
      {"jobPackages:\n  imagePackages:\n    nvidia-*: 1\n",
       "p.yaml: line 5: 'nvidia-*' is not a package name (a name without version)"},
      {"jobPackages:\n  imagePackages:\n    flash-attn: 1\n    flash_attn: 1\n",
       "p.yaml: line 6: package 'flash_attn' is given twice ('flash-attn' is the same package (PEP "
       "503))"},
      {"jobPackages:\n  imagePackages: {torch: ''}\n",
       "p.yaml: line 4: version of 'torch' must not be empty"},
      {"gpu: {perWorkerPod: four}\n",
       "p.yaml: line 3: 'gpu.perWorkerPod' must be a whole number, not 'four'"},
      {"gpu: {perWorkerPod: \"4\"}\n",
       "p.yaml: line 3: 'gpu.perWorkerPod' must be a whole number, not '4' (remove the quotes)"},
      {"gpu: {perWorkerPod: 0}\n",
       "p.yaml: line 3: 'gpu.perWorkerPod' must be a whole number from 1 to 1000, not '0'"},
      {"gpu: {perWorkerPod: 010}\n",
       "p.yaml: line 3: 'gpu.perWorkerPod' must be a whole number, not '010' (write it in decimal, "
       "without leading zeros)"},
      {"gpu: {workerPods: 100001}\n",
       "p.yaml: line 3: 'gpu.workerPods' must be a whole number from 1 to 100000, not '100001'"},
      {"gpu: {total: 99999999999999999999}\n",
       "p.yaml: line 3: 'gpu.total' must be a whole number of 64 bits, not '99999999999999999999'"},
      {"gpu:\n  perWorkerPod: 4\n  workerPods: 2\n  total: 7\n",
       "p.yaml: line 6: 'gpu.total' is 7, but perWorkerPod x workerPods is 8"},
      {"gpu: {devices: maybe}\n",
       "p.yaml: line 3: 'gpu.devices' must be one of required, with-ranks, no, not 'maybe'"},
      {"gpu:\n  perWorkerPod: 1\n  devices: no\n",
       "p.yaml: line 5: 'gpu.devices' cannot be 'no' beside a number of GPUs (remove one of "
       "them)"},
      {"gpu: {model: ''}\n",
       "p.yaml: line 3: 'gpu.model' must not be empty (remove the key to demand nothing)"},
      {"gpu: {minDriver: new}\n",
       "p.yaml: line 3: 'gpu.minDriver' must be a driver version, not 'new' (numbers with dots "
       "between them: 580.65.06)"},
      {"gpu: {minMemoryBytes: 0.5}\n",
       "p.yaml: line 3: 'gpu.minMemoryBytes' must be a whole number, not '0.5'"},
      {"storage:\n  minFreeBytes: 0.5\n",
       "p.yaml: line 4: 'storage.minFreeBytes' must be a whole number, not '0.5'"},
      {"storage:\n  minFreeInodes: 1e-3\n",
       "p.yaml: line 4: 'storage.minFreeInodes' must be a whole number, not '1e-3'"},
      {"gpu: {minMemoryBytes: -1}\n",
       "p.yaml: line 3: 'gpu.minMemoryBytes' must be a number from 0 to 1e+18, not '-1'"},
      {"gpu: {maxUsedMemoryShare: 2}\n",
       "p.yaml: line 3: 'gpu.maxUsedMemoryShare' must be a number from 0 to 1, not '2'"},
      {"gpu: {minCopyBytesPerSec: 1}\n",
       "p.yaml: line 3: unknown key 'minCopyBytesPerSec' in 'gpu' (did you mean "
       "'minCopyBytesPerSecond'?)"},
      {"fabric: {efa: maybe}\n",
       "p.yaml: line 3: 'fabric.efa' must be one of required, when-available, no, not 'maybe'"},
      {"fabric: {efa: true}\n",
       "p.yaml: line 3: 'fabric.efa' must be one of required, when-available, no, not 'true'"},
      {"fabric: {provider: ''}\n",
       "p.yaml: line 3: 'fabric.provider' must not be empty (remove the key to demand nothing)"},
      {"fabric:\n  minPairBandwith: {}\n",
       "p.yaml: line 4: unknown key 'minPairBandwith' in 'fabric' (did you mean "
       "'minPairBandwidth'?)"},
      {"fabric:\n  minPairBandwidth:\n    sizeBytes: 8\n    bytesPerSec: 8\n",
       "p.yaml: line 5: key 'bytesPerSecond' is missing in 'fabric.minPairBandwidth'"},
      {"fabric:\n  minPairBandwidth: {sizeBytes: 100, bytesPerSecond: 1}\n",
       "p.yaml: line 4: 'fabric.minPairBandwidth.sizeBytes' must be a multiple of 8, not '100'"},
      {"fabric:\n  maxPairLatency: {sizeBytes: 8, seconds: 0}\n",
       "p.yaml: line 4: 'fabric.maxPairLatency.seconds' must be a number from 1e-09 to 3600, not "
       "'0'"},
      {"fabric:\n  maxPairLatency: {seconds: 1}\n",
       "p.yaml: line 4: key 'sizeBytes' is missing in 'fabric.maxPairLatency'"},
      {"fabric:\n  minBusBandwidth:\n  - {collective: allreduce, sizeBytes: 8, bytesPerSecond: "
       "1}\n",
       "p.yaml: line 5: 'fabric.minBusBandwidth[0].collective' must be one of all_reduce, "
       "all_gather, reduce_scatter, broadcast, not 'allreduce' (did you mean 'all_reduce'?)"},
      {"fabric:\n  minBusBandwidth:\n  - {collective: broadcast, sizeBytes: 8, bytesPerSecond: "
       "1}\n  - {collective: broadcast, sizeBytes: 8, bytesPerSecond: 2}\n",
       "p.yaml: line 6: 'fabric.minBusBandwidth[1]' is given twice for this collective and size"},
      {"severity:\n  coverage/no-planted-faults: off\n",
       "p.yaml: line 4: rule 'coverage/no-planted-faults' cannot be changed (it keeps a run from "
       "being taken for what it is not)"},
      {"severity:\n  coverage/stage-has-check: off\n",
       "p.yaml: line 4: unknown check or rule 'coverage/stage-has-check' (did you mean "
       "'coverage/stage-has-checks'?)"},
      {"severity:\n  everything: off\n",
       "p.yaml: line 4: unknown check or rule 'everything' (`dlc-check checks` lists them)"},
      {"severity:\n  coverage: ignore\n",
       "p.yaml: line 4: 'severity.coverage' must be one of required, warn, off, not 'ignore'"},
      {"severity:\n  image-digest: warn\n  coverage: off\n",
       "p.yaml: line 5: 'severity.coverage' cannot be 'off': a run that left out what was asked "
       "for "
       "would be green (ask for less instead: list the stages that matter under `stages:`)"},
      {"severity: {coverage/policy-stages-selected: warn}\n",
       "p.yaml: line 3: 'severity.coverage/policy-stages-selected' cannot be 'warn': a run that "
       "left out what was asked for would be green (ask for less instead: list the stages that "
       "matter under `stages:`)"},
      {"severity: [coverage]\n", "p.yaml: line 3: 'severity' must be a map, not a list"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.body);
    CHECK(Problem(row.body) == row.problem);
  }
}

TEST_CASE("policy: damaged files are refused, not half read") {
  CHECK(Problem("gpu:\n\ttotal: 8\n") ==
        "p.yaml: line 4: tab in the indentation (indent with spaces)");
  CHECK(Problem("metadata: {name: \"x}\n") ==
        "p.yaml: line 4: '{' is not closed (add the missing } or ,)");
  CHECK(Problem("metadata:\n  name: \"x\n") ==
        "p.yaml: line 4: quote is not closed (add the missing \")");
  CHECK(Problem("metadata: {name: \xFF}\n") ==
        "p.yaml: line 3: not UTF-8 (save the file as UTF-8)");
  CHECK(
      Problem("gpu: *x\n") ==
      "p.yaml: line 3: alias to an anchor that is not defined above (quote a text that begins with "
      "*)");
  CHECK(ParsePolicy("\xEF\xBB\xBF" + kHead + "gpu: {total: 8}\r\n", "p.yaml")->gpu.total == 8);
}

}  // namespace
}  // namespace dlc
