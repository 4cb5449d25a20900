#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "probes/observations/observed.h"

namespace dlc {

/// Where a fact was written, for findings that quote it: a file and line, or an API path. Line 0
/// when not known.
struct Source {
  std::string file;
  int line = 0;

  bool operator==(const Source&) const = default;
};

struct EnvVar {
  std::string name;
  std::string value;
  /// "secretKeyRef", "configMapKeyRef", "fieldRef", ...; empty for a literal. Secret values are
  /// never read.
  std::string value_from;

  bool operator==(const EnvVar&) const = default;
};

struct VolumeMount {
  std::string volume;
  std::string mount_path;
  bool read_only = false;

  bool operator==(const VolumeMount&) const = default;
};

/// One of containers[].resources.claims: what of the pod's resource claims the container uses.
struct ContainerClaim {
  std::string name;     ///< of the pod's entry
  std::string request;  ///< of the claim; empty: all of it

  bool operator==(const ContainerClaim&) const = default;
};

/// A container as asked for (spec).
struct ContainerSpec {
  std::string name;
  std::string image;
  std::string image_pull_policy;              ///< empty: the API server's default applies
  std::map<std::string, std::string> limits;  ///< Kubernetes quantities as written
  std::map<std::string, std::string> requests;
  std::vector<EnvVar> env;
  std::vector<VolumeMount> mounts;
  std::vector<std::string> command;
  std::vector<std::string> args;
  bool privileged = false;
  std::vector<ContainerClaim> claims;

  bool operator==(const ContainerSpec&) const = default;
};

struct Volume {
  std::string name;
  std::string
      kind;  ///< "emptyDir", "hostPath", "persistentVolumeClaim", "configMap", "csi", "nfs", ...
  std::string detail;  ///< claim name, host path or medium

  bool operator==(const Volume&) const = default;
};

struct Toleration {
  std::string key;
  std::string op;  ///< "Equal" (default) or "Exists"
  std::string value;
  std::string effect;

  bool operator==(const Toleration&) const = default;
};

/// What KubeRay calls a template and Kubernetes a PodSpec. The Ray container is always
/// containers[0].
struct PodSpec {
  std::vector<ContainerSpec> containers;
  std::vector<ContainerSpec> init_containers;
  std::vector<Volume> volumes;
  std::map<std::string, std::string> node_selector;
  std::vector<Toleration> tolerations;
  std::vector<std::string>
      resource_claims;  ///< names; DRA, where extended resources may be absent on a healthy node
  bool host_network = false;

  bool operator==(const PodSpec&) const = default;
};

/// A container as it is (status). Match by name: the order is not the spec's.
struct ContainerStatus {
  std::string name;
  std::string image;     ///< the runtime may rewrite it: never compare
  std::string image_id;  ///< raw; DigestOfImageId reads it
  std::string state;     ///< "running", "waiting", "terminated", or empty
  std::string reason;    ///< of waiting or terminated
  std::string message;
  bool ready = false;
  int restart_count = 0;

  bool operator==(const ContainerStatus&) const = default;
};

struct Pod {
  std::string name_space;
  std::string name;
  std::string uid;
  std::string node;   ///< spec.nodeName, empty while unscheduled
  std::string phase;  ///< Pending, Running, Succeeded, Failed, Unknown
  std::string pod_ip;
  std::string ray_cluster;    ///< label ray.io/cluster
  std::string ray_node_type;  ///< label ray.io/node-type: head, worker, redis-cleanup
  std::string ray_group;      ///< label ray.io/group
  bool deleting = false;      ///< metadata.deletionTimestamp is set
  PodSpec spec;
  std::vector<ContainerStatus> statuses;
  std::vector<ContainerStatus> init_statuses;
  Source source;
  /// The ResourceClaim of each entry of spec.resource_claims, as far as there is one yet.
  std::map<std::string, std::string> claim_objects;

  bool operator==(const Pod&) const = default;
};

struct Taint {
  std::string key;
  std::string value;
  std::string effect;

  bool operator==(const Taint&) const = default;
};

struct Node {
  std::string name;
  std::string instance_type;  ///< label node.kubernetes.io/instance-type
  std::string zone;           ///< label topology.kubernetes.io/zone
  std::string architecture;   ///< status.nodeInfo.architecture
  std::map<std::string, std::string>
      allocatable;  ///< quantities; a missing key and "0" are different stories
  std::vector<Taint> taints;
  bool ready = false;
  bool unschedulable = false;
  Source source;
  std::map<std::string, std::string> labels;  ///< all of them: what a nodeSelector is held against

  bool operator==(const Node&) const = default;
};

/// headGroupSpec or one of workerGroupSpecs.
struct RayGroup {
  std::string name;  ///< "headgroup" for the head
  int replicas = 0;  ///< 1 for the head
  int min_replicas = 0;
  int max_replicas = 0;
  int hosts_per_replica = 1;  ///< numOfHosts; pods = replicas * hosts_per_replica
  bool suspended = false;
  std::map<std::string, std::string>
      ray_start_params;  ///< numbers are kept as text: `num-gpus: 4` equals "4"
  PodSpec pod;
  Source source;

  bool operator==(const RayGroup&) const = default;
};

struct RayCluster {
  std::string name_space;
  std::string name;
  std::string
      ray_version;  ///< spec.rayVersion: a hint to the operator, not what runs. Empty when absent
  bool autoscaling = false;
  bool suspended = false;
  std::string auth_mode;    ///< spec.authOptions.mode
  std::string auth_secret;  ///< spec.authOptions.secretName; empty: the one that KubeRay makes
  RayGroup head;
  std::vector<RayGroup> workers;
  std::string state;              ///< status.state; deprecated and may be old
  std::string head_service_name;  ///< status.head.serviceName
  Source source;

  bool operator==(const RayCluster&) const = default;
};

/// DRA drivers: NVIDIA's of GPUs, and DRANET, which AWS ships for EFA.
inline constexpr const char* kDraGpuDriver = "gpu.nvidia.com";
inline constexpr const char* kDraNetworkDriver = "dra.net";

/// A device of a ResourceSlice.
struct SliceDevice {
  std::string name;
  /// What its driver says that it is: attribute "type" of gpu.nvidia.com ("gpu", "mig"),
  /// "pciDevice" of dra.net ("Elastic Fabric Adapter (EFA)").
  std::string kind;

  bool operator==(const SliceDevice&) const = default;
};

/// kind ResourceSlice (resource.k8s.io): devices that a DRA driver offers.
struct ResourceSlice {
  std::string name;
  std::string driver;
  std::string node;  ///< empty: not of one node
  std::string pool;
  std::int64_t generation = 0;  ///< of the pool: older slices are void
  std::vector<SliceDevice> devices;
  Source source;

  bool operator==(const ResourceSlice&) const = default;
};

/// A device that a claim was given.
struct ClaimedDevice {
  std::string request;  ///< "efa", or "efa/large" of a list of alternatives
  std::string driver;
  std::string pool;
  std::string device;

  bool operator==(const ClaimedDevice&) const = default;
};

/// kind ResourceClaim (resource.k8s.io).
struct ResourceClaim {
  std::string name_space;
  std::string name;
  bool allocated = false;
  std::vector<ClaimedDevice> devices;
  Source source;

  bool operator==(const ResourceClaim&) const = default;
};

/// Dynamic Resource Allocation, looked at where a Ray pod has resource claims.
struct DraFacts {
  Observed<std::vector<ResourceSlice>> slices;
  Observed<std::vector<ResourceClaim>> claims;

  bool operator==(const DraFacts&) const = default;
};

/// One finished list of the API server.
struct ApiListFacts {
  std::string path;  ///< "/api/v1/nodes"
  std::string resource_version;
  int objects = 0;  ///< of all pages
  int pages = 0;

  bool operator==(const ApiListFacts&) const = default;
};

/// The API server that was asked.
struct ApiServerFacts {
  std::string server;   ///< address
  std::string version;  ///< gitVersion of /version; empty when it was not told
  std::string context;  ///< of the kubeconfig; empty in a pod
  std::string name_space;
  std::vector<ApiListFacts> lists;

  bool operator==(const ApiServerFacts&) const = default;
};

/// What Kubernetes says, from the API or from files. Each list is its own observation: a right to
/// list pods is no right to list nodes.
struct ClusterFacts {
  Observed<std::vector<RayCluster>> ray_clusters;
  Observed<std::vector<Pod>> pods;
  Observed<std::vector<Node>> nodes;
  std::optional<ApiServerFacts> api_server;  ///< absent: all of it is from files
  std::optional<DraFacts> dra;               ///< absent: no Ray pod has a resource claim

  bool operator==(const ClusterFacts&) const = default;
};

/// A whole-number Kubernetes quantity ("4", "4000m", "2k"); nullopt for a missing key or a text
/// that is none.
std::optional<std::int64_t> WholeQuantity(const std::map<std::string, std::string>& quantities,
                                          const std::string& key);

}  // namespace dlc
