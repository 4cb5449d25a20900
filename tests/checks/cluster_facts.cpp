#include "tests/checks/cluster_facts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>

namespace dlc::testing {

PodSpec HeadSpec() {
  PodSpec spec;
  ContainerSpec& container = spec.containers.emplace_back();
  container.name = "ray-head";
  container.limits = {{"cpu", "4"}, {"memory", "16Gi"}};
  container.requests = container.limits;
  container.env = {{"NVIDIA_VISIBLE_DEVICES", "void", ""}};
  return spec;
}

PodSpec WorkerSpec() {
  PodSpec spec;
  ContainerSpec& container = spec.containers.emplace_back();
  container.name = "ray-worker";
  container.limits = {{"cpu", "40"}, {"nvidia.com/gpu", "4"}, {"vpc.amazonaws.com/efa", "1"}};
  container.requests = container.limits;
  container.env = {{"FI_PROVIDER", "efa", ""}};
  spec.node_selector = {{"role", "gpu-worker"}};
  return spec;
}

Pod RayPod(const std::string& name, const std::string& type, const std::string& node,
           const std::string& ip) {
  Pod pod;
  pod.name_space = "ray-train";
  pod.name = name;
  pod.node = node;
  pod.phase = "Running";
  pod.pod_ip = ip;
  pod.ray_cluster = "sample";
  pod.ray_node_type = type;
  pod.ray_group = type == "head" ? "headgroup" : "gpu-workers";
  pod.spec = type == "head" ? HeadSpec() : WorkerSpec();
  ContainerStatus& status = pod.statuses.emplace_back();
  status.name = pod.spec.containers[0].name;
  status.state = "running";
  status.ready = true;
  return pod;
}

Node GpuNode(const std::string& name) {
  Node node;
  node.name = name;
  node.instance_type = "g6.12xlarge";
  node.zone = "us-west-2a";
  node.architecture = "amd64";
  node.allocatable = {{"cpu", "47"}, {"nvidia.com/gpu", "4"}, {"vpc.amazonaws.com/efa", "1"}};
  node.labels = {{"role", "gpu-worker"}};
  node.ready = true;
  return node;
}

RayNode RayNodeAt(const std::string& ip, bool head, double gpus) {
  RayNode node;
  node.node_id = "id-" + ip;
  node.node_ip = ip;
  node.is_head = head;
  node.alive = true;
  node.resources = {{"CPU", 4}};
  if (gpus > 0) {
    node.resources["GPU"] = gpus;
  }
  return node;
}

RayCluster SampleCluster() {
  RayCluster cluster;
  cluster.name_space = "ray-train";
  cluster.name = "sample";
  cluster.ray_version = "2.58.0";
  cluster.head.name = "headgroup";
  cluster.head.replicas = cluster.head.min_replicas = cluster.head.max_replicas = 1;
  cluster.head.ray_start_params = {{"num-gpus", "0"}};
  cluster.head.pod = HeadSpec();
  RayGroup& workers = cluster.workers.emplace_back();
  workers.name = "gpu-workers";
  workers.replicas = workers.min_replicas = workers.max_replicas = 2;
  workers.ray_start_params = {{"num-gpus", "4"}};
  workers.pod = WorkerSpec();
  return cluster;
}

Observations SampleObservations() {
  Observations o;
  o.run.stages = {Stage::kGpu, Stage::kNccl};
  o.cluster.ray_clusters = std::vector<RayCluster>{SampleCluster()};
  o.cluster.pods = std::vector<Pod>{RayPod("head-0", "head", "system-1", "10.0.0.1"),
                                    RayPod("worker-1", "worker", "gpu-1", "10.0.0.2"),
                                    RayPod("worker-2", "worker", "gpu-2", "10.0.0.3")};
  Node system;
  system.name = "system-1";
  system.instance_type = "m5.xlarge";
  system.zone = "us-west-2b";
  system.ready = true;
  o.cluster.nodes = std::vector<Node>{system, GpuNode("gpu-1"), GpuNode("gpu-2")};
  o.ray.nodes =
      std::vector<RayNode>{RayNodeAt("10.0.0.1", true, 0), RayNodeAt("10.0.0.2", false, 4),
                           RayNodeAt("10.0.0.3", false, 4)};
  return o;
}

std::vector<Finding> Of(const std::vector<Finding>& findings, std::string_view rule,
                        std::string_view subject) {
  std::vector<Finding> some;
  std::copy_if(findings.begin(), findings.end(), std::back_inserter(some), [&](const Finding& f) {
    return f.rule == rule && (subject.empty() || f.subject.name == subject);
  });
  return some;
}

Finding Only(const std::vector<Finding>& findings, std::string_view rule,
             std::string_view subject) {
  const auto some = Of(findings, rule, subject);
  CAPTURE(std::string(rule));
  CAPTURE(std::string(subject));
  REQUIRE(some.size() == 1);
  return some[0];
}

}  // namespace dlc::testing
