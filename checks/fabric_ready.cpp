#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "checks/check.h"
#include "checks/claimed_devices.h"
#include "checks/efa_nodes.h"
#include "checks/instance_types.h"
#include "checks/pod_devices.h"
#include "checks/pod_resources.h"
#include "checks/ray_cluster_view.h"
#include "checks/wording.h"

namespace dlc {

extern const Check kFabricReady;  // the table in check_list.cpp finds it by this name

namespace {

constexpr std::string_view kEfaLimit = "fabric-ready/efa-limit";
constexpr std::string_view kLimitInRayContainer = "fabric-ready/limit-in-ray-container";
constexpr std::string_view kByEnvOnly = "fabric-ready/provider-by-env-only";
constexpr std::string_view kTypeHasEfa = "fabric-ready/type-has-efa";
constexpr std::string_view kInterfaceShare = "fabric-ready/interface-share";
constexpr std::string_view kNodeAllocatable = "fabric-ready/node-allocatable";
constexpr std::string_view kAllocatableMatchesType = "fabric-ready/allocatable-matches-type";
constexpr std::string_view kOneZone = "fabric-ready/one-zone";
constexpr std::string_view kNoHostPath = "fabric-ready/no-infiniband-hostpath";

constexpr std::string_view kSaysNothing =
    "over what transport any byte travels: manifests and node objects show nothing about it";

constexpr Rule kRules[] = {
    {kEfaLimit, Severity::kRequired, false, "worker pods ask for EFA interfaces",
     "the Ray container's limit hands EFA devices to the pod", kSaysNothing,
     "set limits[vpc.amazonaws.com/efa] (and the equal request) of the worker group's "
     "containers[0]"},
    {kLimitInRayContainer, Severity::kRequired, false,
     "EFA interfaces are a limit of the Ray container (containers[0])",
     "the interfaces that the pod asks for go to the container that runs Ray", kSaysNothing,
     "move the EFA resource to limits of containers[0]; a request without an equal limit is "
     "invalid "
     "for extended resources"},
    {kByEnvOnly, Severity::kRequired, false, "FI_PROVIDER=efa comes with an EFA device",
     "the pod that names the efa provider also asks for its device", kSaysNothing,
     "add the EFA limit: the variable alone hands no device to the pod, and NCCL falls back to TCP "
     "without an error"},
    {kTypeHasEfa, Severity::kWarn, false, "the workers' instance type has EFA",
     "AWS lists EFA interfaces for the instance type", kSaysNothing,
     "choose an instance type with EFA (g6.8xlarge or larger, g6e, p4d, p5, p6) if training spans "
     "nodes, or set fabric.efa: no"},
    {kInterfaceShare, Severity::kWarn, false,
     "the pod takes its share of the instance's EFA interfaces",
     "the limit is at least the interfaces that belong to the pod's GPUs", kSaysNothing,
     "raise limits[vpc.amazonaws.com/efa]: unused interfaces are unused bandwidth"},
    {kNodeAllocatable, Severity::kRequired, false,
     "nodes offer the EFA interfaces that worker pods ask for",
     "the node's allocatable EFA interfaces cover the limits of the Ray workers on it",
     kSaysNothing,
     "kubectl describe node: look at allocatable, and at aws-efa-k8s-device-plugin on that node"},
    {kAllocatableMatchesType, Severity::kWarn, false,
     "nodes offer as many EFA interfaces as their type has",
     "the device plugin counts what AWS lists for the type", kSaysNothing,
     "check the launch template's EFA interfaces, and the device plugin's version: older ones "
     "miscount new types"},
    {kOneZone, Severity::kRequired, false, "all workers are in one availability zone",
     "the nodes carry one zone label: EFA traffic does not leave a subnet",
     "that they share a subnet and a security group that allows all traffic within itself",
     "pin the worker group with nodeSelector topology.kubernetes.io/zone, or use one node group "
     "per "
     "zone"},
    {kNoHostPath, Severity::kWarn, false, "/dev/infiniband is not mounted from the host",
     "the pod spec leaves the devices to the device plugin", kSaysNothing,
     "remove the hostPath volume: it shows the pod devices it was not given, and provider "
     "discovery "
     "can fail on them"},
    {kDevicesInPod, Severity::kRequired, false, "a worker's pod holds the EFA devices of its limit",
     "so many EFA devices are in /sys/class/infiniband, and their uverbs nodes open",
     "that a byte went by them",
     "kubectl describe pod: look at the limit, and at aws-efa-k8s-device-plugin on that node"},
    {kEfaProvider, Severity::kRequired, false, "libfabric offers the efa provider in the pod",
     "fi_getinfo of the library in the pod lists efa for reliable messages with tags",
     "that NCCL's plugin takes it",
     "look at /dev/infiniband, `ulimit -l` and FI_PROVIDER in the pod, in this order"},
    {kMemlock, Severity::kWarn, false, "memory may be locked without limit",
     "RLIMIT_MEMLOCK of the rank's process is unlimited", "that the node has the memory",
     "set LimitMEMLOCK=infinity for the container runtime; EFA registers memory and fails without "
     "a word of this limit"},
    {kHugePages, Severity::kWarn, false, "the node has 2 MiB pages",
     "a pool of 2 MiB pages is there", "that the pod may use it: that is its hugepages-2Mi limit",
     "set vm.nr_hugepages on the node: the EFA provider falls back to small pages, and may run "
     "out of registrations"},
    {kInstallerOnNode, Severity::kRequired, false,
     "the pod has the EFA installer version of the policy",
     "the version that /opt/amazon/efa_installed_packages names in the rank's container",
     "that no file of it was replaced", "run the image that the policy pins"},
};

struct Context {
  const ClusterFacts& cluster;  ///< with devices of claims as limits
  const Policy& policy;
  Judge judge;
  EfaNodes nodes;
  std::vector<RayClusterView> views;

  const std::string& Resource() const { return policy.fabric.resource; }
  bool Required() const { return policy.fabric.efa == "required"; }
  bool NodesSeen() const { return nodes.seen(); }
  std::string LimitMetric() const { return "limits[" + Resource() + "]"; }
};

bool NamesEfaProvider(const PodSpec& spec) {
  const EnvVar* variable = RayEnv(spec, "FI_PROVIDER");
  return variable != nullptr && variable->value == "efa";
}

/// True when the limit could be judged: the rules about its size make sense then.
bool JudgeEfaLimit(Context& context, const RayUnit& unit, const ResourceAsk& ask,
                   const UnitNodes& nodes) {
  const bool none = ask.Count() == 0 && !std::holds_alternative<std::string>(ask.limit);
  if (none && !unit.claims_unread.empty()) {
    const auto& claims = unit.spec->resource_claims;
    context.judge.Unknown(
        kEfaLimit, unit.subject,
        {"not-looked-at",
         "the pod has resource claims (" + NameSome(claims, claims.size()) +
             "), by which the EFA DRA driver gives devices: " + unit.claims_unread,
         ""});
    return false;
  }
  if (!context.Required() && nodes.efa == HasEfa::kNo) {
    context.judge.NotApplicable(kEfaLimit, unit.subject,
                                "instance type " + nodes.type + " has no EFA");
    if (unit.pod == nullptr || unit.group == nullptr) {
      context.judge.Decide(kTypeHasEfa, unit.subject,
                           {{"EFA interfaces of " + nodes.type, Op::kGe, std::int64_t{1},
                             std::int64_t{0}, "", "constant"}});
    }
    return false;
  }
  if (NamesEfaProvider(*unit.spec)) {
    context.judge.Decide(kByEnvOnly, unit.subject,
                         {{context.LimitMetric() + " beside FI_PROVIDER=efa", Op::kGe,
                           std::int64_t{1}, ask.limit, "", "constant"}});
  }
  if (!context.Required() && nodes.efa == HasEfa::kUnknown && none) {
    context.judge.Unknown(
        kEfaLimit, unit.subject,
        {"not-looked-at",
         "no EFA limit, and whether the nodes have EFA is not known: " + nodes.why_unknown, ""});
    return false;
  }
  const int wanted = context.policy.fabric.interfaces_per_worker_pod;
  Finding& finding = context.judge.Decide(
      kEfaLimit, unit.subject,
      {{context.LimitMetric(), wanted > 0 ? Op::kEq : Op::kGe, std::int64_t{std::max(wanted, 1)},
        ask.limit, "", wanted > 0 ? "policy:fabric.interfacesPerWorkerPod" : "policy:fabric.efa"}});
  if (finding.verdict == Verdict::kFail && !nodes.type.empty()) {
    finding.notes.push_back("the nodes are " + nodes.type);
  }
  if (finding.verdict == Verdict::kPass &&
      !unit.spec->containers[0].limits.contains("hugepages-2Mi")) {
    finding.notes.push_back(
        "no hugepages-2Mi limit: AWS's EFA examples ask for 5120Mi; the Ray Train manifests do "
        "without");
  }
  return true;
}

void JudgeShare(Context& context, const RayUnit& unit, const ResourceAsk& ask,
                const UnitNodes& nodes) {
  if (ask.Count() == 0) {
    return;
  }
  const InstanceType* type = FindInstanceType(nodes.type);
  if (type == nullptr) {
    context.judge.Unknown(
        kInterfaceShare, unit.subject,
        {"not-looked-at",
         nodes.why_unknown.empty() ? "the instance type is not known" : nodes.why_unknown, ""});
    return;
  }
  if (type->efa_interfaces == 0) {
    return;  // required by policy on a type without: efa-limit and node-allocatable speak
  }
  const std::int64_t gpus = AllottedGpuCount(*unit.spec, context.policy.gpu.resource);
  const bool part = gpus > 0 && gpus < type->gpus;
  const std::int64_t share =
      part ? std::max<std::int64_t>(1, type->efa_interfaces * gpus / type->gpus)
           : type->efa_interfaces;
  Finding& finding =
      context.judge.Decide(kInterfaceShare, unit.subject,
                           {{context.LimitMetric(), Op::kGe, share, ask.Count(), "", "constant"}});
  finding.notes.push_back(nodes.type + " has " + std::to_string(type->efa_interfaces) +
                          " EFA interfaces and " + std::to_string(type->gpus) + " GPUs; the pod " +
                          "takes " + std::to_string(ask.Count()) + " and " + std::to_string(gpus));
}

void JudgeHostPath(Context& context, const RayUnit& unit) {
  std::vector<std::string> mounts;
  for (const Volume& volume : unit.spec->volumes) {
    if (volume.kind == "hostPath" && volume.detail.starts_with("/dev/infiniband")) {
      mounts.push_back(volume.name + " (" + volume.detail + ")");
    }
  }
  context.judge.Decide(kNoHostPath, unit.subject,
                       {{"hostPath volumes on /dev/infiniband", Op::kSubset,
                         std::vector<std::string>{}, std::move(mounts), "", "constant"}});
}

void JudgeNodeCounts(Context& context, const std::set<const Node*>& nodes) {
  for (const Node* node : nodes) {
    const InstanceType* type = FindInstanceType(node->instance_type);
    const AssertedValue offer = QuantityValue(node->allocatable, context.Resource());
    if (type != nullptr && type->efa_interfaces > 0 &&
        !std::holds_alternative<std::monostate>(offer)) {
      context.judge.Decide(kAllocatableMatchesType, {"node", node->name},
                           {{"allocatable[" + context.Resource() + "] of " + node->instance_type,
                             Op::kEq, std::int64_t{type->efa_interfaces}, offer, "", "constant"}});
    }
  }
}

void JudgeZones(Context& context, const RayClusterView& view, const std::set<const Node*>& nodes,
                bool placed) {
  if (!context.NodesSeen()) {
    context.judge.Unseen(kOneZone, view.ClusterSubject(), "the nodes", context.cluster.nodes);
    return;
  }
  std::set<std::string> zones;
  for (const Node* node : nodes) {
    zones.insert(node->zone);
  }
  std::string names;
  for (const std::string& zone : zones) {
    names += (names.empty() ? "" : ", ") + (zone.empty() ? "(no zone label)" : zone);
  }
  if (nodes.empty()) {
    context.judge.Unknown(kOneZone, view.ClusterSubject(),
                          {"not-found", "no node was seen that carries or fits the workers", ""});
  } else if (zones.contains("")) {
    context.judge.Unknown(kOneZone, view.ClusterSubject(),
                          {"not-found", "not every node has a zone label: " + names, ""});
  } else if (!placed && zones.size() > 1) {
    context.judge.Unknown(
        kOneZone, view.ClusterSubject(),
        {"not-looked-at",
         "no worker pod was seen on a node, and the nodes that fit are in several "
         "zones: " +
             names,
         ""});
  } else {
    Finding& finding =
        context.judge.Decide(kOneZone, view.ClusterSubject(),
                             {{"zones of worker nodes", Op::kEq, std::int64_t{1},
                               static_cast<std::int64_t>(zones.size()), "", "constant"}});
    finding.notes.push_back((placed ? "worker nodes are in " : "nodes that fit are in ") + names);
  }
}

/// A worker group, or a worker pod: both are judged, the pod being what really runs.
void JudgeUnit(Context& context, const RayUnit& unit, const UnitNodes& nodes) {
  const ResourceAsk ask = AskFor(*unit.spec, context.Resource());
  if (ask.Misplaced()) {
    JudgeMisplaced(context.judge, kLimitInRayContainer, unit.subject, context.Resource(), ask);
  }
  const bool judged = JudgeEfaLimit(context, unit, ask, nodes);
  if (unit.pod != nullptr && unit.group != nullptr) {
    return;  // sizes and volumes were told of its group
  }
  if (judged) {
    JudgeShare(context, unit, ask, nodes);
  }
  JudgeHostPath(context, unit);
}

void JudgeView(Context& context, const RayClusterView& view) {
  const auto running = static_cast<std::int64_t>(view.WorkerPods().size());
  if (const auto pods = std::max(view.WorkerPodsAsked(), running); pods < 2) {
    context.judge.NotApplicable(kEfaLimit, view.ClusterSubject(),
                                std::to_string(pods) +
                                    " worker pods: EFA carries traffic between nodes, and fewer "
                                    "than two pods have none");
    return;
  }
  std::set<const Node*> placed;
  std::set<const Node*> fitting;
  bool applies = false;
  std::map<const RayGroup*, UnitNodes> by_group;
  for (const auto* units : {&view.groups, &view.pods}) {
    for (const RayUnit& unit : *units) {
      if (unit.head) {
        continue;
      }
      UnitNodes own;
      const UnitNodes& nodes =
          unit.pod == nullptr
              ? by_group.emplace(unit.group, context.nodes.OfGroup(view, unit)).first->second
              : context.nodes.OfPod(unit, by_group, own);
      applies = applies || context.Required() || nodes.efa != HasEfa::kNo;
      if (unit.pod == nullptr || &nodes == &own) {  // a group's are in already
        (nodes.placed ? placed : fitting).insert(nodes.nodes.begin(), nodes.nodes.end());
      }
      JudgeUnit(context, unit, nodes);
    }
  }
  if (applies) {
    JudgeNodeCounts(context, placed.empty() ? fitting : placed);
    JudgeZones(context, view, placed.empty() ? fitting : placed, !placed.empty());
  }
}

std::vector<Finding> JudgeFabricReady(const Observations& observations, const Policy& policy) {
  const ClaimedCluster claimed(observations.cluster, policy);
  Context context{claimed.Facts(), policy, Judge(kFabricReady, policy),
                  EfaNodes(claimed.Facts(), policy.fabric.resource), claimed.Views()};
  if (policy.fabric.efa == "no") {
    context.judge.NotApplicable(kEfaLimit, {"cluster", ""}, "the policy does not ask for EFA");
    return context.judge.Take();
  }
  const bool imported = observations.nccl_logs.seen() || observations.nccl_tests.seen();
  if (imported && policy.fabric.efa != "required" && context.views.empty()) {
    context.judge.NotApplicable(kEfaLimit, {"cluster", ""},
                                "what an earlier run left is judged, and no cluster was named");
    return context.judge.Take();
  }
  if (context.views.empty()) {
    NothingOfRay(observations.cluster, {kEfaLimit, kNodeAllocatable, kOneZone}, context.judge);
  }
  for (const RayClusterView& view : context.views) {
    JudgeView(context, view);
  }
  JudgeAllocatable(context.judge, kNodeAllocatable, policy.fabric.resource, context.views,
                   context.cluster.nodes);
  JudgePodDevices(observations, policy, context.views, context.judge);
  std::vector<Finding> findings = context.judge.Take();
  claimed.Explain(context.views, findings);
  return findings;
}

}  // namespace

constinit const Check kFabricReady{
    "fabric-ready",
    Stage::kNccl,
    false,
    "EFA is asked for and offered where workers span nodes",
    "per worker group: limits vpc.amazonaws.com/efa against policy, instance type and node "
    "allocatable; zones of the worker nodes; in the pods of ranks: devices, provider, limits",
    kRules,
    JudgeFabricReady,
};

}  // namespace dlc
