#include <algorithm>
#include <string>
#include <utility>

#include "checks/check.h"
#include "checks/claimed_devices.h"
#include "checks/gpu_held.h"
#include "checks/node_fit.h"
#include "checks/pod_resources.h"
#include "checks/rank_results.h"
#include "checks/ray_advertised.h"
#include "checks/ray_cluster_view.h"

namespace dlc {

extern const Check kGpuAllocation;  // the table in check_list.cpp finds it by this name

namespace {

constexpr std::string_view kLimitMatchesPolicy = "gpu-allocation/limit-matches-policy";
constexpr std::string_view kLimitInRayContainer = "gpu-allocation/limit-in-ray-container";
constexpr std::string_view kWorkerPodsAsked = "gpu-allocation/worker-pods-asked";
constexpr std::string_view kWorkerPodsRunning = "gpu-allocation/worker-pods-running";
constexpr std::string_view kWorkerTotal = "gpu-allocation/worker-total";
constexpr std::string_view kRayFlag = "gpu-allocation/ray-flag-matches-limit";
constexpr std::string_view kRayFlagStated = "gpu-allocation/ray-flag-stated";
constexpr std::string_view kRayAdvertises = "gpu-allocation/ray-advertises-limit";
constexpr std::string_view kHeadHasNoGpu = "gpu-allocation/head-has-no-gpu";
constexpr std::string_view kHeadVisibility = "gpu-allocation/head-visibility";
constexpr std::string_view kSchedulable = "gpu-allocation/workers-schedulable";
constexpr std::string_view kNodeAllocatable = "gpu-allocation/node-allocatable";
constexpr std::string_view kVisibleDevices = "gpu-allocation/visible-devices";
constexpr std::string_view kWholeGpus = "gpu-allocation/whole-gpus";
constexpr std::string_view kWorkersStay = "gpu-allocation/workers-stay";

constexpr Rule kRules[] = {
    {kLimitMatchesPolicy, Severity::kRequired, true,
     "every worker's Ray container has the GPU limit of the policy",
     "the Ray container's limit is the number in the policy",
     "that so many GPUs are visible or work in the pod",
     "set limits of containers[0] in the worker group's template, or gpu.perWorkerPod in the "
     "policy"},
    {kLimitInRayContainer, Severity::kRequired, true,
     "GPUs are a limit of the Ray container (containers[0])",
     "the GPUs that the pod asks for go to the container that runs Ray",
     "that the device plugin hands them over",
     "move the GPU resource to limits of containers[0]; a request without an equal limit is "
     "invalid "
     "for extended resources"},
    {kWorkerPodsAsked, Severity::kRequired, true, "the RayCluster asks for enough worker pods",
     "replicas x numOfHosts over all groups that are not suspended gives the wanted pods",
     "that these pods exist or can be scheduled",
     "raise replicas, resume the group, or lower gpu.workerPods in the policy"},
    {kWorkerPodsRunning, Severity::kRequired, true, "the wanted worker pods run",
     "so many worker pods had a running Ray container when looked at",
     "that they stay, or that their Ray joined the cluster",
     "kubectl get pods -l ray.io/node-type=worker, then kubectl describe the pods that do not run"},
    {kWorkerTotal, Severity::kRequired, true, "the workers hold the GPUs that the job needs",
     "the GPU limits of the worker pods add up to the wanted total",
     "that the GPUs are free: another job may hold them",
     "raise replicas or the GPU limit, or lower the workload's workers"},
    {kRayFlag, Severity::kRequired, true, "rayStartParams num-gpus equals the GPU limit",
     "Ray is told the number of GPUs that the pod is given",
     "that Ray was started with it, or that the GPUs are visible",
     "make num-gpus equal to limits of containers[0], or leave num-gpus out: KubeRay then passes "
     "the limit"},
    {kRayFlagStated, Severity::kWarn, false, "pods without GPUs tell Ray so",
     "num-gpus is stated where there is no GPU limit to take it from", "that the pod sees no GPU",
     "set rayStartParams num-gpus: \"0\": without it and without a limit Ray counts every GPU that "
     "the container can see"},
    {kRayAdvertises, Severity::kRequired, true, "every Ray node advertises its pod's GPU limit",
     "Ray schedules as many GPUs on the node as its pod was given",
     "that the pod can see or use them: Ray repeats what it was told",
     "set rayStartParams num-gpus to the pod's limit (\"0\" on a head without GPUs, with "
     "NVIDIA_VISIBLE_DEVICES=void), and recreate the pod"},
    {kHeadHasNoGpu, Severity::kRequired, false, "the head has no GPU",
     "the head's Ray container has no GPU limit", "that no GPU is visible in the head",
     "remove the GPU limit from the head group: training workers belong on worker pods"},
    {kHeadVisibility, Severity::kWarn, false, "GPUs are hidden from a head without GPU limit",
     "NVIDIA_VISIBLE_DEVICES keeps the container runtime from adding GPUs to the head",
     "that the node's runtime obeys it",
     "set env NVIDIA_VISIBLE_DEVICES=void on the head: the image asks for all GPUs, and the NVIDIA "
     "hook fails on nodes without a driver"},
    {kSchedulable, Severity::kRequired, true, "worker pods have nodes to run on",
     "the scheduler has placed the pods, or a ready node passes nodeSelector and tolerations",
     "that the node has room, or passes affinity rules (not looked at)",
     "kubectl get nodes --show-labels, and compare with the group's nodeSelector and tolerations; "
     "a "
     "node group that scales from zero has no node yet"},
    {kNodeAllocatable, Severity::kRequired, true, "nodes offer the GPUs that worker pods ask for",
     "the node's allocatable GPUs cover the limits of the Ray workers on it",
     "that the GPUs are healthy, or free of other pods",
     "kubectl describe node: look at allocatable, and at the device plugin's pod on that node"},
    {kVisibleDevices, Severity::kWarn, false, "no pod setting opens all GPUs of the node",
     "neither privileged mode nor NVIDIA_VISIBLE_DEVICES=all is set in the pod spec",
     "that only the allotted GPUs are visible: the image itself may ask for all",
     "remove privileged and NVIDIA_VISIBLE_DEVICES=all; the device plugin sets the variable"},
    {kWholeGpus, Severity::kWarn, false, "workers hold whole GPUs",
     "no MIG slice is among the limits", "that MIG is off on the node",
     "use whole GPUs: NCCL across MIG slices is unsupported, and CUDA opens one slice a process"},
    {kWorkersStay, Severity::kWarn, false, "the autoscaler keeps the wanted workers",
     "minReplicas holds the wanted worker pods while they are idle",
     "that nodes are not reclaimed underneath",
     "raise minReplicas: the autoscaler removes workers after idleTimeoutSeconds (60 by default), "
     "also between two steps of this run"},
    {kHeldRule, Severity::kRequired, true, "the ranks hold the GPUs that their pod was given",
     "as many GPUs as the pod's limit (or gpu.perWorkerPod) are permitted, shown by CUDA to the "
     "ranks of the pod, and computed",
     "that another pod is not shown the same ones",
     "see gpu-visible and gpu-driver for what is missing; more GPUs than the limit come from "
     "privileged mode or from the image's NVIDIA_VISIBLE_DEVICES=all"},
};

struct Context {
  const Observations& seen;
  const ClusterFacts& cluster;  ///< of `seen`, with devices of claims as limits
  const Policy& policy;
  std::vector<RayClusterView> views;
  Judge judge;

  const std::string& Resource() const { return policy.gpu.resource; }
  bool PodsSeen() const { return cluster.pods.seen(); }
  std::string LimitMetric() const { return "limits[" + Resource() + "]"; }
};

void JudgeLimit(Context& context, const RayUnit& unit) {
  const ResourceAsk ask = AskFor(*unit.spec, context.Resource());
  if (ask.Misplaced()) {
    JudgeMisplaced(context.judge, kLimitInRayContainer, unit.subject, context.Resource(), ask);
  } else if (ask.Count() > 0) {
    std::vector<Assertion> assertions = {{context.LimitMetric() + " of containers[0]", Op::kGe,
                                          std::int64_t{1}, ask.limit, "", "constant"}};
    if (!std::holds_alternative<std::monostate>(ask.request)) {
      assertions.push_back({"requests[" + context.Resource() + "]", Op::kEq, ask.limit, ask.request,
                            "", "observation:cluster"});
    }
    context.judge.Decide(kLimitInRayContainer, unit.subject, std::move(assertions));
  }
  if (unit.head) {
    return;
  }
  if (context.policy.gpu.per_worker_pod > 0) {
    context.judge.Decide(
        kLimitMatchesPolicy, unit.subject,
        {{context.LimitMetric(), Op::kEq, std::int64_t{context.policy.gpu.per_worker_pod},
          ask.limit, "", "policy:gpu.perWorkerPod"}});
  } else {
    context.judge.NotApplicable(kLimitMatchesPolicy, unit.subject,
                                "the policy demands no number (gpu.perWorkerPod); the limit is " +
                                    AssertedValueText(ask.limit));
  }
}

void JudgeVisibility(Context& context, const RayUnit& unit) {
  std::vector<std::string> open;
  for (const ContainerSpec& container : unit.spec->containers) {
    if (container.privileged) {
      open.push_back(container.name + ": privileged");
    }
    for (const EnvVar& variable : container.env) {
      if (variable.name == "NVIDIA_VISIBLE_DEVICES" && variable.value == "all") {
        open.push_back(container.name + ": NVIDIA_VISIBLE_DEVICES=all");
      }
    }
  }
  context.judge.Decide(kVisibleDevices, unit.subject,
                       {{"settings that open all GPUs", Op::kSubset, std::vector<std::string>{},
                         std::move(open), "", "constant"}});
  if (const std::int64_t slices = MigSlices(*unit.spec); slices > 0) {
    context.judge.Decide(kWholeGpus, unit.subject,
                         {{"MIG slices", Op::kEq, std::int64_t{0}, slices, "", "constant"}});
  }
}

void JudgeHead(Context& context, const RayUnit& unit) {
  const AssertedValue gpus = AllottedGpus(*unit.spec, context.Resource());
  context.judge.Decide(kHeadHasNoGpu, unit.subject,
                       {{context.LimitMetric(), Op::kEq, std::int64_t{0}, gpus, "", "constant"}});
  if (gpus != AssertedValue(std::int64_t{0})) {
    return;
  }
  const EnvVar* variable = RayEnv(*unit.spec, "NVIDIA_VISIBLE_DEVICES");
  if (variable != nullptr && !variable->value_from.empty()) {
    context.judge.Unknown(
        kHeadVisibility, unit.subject,
        {"not-looked-at",
         "NVIDIA_VISIBLE_DEVICES comes from " + variable->value_from + ", which is not read", ""});
    return;
  }
  context.judge.Decide(
      kHeadVisibility, unit.subject,
      {{"env NVIDIA_VISIBLE_DEVICES", Op::kIn, std::vector<std::string>{"void", "none"},
        variable == nullptr ? AssertedValue() : AssertedValue(variable->value), "", "constant"}});
}

void JudgeFlag(Context& context, const RayUnit& unit) {
  const AssertedValue flag = QuantityValue(unit.group->ray_start_params, "num-gpus");
  const AssertedValue allotted = AllottedGpus(*unit.spec, context.Resource());
  const auto decide = [&](AssertedValue observed) -> Finding& {
    return context.judge.Decide(kRayFlag, unit.subject,
                                {{"num-gpus", Op::kEq, allotted, std::move(observed), "",
                                  "observation:cluster.rayClusters"}});
  };
  const bool stated = !std::holds_alternative<std::monostate>(flag);
  if (stated) {
    decide(flag);
  } else if (const DerivedGpuFlag derived = KubeRayGpuFlag(*unit.spec);
             !derived.resource.empty() && !unit.by_claims) {
    decide(derived.count)
        .notes.push_back("num-gpus is not set: KubeRay passes limits[" + derived.resource + "]");
  } else {
    context.judge.NotApplicable(kRayFlag, unit.subject,
                                unit.by_claims
                                    ? "num-gpus is not set, and of claims KubeRay passes nothing: "
                                      "Ray counts what it can see"
                                    : "neither num-gpus nor a GPU limit is set");
  }
  if (AllottedGpuCount(*unit.spec, context.Resource()) == 0) {
    context.judge.Decide(
        kRayFlagStated, unit.subject,
        {{"num-gpus without a GPU limit", Op::kEq, std::int64_t{0}, flag, "", "constant"}});
  }
}

/// How many worker pods are wanted, and who says so.
Assertion WantedPods(const Context& context) {
  const GpuPolicy& gpu = context.policy.gpu;
  const Workload& workload = context.seen.run.workload;
  if (gpu.worker_pods > 0) {
    return {"", Op::kEq, std::int64_t{gpu.worker_pods}, {}, "", "policy:gpu.workerPods"};
  }
  if (workload.nodes > 0) {
    return {"", Op::kGe, std::int64_t{workload.nodes}, {}, "", "observation:run.workload.nodes"};
  }
  return {"", Op::kGe, std::int64_t{1}, {}, "", "constant"};
}

Assertion With(Assertion assertion, std::string metric, AssertedValue observed) {
  assertion.metric = std::move(metric);
  assertion.observed = std::move(observed);
  return assertion;
}

void JudgePodsAsked(Context& context, const RayClusterView& view) {
  const Assertion wanted = WantedPods(context);
  if (view.object == nullptr) {
    if (context.cluster.ray_clusters.seen()) {
      context.judge.Unknown(
          kWorkerPodsAsked, view.ClusterSubject(),
          {"not-found", "its pods were seen, but no RayCluster of this name", ""});
    } else {
      context.judge.Unseen(kWorkerPodsAsked, view.ClusterSubject(), "the RayCluster",
                           context.cluster.ray_clusters);
    }
    return;
  }
  Finding& finding =
      context.judge.Decide(kWorkerPodsAsked, view.ClusterSubject(),
                           {With(wanted, "worker pods asked for", view.WorkerPodsAsked())});
  if (view.object->suspended) {
    finding.notes.push_back("the RayCluster is suspended");
  }
  for (const std::string& group : view.suspended_groups) {
    finding.notes.push_back("group '" + group + "' is suspended and counts for none");
  }
  if (!view.object->autoscaling) {
    return;
  }
  std::int64_t kept = 0;
  for (const RayUnit& unit : view.groups) {
    kept += unit.head ? 0 : std::int64_t{unit.group->min_replicas} * unit.group->hosts_per_replica;
  }
  Assertion stay = With(wanted, "minReplicas x numOfHosts", kept);
  stay.op = Op::kGe;
  context.judge.Decide(kWorkersStay, view.ClusterSubject(), {std::move(stay)});
}

std::string WhyNotRunning(const Pod& pod) {
  for (const auto* statuses : {&pod.init_statuses, &pod.statuses}) {
    for (const ContainerStatus& status : *statuses) {
      if (status.state == "waiting" && !status.reason.empty()) {
        return status.reason;
      }
    }
  }
  return pod.phase.empty() ? "phase not reported" : pod.phase;
}

/// Pods that a finding names one by one.
constexpr std::size_t kNamed = 5;

void JudgePodsRunning(Context& context, const RayClusterView& view) {
  if (!context.PodsSeen()) {
    context.judge.Unseen(kWorkerPodsRunning, view.ClusterSubject(), "the pods",
                         context.cluster.pods);
    return;
  }
  std::int64_t running = 0;
  std::vector<std::string> waiting;
  for (const RayUnit* unit : view.WorkerPods()) {
    if (RayContainerRuns(*unit->pod)) {
      ++running;
    } else {
      waiting.push_back(unit->subject.name + ": " + WhyNotRunning(*unit->pod));
    }
  }
  std::vector<Assertion> assertions = {With(WantedPods(context), "running worker pods", running)};
  if (view.object != nullptr) {
    assertions.push_back({"running worker pods of those asked for", Op::kGe, view.WorkerPodsAsked(),
                          running, "", "observation:cluster.rayClusters"});
  }
  Finding& finding =
      context.judge.Decide(kWorkerPodsRunning, view.ClusterSubject(), std::move(assertions));
  for (std::size_t i = 0; i < waiting.size() && i < kNamed; ++i) {
    finding.notes.push_back(waiting[i]);
  }
  if (waiting.size() > kNamed) {
    finding.notes.push_back(std::to_string(waiting.size() - kNamed) + " more do not run");
  }
}

/// nullptr: there is none.
const RayUnit* WorkerOfUnknownLimit(const Context& context, const RayClusterView& view) {
  for (const auto* units : {&view.groups, &view.pods}) {
    for (const RayUnit& unit : *units) {
      if (!unit.head && IsLimitUnknown(unit, context.Resource())) {
        return &unit;
      }
    }
  }
  return nullptr;
}

void JudgeTotal(Context& context, const RayClusterView& view) {
  Assertion wanted{"", Op::kGe, std::int64_t{1}, {}, "GPUs", "constant"};
  const Workload& workload = context.seen.run.workload;
  if (context.policy.gpu.total > 0) {
    wanted.op = Op::kEq;
    wanted.limit = std::int64_t{context.policy.gpu.total};
    wanted.source = "policy:gpu.total";
  } else if (workload.workers > 0) {
    wanted.limit = std::int64_t{workload.workers} * std::max(workload.gpus_per_worker, 1);
    wanted.source = "observation:run.workload.workers";
  }
  if (const RayUnit* unit = WorkerOfUnknownLimit(context, view)) {
    context.judge.Unknown(kWorkerTotal, view.ClusterSubject(),
                          {"not-looked-at", unit->subject.name + ": " + unit->claims_unread, ""});
    return;
  }
  std::vector<Assertion> assertions;
  if (view.object != nullptr) {
    std::int64_t asked = 0;
    for (const RayUnit& unit : view.groups) {
      const bool counts = !unit.head && !view.object->suspended;
      asked +=
          counts ? PodsOfGroup(*unit.group) * AllottedGpuCount(*unit.spec, context.Resource()) : 0;
    }
    assertions.push_back(With(wanted, "asked for by worker groups", asked));
  }
  if (context.PodsSeen()) {
    std::int64_t held = 0;
    for (const RayUnit* unit : view.WorkerPods()) {
      held += RayContainerRuns(*unit->pod) ? AllottedGpuCount(*unit->spec, context.Resource()) : 0;
    }
    assertions.push_back(With(wanted, "held by running worker pods", held));
  }
  context.judge.Decide(kWorkerTotal, view.ClusterSubject(), std::move(assertions));
}

/// What is asked for is not known, so it is neither too little nor enough.
void UnknownClaims(Context& context, const RayUnit& unit) {
  context.judge.Unknown(unit.head ? kHeadHasNoGpu : kLimitMatchesPolicy, unit.subject,
                        {"not-looked-at", unit.claims_unread, ""});
  if (unit.pod == nullptr) {
    context.judge.Unknown(kRayFlag, unit.subject, {"not-looked-at", unit.claims_unread, ""});
  }
}

void JudgeView(Context& context, const RayClusterView& view) {
  bool head = false;
  for (const auto* units : {&view.groups, &view.pods}) {
    for (const RayUnit& unit : *units) {
      JudgeVisibility(context, unit);
      head = head || unit.head;
      if (IsLimitUnknown(unit, context.Resource())) {
        UnknownClaims(context, unit);
        continue;
      }
      JudgeLimit(context, unit);
      if (unit.head) {
        JudgeHead(context, unit);
      }
      if (unit.pod == nullptr) {
        JudgeFlag(context, unit);
      }
    }
  }
  if (!head) {
    context.judge.Unknown(kHeadHasNoGpu, view.ClusterSubject(),
                          {"not-found", "no head pod was seen", ""});
  }
  if (view.object == nullptr) {
    context.judge.Unknown(kRayFlag, view.ClusterSubject(),
                          {"not-looked-at", "its RayCluster object was not seen", ""});
  }
  JudgePodsAsked(context, view);
  JudgePodsRunning(context, view);
  JudgeTotal(context, view);
  JudgeSchedulable(context.judge, kSchedulable, view, context.cluster.nodes);
}

std::vector<Finding> JudgeGpuAllocation(const Observations& observations, const Policy& policy) {
  const ClaimedCluster claimed(observations.cluster, policy);
  Context context{observations, claimed.Facts(), policy, claimed.Views(),
                  Judge(kGpuAllocation, policy)};
  JudgeHeldGpus(observations, policy, context.judge);
  if (policy.gpu.devices == "no") {
    return context.judge.Take();
  }
  if (IsHostAlone(observations)) {
    JudgeHostAlone(observations, kWorkerPodsAsked, policy.gpu.worker_pods > 0, context.judge);
    JudgeHostAlone(observations, kWorkerTotal, policy.gpu.total > 0, context.judge);
  } else if (context.views.empty()) {
    NothingOfRay(observations.cluster,
                 {kLimitMatchesPolicy, kRayFlag, kWorkerPodsAsked, kWorkerPodsRunning, kWorkerTotal,
                  kSchedulable, kRayAdvertises, kHeadHasNoGpu, kNodeAllocatable},
                 context.judge);
  } else {
    for (const RayClusterView& view : context.views) {
      JudgeView(context, view);
    }
    JudgeAdvertisedGpus(context.judge, kRayAdvertises, policy.gpu.resource, context.views,
                        observations);
    JudgeAllocatable(context.judge, kNodeAllocatable, policy.gpu.resource, context.views,
                     context.cluster.nodes);
  }
  std::vector<Finding> findings = context.judge.Take();
  claimed.Explain(context.views, findings);
  if (const RankRun* run = observations.gpu_ranks.get()) {
    NotePlantedFaults(*run, findings);
  }
  return findings;
}

}  // namespace

constinit const Check kGpuAllocation{
    "gpu-allocation",
    Stage::kGpu,
    false,
    "GPUs are asked for, handed out and advertised consistently",
    "per worker group and pod: limits, rayStartParams num-gpus, Ray's node resources, node "
    "allocatable, nodeSelector and taints, policy; the head has none; what the ranks' pods hold",
    kRules,
    JudgeGpuAllocation,
};

}  // namespace dlc
