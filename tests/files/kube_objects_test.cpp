#include "probes/control/files/kube_objects.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace dlc {
namespace {

template <class T>
T ReadObject(T (*read)(const Fields&), std::string_view text) {
  const auto document = ParseDocument(text, "o.yaml");
  REQUIRE_MESSAGE(document, document.error().message);
  FileReading reading;
  reading.file = "o.yaml";
  T object = read(Fields(reading, &document->roots.at(0), ""));
  REQUIRE_MESSAGE(!reading.failed, reading.error.message);
  return object;
}

TEST_CASE("RayCluster: KubeRay's defaults stand where a field is absent or null") {
  const auto cluster = ReadObject(ReadRayCluster, R"(
metadata: {name: c}
spec:
  headGroupSpec: {template: {spec: {containers: [{name: h}]}}}
  workerGroupSpecs:
    - groupName: plain
      replicas: null
      template: {spec: {containers: [{name: w}]}}
    - groupName: full
      replicas: 3
      minReplicas: 1
      maxReplicas: 5
      numOfHosts: 2
      suspend: true
      template: {spec: {containers: [{name: w}]}}
  enableInTreeAutoscaling: true
  authOptions: {mode: token}
status:
  state: ready
  head: {serviceName: c-head-svc}
)");
  CHECK(cluster.name_space == "default");
  CHECK(cluster.ray_version.empty());
  CHECK(cluster.head.replicas == 1);
  CHECK(cluster.workers[0].replicas == 0);
  CHECK(cluster.workers[0].min_replicas == 0);
  CHECK(cluster.workers[0].max_replicas == std::numeric_limits<std::int32_t>::max());
  CHECK(cluster.workers[0].hosts_per_replica == 1);
  CHECK_FALSE(cluster.workers[0].suspended);
  CHECK(cluster.workers[1].replicas == 3);
  CHECK(cluster.workers[1].max_replicas == 5);
  CHECK(cluster.workers[1].hosts_per_replica == 2);
  CHECK(cluster.workers[1].suspended);
  CHECK(cluster.autoscaling);
  CHECK(cluster.auth_mode == "token");
  CHECK(cluster.state == "ready");
  CHECK(cluster.head_service_name == "c-head-svc");
}

TEST_CASE("RayCluster: num-gpus as a number equals the text, and group resources override it") {
  const auto cluster = ReadObject(ReadRayCluster, R"(
metadata: {name: c}
spec:
  headGroupSpec: {rayStartParams: {num-gpus: 0}, template: {spec: {containers: [{name: h}]}}}
  workerGroupSpecs:
    - groupName: w
      rayStartParams: {num-gpus: "4", block: true}
      resources: {GPU: "8"}
      template: {spec: {containers: [{name: w}]}}
)");
  CHECK(cluster.head.ray_start_params.at("num-gpus") == "0");
  CHECK(cluster.workers[0].ray_start_params.at("num-gpus") == "8");
  CHECK(cluster.workers[0].ray_start_params.at("block") == "true");
}

TEST_CASE("Pod: spec and status are read, secrets are not") {
  const auto pod = ReadObject(ReadPod, R"(
metadata:
  name: worker-1
  namespace: ray-train
  uid: u-1
  deletionTimestamp: "2026-11-30T10:00:00Z"
  labels: {ray.io/cluster: c, ray.io/node-type: worker, ray.io/group: gpu-workers}
spec:
  nodeName: gpu-1
  hostNetwork: true
  resourceClaims: [{name: efa, resourceClaimTemplateName: t}, {name: own, resourceClaimName: mine}]
  initContainers: [{name: wait-gcs-ready, resources: {limits: {cpu: 200m}}}]
  tolerations: [{operator: Exists}, {key: k, value: v}]
  containers:
    - name: ray-worker
      image: repo/image:tag
      imagePullPolicy: Always
      command: [/bin/bash, -c, --]
      args: ["ulimit -n ${N:-65536}; ray start"]
      securityContext: {privileged: true}
      resources: {limits: {nvidia.com/gpu: 4, memory: 160Gi}, claims: [{name: efa, request: r}, {name: own}]}
      env:
        - {name: A, value: "1"}
        - {name: FROM_SECRET, value: ignored, valueFrom: {secretKeyRef: {name: s, key: k}}}
        - {name: HF_TOKEN, value: hf_abcdef}
        - {name: PROXY, value: "http://user:pass@proxy:3128"}
        - {name: EMPTY}
      volumeMounts: [{name: shm, mountPath: /dev/shm, readOnly: true}]
  volumes:
    - {name: shm, emptyDir: {medium: Memory}}
    - {name: scratch, emptyDir: {}}
    - {name: ib, hostPath: {path: /dev/infiniband}}
    - {name: pvc, persistentVolumeClaim: {claimName: fsx}}
    - {name: nfs, nfs: {server: s, path: /p}}
    - {name: csi, csi: {driver: s3.csi.aws.com}}
    - {name: odd, projected: {sources: []}}
status:
  phase: Running
  podIP: 10.0.0.2
  resourceClaimStatuses: [{name: efa, resourceClaimName: worker-1-efa-x}, {name: late}]
  initContainerStatuses: [{name: wait-gcs-ready, state: {terminated: {reason: Completed}}}]
  containerStatuses:
    - {name: sidecar, ready: true, state: {running: {}}}
    - name: ray-worker
      imageID: repo/image@sha256:00
      restartCount: 7
      state: {waiting: {reason: CrashLoopBackOff, message: back-off 5m0s}}
)");
  CHECK(pod.name_space == "ray-train");
  CHECK(pod.uid == "u-1");
  CHECK(pod.deleting);
  CHECK(pod.ray_cluster == "c");
  CHECK(pod.ray_node_type == "worker");
  CHECK(pod.ray_group == "gpu-workers");
  CHECK(pod.node == "gpu-1");
  CHECK(pod.phase == "Running");
  CHECK(pod.pod_ip == "10.0.0.2");
  CHECK(pod.spec.host_network);
  CHECK(pod.spec.resource_claims == std::vector<std::string>{"efa", "own"});
  CHECK(pod.spec.containers[0].claims == std::vector<ContainerClaim>{{"efa", "r"}, {"own", ""}});
  CHECK(pod.claim_objects ==
        std::map<std::string, std::string>{{"efa", "worker-1-efa-x"}, {"own", "mine"}});
  CHECK(pod.spec.init_containers[0].limits.at("cpu") == "200m");
  CHECK(pod.spec.tolerations[0] == Toleration{"", "Exists", "", ""});
  CHECK(pod.spec.tolerations[1] == Toleration{"k", "Equal", "v", ""});
  const ContainerSpec& container = pod.spec.containers[0];
  CHECK(container.privileged);
  CHECK(container.limits.at("nvidia.com/gpu") == "4");
  CHECK(container.command.size() == 3);
  CHECK(container.args[0].find("${N:-65536}") != std::string::npos);
  CHECK(container.env[1] == EnvVar{"FROM_SECRET", "", "secretKeyRef"});
  CHECK(container.env[2] == EnvVar{"HF_TOKEN", "(redacted)", ""});
  CHECK(container.env[3] == EnvVar{"PROXY", "http://(redacted)@proxy:3128", ""});
  CHECK(container.env[4] == EnvVar{"EMPTY", "", ""});
  CHECK(container.mounts[0] == VolumeMount{"shm", "/dev/shm", true});
  const Volume volumes[] = {{"shm", "emptyDir", "Memory"},
                            {"scratch", "emptyDir", ""},
                            {"ib", "hostPath", "/dev/infiniband"},
                            {"pvc", "persistentVolumeClaim", "fsx"},
                            {"nfs", "nfs", "s:/p"},
                            {"csi", "csi", "s3.csi.aws.com"},
                            {"odd", "projected", ""}};
  REQUIRE(pod.spec.volumes.size() == std::size(volumes));
  for (std::size_t i = 0; i < std::size(volumes); ++i) {
    CHECK(pod.spec.volumes[i] == volumes[i]);
  }
  CHECK(pod.init_statuses[0].reason == "Completed");
  CHECK(pod.statuses[1].name == "ray-worker");
  CHECK(pod.statuses[1].state == "waiting");
  CHECK(pod.statuses[1].reason == "CrashLoopBackOff");
  CHECK(pod.statuses[1].restart_count == 7);
  CHECK(pod.statuses[1].image_id == "repo/image@sha256:00");
}

TEST_CASE("Node: labels, allocatable, taints and readiness") {
  const auto node = ReadObject(ReadNode, R"(
metadata:
  name: gpu-1
  labels:
    node.kubernetes.io/instance-type: g6.12xlarge
    topology.kubernetes.io/zone: us-west-2a
    role: gpu-worker
spec: {unschedulable: true, taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]}
status:
  allocatable: {nvidia.com/gpu: "4", cpu: 47810m}
  conditions: [{type: DiskPressure, status: "False"}, {type: Ready, status: "True"}, {type: Odd, status: "False"}]
  nodeInfo: {architecture: amd64}
)");
  CHECK(node.instance_type == "g6.12xlarge");
  CHECK(node.zone == "us-west-2a");
  CHECK(node.labels.at("role") == "gpu-worker");
  CHECK(node.architecture == "amd64");
  CHECK(node.allocatable.at("cpu") == "47810m");
  CHECK(node.taints[0] == Taint{"nvidia.com/gpu", "true", "NoSchedule"});
  CHECK(node.ready);
  CHECK(node.unschedulable);
  const auto bare = ReadObject(ReadNode, "metadata: {name: n}\n");
  CHECK_FALSE(bare.ready);
  CHECK(bare.allocatable.empty());
}

}  // namespace
}  // namespace dlc
