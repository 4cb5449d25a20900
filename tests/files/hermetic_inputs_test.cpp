#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "probes/control/files/cluster_file.h"
#include "probes/control/files/ray_answers.h"
#include "probes/documents/node.h"
#include "probes/input/read_file.h"
#include "probes/observations/digest.h"

namespace dlc {
namespace {

std::string Path(const std::string& name) {
  return std::string(DLC_TESTDATA) + "/files/" + name;
}

ClusterFacts Cluster(const std::string& name) {
  ClusterFacts facts;
  std::vector<std::string> notes;
  const auto result = ReadClusterFile(Path(name), facts, notes);
  REQUIRE_MESSAGE(result, result.error().message);
  CHECK(notes.empty());
  return facts;
}

std::string ImageId(const ClusterFacts& facts, std::size_t pod) {
  return facts.pods.value().at(pod).statuses.at(0).image_id;
}

TEST_CASE("hx01: pods carry index, member, config, arm64 and attestation digests") {
  const auto index = DigestOfImageId(ImageId(Cluster("hx01/pods.json"), 0));
  REQUIRE(index);
  for (const char* name : {"hx01/pods.json", "hx01/pods-config-digest.json", "hx01/pods-arm64.json",
                           "hx01/pods-attestation.json", "hx01/pods-prefix.json"}) {
    CAPTURE(std::string(name));
    const ClusterFacts facts = Cluster(name);
    REQUIRE(facts.pods.value().size() == 2);
    CHECK(DigestOfImageId(ImageId(facts, 0)).value() == *index);
    const auto worker = DigestOfImageId(ImageId(facts, 1));
    REQUIRE(worker);
    CHECK(*worker != *index);
    // Every digest is a file of the layout: the pods can be held against it.
    CHECK(ReadFileBytes(Path("hx01/layout/blobs/sha256/" + worker->hex), 1U << 20U));
  }
  CHECK(ImageId(Cluster("hx01/pods-config-digest.json"), 1).starts_with("sha256:"));
  CHECK(ImageId(Cluster("hx01/pods-prefix.json"), 0).starts_with("docker-pullable://"));
  const auto served = ReadFileBytes(Path("hx01/index.json"), 1U << 20U);
  REQUIRE(served);
  CHECK(*served == *ReadFileBytes(Path("hx01/layout/blobs/sha256/" + index->hex), 1U << 20U));
  CHECK(Cluster("hx01/nodes.json").nodes.value().at(1).architecture == "amd64");
}

TEST_CASE("hx02: one tag in the spec, two digests in the status") {
  const ClusterFacts facts = Cluster("hx02/pods.json");
  REQUIRE(facts.pods.value().size() == 3);
  for (const Pod& pod : facts.pods.value()) {
    CHECK(pod.spec.containers[0].image ==
          "public.ecr.aws/deep-learning-containers/ray:train-ml-cuda");
    CHECK(pod.spec.containers[0].image_pull_policy == "IfNotPresent");
  }
  CHECK(ImageId(facts, 0) == ImageId(facts, 1));
  CHECK(ImageId(facts, 0) != ImageId(facts, 2));
  const ClusterFacts old = Cluster("hx02/pods-all-old.json");
  CHECK(ImageId(old, 0) == ImageId(facts, 2));
}

TEST_CASE("hx03: versions of field, dashboard and pods") {
  CHECK(Cluster("hx03/raycluster.yaml").ray_clusters.value()[0].ray_version == "2.57.0");
  CHECK(Cluster("hx03/raycluster-no-version.yaml").ray_clusters.value()[0].ray_version.empty());
  CHECK(ReadRayVersionFile(Path("hx03/version.json"))->ray_version == "2.58.0");
  const auto same = ReadPodVersionsFile(Path("hx03/pod-versions.json"));
  REQUIRE(same);
  REQUIRE(same->size() == 3);
  const ClusterFacts pods = Cluster("hx03/pods.json");
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(same->at(i).pod == pods.pods.value().at(i).name);
    CHECK(same->at(i).ray == "2.58.0");
  }
  CHECK(ReadPodVersionsFile(Path("hx03/pod-versions-other-ray.json"))->at(2).ray == "2.57.0");
  CHECK(ReadPodVersionsFile(Path("hx03/pod-versions-other-python.json"))->at(2).python == "3.13.1");
}

TEST_CASE("hx04: torch and NCCL are found in every shape of the job") {
  for (const char* name : {"job.json", "job-pip-list.json", "job-uv.json", "job-conda.json",
                           "job-index-option.json", "job-other-spelling.json", "jobs.json"}) {
    CAPTURE(std::string(name));
    const auto jobs = ReadRayJobsFile(Path(std::string("hx04/") + name));
    REQUIRE_MESSAGE(jobs, jobs.error().message);
    const auto& packages = jobs->at(0).runtime_env.packages;
    for (const char* wanted : {"torch", "nvidia-nccl-cu13"}) {
      CAPTURE(std::string(wanted));
      CHECK(std::any_of(packages.begin(), packages.end(),
                        [&](const RequestedPackage& p) { return p.name == wanted; }));
    }
  }
  CHECK(ReadRayJobsFile(Path("hx04/jobs.json"))->size() == 2);
  const auto job = ReadRayJobsFile(Path("hx04/job.json"));
  CHECK(job->at(0).runtime_env.env_vars.at("HF_TOKEN") == "(redacted)");
  const auto option = ReadRayJobsFile(Path("hx04/job-index-option.json"));
  CHECK(option->at(0).runtime_env.packages.at(0).is_option);
  CHECK(ReadRayJobsFile(Path("hx04/job-requests.json"))->at(0).runtime_env.packages.at(0).name ==
        "requests");
  CHECK(ReadRayJobsFile(Path("hx04/job-no-runtime-env.json"))->at(0).runtime_env == RuntimeEnv{});
  CHECK(ReadRayJobsFile(Path("hx04/runtime-env.yaml"))->at(0).runtime_env.working_dir == ".");
}

TEST_CASE("aws: the sample's job asks for transformers") {
  const auto jobs = ReadRayJobsFile(Path("aws/job-runtime-env.json"));
  REQUIRE(jobs);
  const RequestedPackage& package = jobs->at(0).runtime_env.packages.at(0);
  CHECK(package.name == "transformers");
  CHECK(package.specifier == "==4.46.3");
}

TEST_CASE("hx05: head, workers and Ray's own table") {
  const RayCluster cluster = Cluster("hx05/raycluster.yaml").ray_clusters.value()[0];
  CHECK(cluster.head.ray_start_params.count("num-gpus") == 0);
  CHECK(cluster.head.pod.containers[0].limits.count("nvidia.com/gpu") == 0);
  CHECK(cluster.head.pod.containers[0].env.empty());
  const RayCluster number = Cluster("hx05/raycluster-number.yaml").ray_clusters.value()[0];
  CHECK(number.workers[0].ray_start_params.at("num-gpus") == "4");
  const auto nodes = ReadRayNodesFile(Path("hx05/ray-nodes.json"));
  REQUIRE_MESSAGE(nodes, nodes.error().message);
  REQUIRE(nodes->size() == 4);
  CHECK(nodes->at(0).is_head);
  CHECK(nodes->at(0).resources.at("GPU") == 8);
  CHECK_FALSE(nodes->at(3).alive);
  const auto listed = ReadRayNodesFile(Path("hx05/ray-list-nodes.json"));
  REQUIRE(listed);
  CHECK(*listed == *ReadRayNodesFile(Path("hx05/ray-nodes-head-zero.json")));
  CHECK(Cluster("hx05/pods.json").pods.value()[1].pod_ip == nodes->at(1).node_ip);
}

TEST_CASE("hx07: where the EFA limit stands") {
  const auto worker = [](const char* name) {
    return Cluster(name).ray_clusters.value()[0].workers.at(0).pod;
  };
  constexpr const char* kEfa = "vpc.amazonaws.com/efa";
  CHECK(worker("hx07/raycluster.yaml").containers[0].limits.count(kEfa) == 0);
  CHECK(worker("hx07/raycluster.yaml").containers[0].requests.count(kEfa) == 0);
  CHECK(worker("hx07/raycluster-request-only.yaml").containers[0].requests.at(kEfa) == "1");
  CHECK(worker("hx07/raycluster-request-only.yaml").containers[0].limits.count(kEfa) == 0);
  CHECK(worker("hx07/raycluster-init-limit.yaml").init_containers.at(0).limits.at(kEfa) == "1");
  CHECK(worker("hx07/raycluster-one-of-32.yaml").containers[0].limits.at("nvidia.com/gpu") == "8");
  CHECK(Cluster("hx07/nodes-p5.json").nodes.value()[1].allocatable.at(kEfa) == "32");
  CHECK(Cluster("hx07/nodes-no-efa.json").nodes.value()[1].instance_type == "g6.4xlarge");
  CHECK(Cluster("hx07/nodes-two-zones.json").nodes.value()[2].zone == "us-west-2b");
}

}  // namespace
}  // namespace dlc
