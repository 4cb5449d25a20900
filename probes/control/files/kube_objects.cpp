#include "probes/control/files/kube_objects.h"

#include <limits>
#include <utility>

#include "probes/control/files/secret_text.h"

namespace dlc {
namespace {

std::string NamespaceOf(const Fields& metadata) {
  const std::string name = metadata.Text("namespace");
  return name.empty() ? "default" : name;
}

std::string RequiredText(const Fields& fields, std::string_view key) {
  std::string text = fields.Text(key);
  if (text.empty()) {
    fields.Fail(key, "is missing");
  }
  return text;
}

EnvVar ReadEnv(const Fields& fields) {
  EnvVar variable;
  variable.name = RequiredText(fields, "name");
  if (const auto sources = fields.Map("valueFrom").Keys(); !sources.empty()) {
    variable.value_from = sources[0];
    return variable;
  }
  variable.value = fields.FreeText("value");
  if (LooksSecret(variable.name) && !variable.value.empty()) {
    variable.value = kRedacted;
  }
  variable.value = WithoutSecrets(variable.value);
  return variable;
}

ContainerSpec ReadContainer(const Fields& fields) {
  ContainerSpec container;
  container.name = RequiredText(fields, "name");
  container.image = fields.Text("image");
  container.image_pull_policy = fields.Text("imagePullPolicy");
  const Fields resources = fields.Map("resources");
  container.limits = resources.TextMap("limits");
  container.requests = resources.TextMap("requests");
  fields.Each("env", [&](const Fields& env) { container.env.push_back(ReadEnv(env)); });
  fields.Each("volumeMounts", [&](const Fields& mount) {
    container.mounts.push_back(
        {mount.Text("name"), mount.FreeText("mountPath"), mount.Bool("readOnly")});
  });
  container.command = fields.TextList("command");
  container.args = fields.TextList("args");
  RemoveSecrets(container.command, container.args);
  resources.Each("claims", [&](const Fields& claim) {
    container.claims.push_back({claim.Text("name"), claim.Text("request")});
  });
  container.privileged = fields.Map("securityContext").Bool("privileged");
  return container;
}

/// What identifies the storage, per kind; empty where nothing does.
std::string VolumeDetail(const Fields& source, const std::string& kind) {
  const std::pair<const char*, const char*> keys[] = {{"emptyDir", "medium"},
                                                      {"hostPath", "path"},
                                                      {"persistentVolumeClaim", "claimName"},
                                                      {"configMap", "name"},
                                                      {"csi", "driver"},
                                                      {"secret", "secretName"},
                                                      {"awsElasticBlockStore", "volumeID"}};
  for (const auto& [name, key] : keys) {
    if (kind == name) {
      return source.FreeText(key);
    }
  }
  if (kind == "nfs") {
    return source.FreeText("server") + ":" + source.FreeText("path");
  }
  return "";
}

Volume ReadVolume(const Fields& fields) {
  Volume volume;
  volume.name = RequiredText(fields, "name");
  for (const std::string& key : fields.Keys()) {
    if (key != "name") {
      volume.kind = key;
      volume.detail = VolumeDetail(fields.Map(key), key);
      return volume;
    }
  }
  volume.kind = "emptyDir";  // the API server's default for a volume without a source
  return volume;
}

PodSpec ReadPodSpec(const Fields& fields) {
  PodSpec spec;
  fields.Each("containers", [&](const Fields& c) { spec.containers.push_back(ReadContainer(c)); });
  if (spec.containers.empty()) {
    fields.Fail("containers", "must hold at least the Ray container");
  }
  fields.Each("initContainers",
              [&](const Fields& c) { spec.init_containers.push_back(ReadContainer(c)); });
  fields.Each("volumes", [&](const Fields& v) { spec.volumes.push_back(ReadVolume(v)); });
  spec.node_selector = fields.TextMap("nodeSelector");
  fields.Each("tolerations", [&](const Fields& t) {
    const std::string op = t.Text("operator");
    spec.tolerations.push_back(
        {t.Text("key"), op.empty() ? "Equal" : op, t.Text("value"), t.Text("effect")});
  });
  fields.Each("resourceClaims",
              [&](const Fields& claim) { spec.resource_claims.push_back(claim.Text("name")); });
  spec.host_network = fields.Bool("hostNetwork");
  return spec;
}

/// What both kinds of group have in common.
void ReadGroup(const Fields& fields, RayGroup& group) {
  group.source = fields.InFile();
  group.ray_start_params = fields.TextMap("rayStartParams");
  for (auto& [name, value] : group.ray_start_params) {
    value = NamesSecret(name) && !value.empty() ? kRedacted : WithoutSecrets(value);
  }
  const std::string gpus = fields.Map("resources").Text("GPU");
  if (!gpus.empty()) {
    group.ray_start_params["num-gpus"] = gpus;
    fields.Reading().notes.push_back("group '" + group.name +
                                     "': resources.GPU is taken for num-gpus, as KubeRay does");
  }
  const Fields spec = fields.Map("template").Map("spec");
  if (!spec.Present()) {
    fields.Fail("template", "must hold a pod spec (template.spec)");
    return;
  }
  group.pod = ReadPodSpec(spec);
}

RayGroup ReadHead(const Fields& fields) {
  RayGroup group;
  group.name = "headgroup";
  group.replicas = group.min_replicas = group.max_replicas = 1;
  ReadGroup(fields, group);
  return group;
}

/// Defaults as in KubeRay's CRD (apis/ray/v1/raycluster_types.go).
RayGroup ReadWorkers(const Fields& fields) {
  RayGroup group;
  group.name = RequiredText(fields, "groupName");
  group.replicas = fields.Count("replicas", 0);
  group.min_replicas = fields.Count("minReplicas", 0);
  group.max_replicas = fields.Count("maxReplicas", std::numeric_limits<std::int32_t>::max());
  group.hosts_per_replica = fields.Count("numOfHosts", 1);
  group.suspended = fields.Bool("suspend");
  ReadGroup(fields, group);
  return group;
}

void ReadRayClusterSpec(const Fields& spec, RayCluster& cluster) {
  cluster.ray_version = spec.Text("rayVersion");
  cluster.autoscaling = spec.Bool("enableInTreeAutoscaling");
  cluster.suspended = spec.Bool("suspend");
  cluster.auth_mode = spec.Map("authOptions").Text("mode");
  cluster.auth_secret = spec.Map("authOptions").Text("secretName");
  const Fields head = spec.Map("headGroupSpec");
  if (!head.Present()) {
    spec.Fail("headGroupSpec", "is missing");
    return;
  }
  cluster.head = ReadHead(head);
  spec.Each("workerGroupSpecs",
            [&](const Fields& group) { cluster.workers.push_back(ReadWorkers(group)); });
}

ContainerStatus ReadStatus(const Fields& fields) {
  ContainerStatus status;
  status.name = fields.Text("name");
  status.image = fields.FreeText("image");
  status.image_id = fields.FreeText("imageID");
  status.ready = fields.Bool("ready");
  status.restart_count = fields.Count("restartCount", 0);
  const Fields state = fields.Map("state");
  for (const char* name : {"running", "waiting", "terminated"}) {
    if (state.Has(name)) {
      const Fields details = state.Map(name);
      status.state = name;
      status.reason = details.FreeText("reason");
      status.message = WithoutSecrets(details.FreeText("message"));
    }
  }
  return status;
}

/// An entry names its claim, or a controller made one from a template.
void ReadClaimObjects(const Fields& spec, const Fields& status, Pod& pod) {
  for (const auto& [list, fields] :
       {std::pair{"resourceClaims", &spec}, std::pair{"resourceClaimStatuses", &status}}) {
    fields->Each(list, [&](const Fields& entry) {
      if (const std::string claim = entry.FreeText("resourceClaimName"); !claim.empty()) {
        pod.claim_objects[entry.FreeText("name")] = claim;
      }
    });
  }
}

/// An attribute, with its driver's domain in front or not, and wrapped in `basic` before
/// resource.k8s.io/v1beta2.
std::string DeviceAttribute(const Fields& device, const std::string& domain,
                            const std::string& name) {
  for (const Fields& of : {device, device.Map("basic")}) {
    const Fields attributes = of.Map("attributes");
    for (const std::string& key : {name, domain + "/" + name}) {
      if (attributes.Has(key)) {
        return attributes.Map(key).FreeText("string");
      }
    }
  }
  return "";
}

}  // namespace

RayCluster ReadEmbeddedRayCluster(const Fields& object, const Fields& spec,
                                  const std::string& status_name) {
  RayCluster cluster;
  cluster.source = object.InFile();
  const Fields metadata = object.Map("metadata");
  cluster.name_space = NamespaceOf(metadata);
  cluster.name = status_name.empty() ? metadata.Text("name") : status_name;
  if (cluster.name.empty()) {
    metadata.Fail("name", "is missing");
  }
  ReadRayClusterSpec(spec, cluster);
  return cluster;
}

RayCluster ReadRayCluster(const Fields& object) {
  const Fields spec = object.Map("spec");
  if (!spec.Present()) {
    object.Fail("spec", "is missing");
    return {};
  }
  RayCluster cluster = ReadEmbeddedRayCluster(object, spec, "");
  const Fields status = object.Map("status");
  cluster.state = status.FreeText("state");
  cluster.head_service_name = status.Map("head").FreeText("serviceName");
  return cluster;
}

Pod ReadPod(const Fields& object) {
  Pod pod;
  pod.source = object.InFile();
  const Fields metadata = object.Map("metadata");
  pod.name_space = NamespaceOf(metadata);
  pod.name = RequiredText(metadata, "name");
  pod.uid = metadata.FreeText("uid");
  pod.deleting = metadata.Has("deletionTimestamp");
  const Fields labels = metadata.Map("labels");
  pod.ray_cluster = labels.Text("ray.io/cluster");
  pod.ray_node_type = labels.Text("ray.io/node-type");
  pod.ray_group = labels.Text("ray.io/group");
  const Fields spec = object.Map("spec");
  if (!spec.Present()) {
    object.Fail("spec", "is missing");
    return pod;
  }
  pod.node = spec.FreeText("nodeName");
  pod.spec = ReadPodSpec(spec);
  const Fields status = object.Map("status");
  ReadClaimObjects(spec, status, pod);
  pod.phase = status.FreeText("phase");
  pod.pod_ip = status.FreeText("podIP");
  status.Each("containerStatuses", [&](const Fields& s) { pod.statuses.push_back(ReadStatus(s)); });
  status.Each("initContainerStatuses",
              [&](const Fields& s) { pod.init_statuses.push_back(ReadStatus(s)); });
  return pod;
}

ResourceSlice ReadResourceSlice(const Fields& object) {
  ResourceSlice slice;
  slice.source = object.InFile();
  slice.name = RequiredText(object.Map("metadata"), "name");
  const Fields spec = object.Map("spec");
  slice.driver = RequiredText(spec, "driver");
  slice.node = spec.FreeText("nodeName");
  const Fields pool = spec.Map("pool");
  slice.pool = pool.FreeText("name");
  slice.generation = static_cast<std::int64_t>(pool.Number("generation", 0));
  spec.Each("devices", [&](const Fields& device) {
    const char* attribute = slice.driver == kDraNetworkDriver ? "pciDevice" : "type";
    slice.devices.push_back(
        {RequiredText(device, "name"), DeviceAttribute(device, slice.driver, attribute)});
  });
  return slice;
}

ResourceClaim ReadResourceClaim(const Fields& object) {
  ResourceClaim claim;
  claim.source = object.InFile();
  const Fields metadata = object.Map("metadata");
  claim.name_space = NamespaceOf(metadata);
  claim.name = RequiredText(metadata, "name");
  const Fields allocation = object.Map("status").Map("allocation");
  claim.allocated = allocation.Present();
  allocation.Map("devices").Each("results", [&](const Fields& result) {
    if (result.Bool("adminAccess")) {
      return;  // to look at it, beside whoever holds it
    }
    claim.devices.push_back({result.FreeText("request"), RequiredText(result, "driver"),
                             result.FreeText("pool"), RequiredText(result, "device")});
  });
  return claim;
}

Node ReadNode(const Fields& object) {
  Node node;
  node.source = object.InFile();
  const Fields metadata = object.Map("metadata");
  node.name = RequiredText(metadata, "name");
  node.labels = metadata.TextMap("labels");
  const auto label = [&](const char* key) {
    const auto it = node.labels.find(key);
    return it == node.labels.end() ? std::string() : it->second;
  };
  node.instance_type = label("node.kubernetes.io/instance-type");
  node.zone = label("topology.kubernetes.io/zone");
  const Fields spec = object.Map("spec");
  node.unschedulable = spec.Bool("unschedulable");
  spec.Each("taints", [&](const Fields& taint) {
    node.taints.push_back(
        {taint.FreeText("key"), taint.FreeText("value"), taint.FreeText("effect")});
  });
  const Fields status = object.Map("status");
  node.architecture = status.Map("nodeInfo").FreeText("architecture");
  node.allocatable = status.TextMap("allocatable");
  status.Each("conditions", [&](const Fields& condition) {
    if (condition.FreeText("type") == "Ready") {
      node.ready = condition.FreeText("status") == "True";
    }
  });
  return node;
}

}  // namespace dlc
