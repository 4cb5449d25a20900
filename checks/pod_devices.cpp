#include "checks/pod_devices.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "checks/claimed_devices.h"
#include "checks/pod_resources.h"
#include "checks/rank_results.h"
#include "checks/wording.h"

namespace dlc {
namespace {

constexpr std::int64_t kSmallHugePage = std::int64_t{2} << 20;

/// A pod as one of its ranks sees it.
struct PodView {
  const Policy& policy;
  Subject subject;
  const NodeFabric& node;
  const PodSpec* spec = nullptr;  ///< null when no pod of that name was seen
  Judge& judge;

  bool Required() const { return policy.fabric.efa == "required"; }
};

bool IsEfa(const RdmaDevice& device) {
  return device.pci_vendor == "1d0f" && device.pci_device.starts_with("efa");
}

/// PCI ids, and why a device cannot be used.
std::vector<std::string> DeviceNotes(const NodeFabric& node) {
  std::vector<std::string> notes;
  for (const RdmaDevice& device : node.rdma_devices) {
    if (IsEfa(device)) {
      notes.push_back(device.name + " is " + device.pci_vendor + ":" + device.pci_device + " at " +
                      device.pci_address +
                      (device.uverbs_usable ? ", usable" : ": " + device.uverbs_error));
    }
  }
  if (const auto* functions = node.efa_functions.get()) {
    for (const EfaFunction& function : *functions) {
      if (function.driver.empty()) {
        notes.push_back(function.pci_device + " at " + function.pci_address + " has no driver");
      }
    }
  }
  return notes;
}

/// What the pod has to hold, or a finding that says why nothing can be said; nullopt then.
std::optional<Assertion> DevicesWanted(PodView& pod, std::int64_t usable) {
  const auto wanted = [&](Op op, std::int64_t count, const char* source) {
    return Assertion{"usable EFA devices", op, count, usable, "", source};
  };
  if (pod.spec != nullptr) {
    const std::int64_t limit = AskFor(*pod.spec, pod.policy.fabric.resource).Count();
    if (limit == 0 && usable == 0 && !pod.Required()) {
      pod.judge.NotApplicable(kDevicesInPod, pod.subject,
                              "the pod asks for no EFA device and holds none");
      return std::nullopt;
    }
    return wanted(Op::kEq, limit, "observation:cluster.pods");
  }
  if (const int count = pod.policy.fabric.interfaces_per_worker_pod; count > 0 && pod.Required()) {
    return wanted(Op::kEq, count, "policy:fabric.interfacesPerWorkerPod");
  }
  if (pod.Required() || usable > 0) {
    return wanted(Op::kGe, 1, "policy:fabric.efa");
  }
  const auto& functions = pod.node.efa_functions;
  if (!functions.seen()) {
    pod.judge.Unseen(kDevicesInPod, pod.subject, "whether the node has EFA", functions);
    return std::nullopt;
  }
  if (functions.value().empty()) {
    pod.judge.NotApplicable(kDevicesInPod, pod.subject, "there is no EFA device on this node");
    return std::nullopt;
  }
  return wanted(Op::kGe, 1, "policy:fabric.efa");
}

void JudgeProviders(PodView& pod) {
  const auto& providers = pod.node.providers;
  if (!providers.seen()) {
    pod.judge.Unseen(kEfaProvider, pod.subject, "libfabric's providers", providers);
    return;
  }
  std::set<std::string> names;
  for (const FabricProvider& provider : providers.value()) {
    names.insert(provider.name);
  }
  Finding& finding = pod.judge.Decide(
      kEfaProvider, pod.subject,
      {{"efa among the providers", Op::kEq, true, names.contains("efa"), "", "constant"}});
  finding.notes.push_back("providers: " + NameSome({names.begin(), names.end()}, names.size()));
  if (!pod.node.fi_provider.empty()) {
    finding.notes.push_back("FI_PROVIDER=" + pod.node.fi_provider + " hides all others");
  }
}

void JudgeMemlock(PodView& pod) {
  if (!pod.node.memlock.seen()) {
    pod.judge.Unseen(kMemlock, pod.subject, "the limit of locked memory", pod.node.memlock);
    return;
  }
  const auto& soft = pod.node.memlock.value().soft_bytes;
  Finding& finding =
      pod.judge.Decide(kMemlock, pod.subject,
                       {{"RLIMIT_MEMLOCK", Op::kAbsent, std::monostate{},
                         soft ? AssertedValue{*soft} : AssertedValue{}, "bytes", "constant"}});
  if (finding.verdict == Verdict::kPass) {
    finding.expected = finding.actual = "unlimited";
  } else if (finding.verdict == Verdict::kFail) {
    finding.expected = "unlimited";
    finding.reason.message = "locked memory is limited to " + std::to_string(*soft) + " bytes";
  }
}

void JudgeHugePages(PodView& pod) {
  std::int64_t total = 0;
  std::int64_t free = 0;
  for (const HugePagePool& pool : pod.node.huge_pages) {
    if (pool.page_bytes == kSmallHugePage) {
      total = pool.total_pages;
      free = pool.free_pages;
    }
  }
  pod.judge
      .Decide(kHugePages, pod.subject,
              {{"2 MiB pages of the node", Op::kGe, std::int64_t{1}, total, "", "constant"}})
      .notes.push_back(std::to_string(free) + " of them are free");
}

void JudgeInstaller(PodView& pod) {
  const std::string& wanted = pod.policy.image.efa_installer;
  if (wanted.empty()) {
    return;
  }
  const auto& version = pod.node.efa_installer_version;
  if (!version.seen()) {
    pod.judge.Unseen(kInstallerOnNode, pod.subject, "the EFA installer's version", version);
    return;
  }
  pod.judge.Decide(
      kInstallerOnNode, pod.subject,
      {{"EFA installer", Op::kEq, wanted, version.value(), "", "policy:image.efaInstaller"}});
}

void JudgePod(PodView& pod) {
  const std::int64_t usable = UsableEfaDevices(pod.node);
  if (const auto wanted = DevicesWanted(pod, usable)) {
    Finding& finding = pod.judge.Decide(kDevicesInPod, pod.subject, {*wanted});
    finding.notes = DeviceNotes(pod.node);
  }
  JudgeInstaller(pod);
  if (usable > 0 || pod.Required()) {
    JudgeProviders(pod);
    JudgeMemlock(pod);
    JudgeHugePages(pod);
  }
}

std::string HostOf(const RankReport& report) {
  const RankObservations* seen = report.seen.get();
  return seen == nullptr ? "" : seen->facts.host;
}

}  // namespace

std::int64_t UsableEfaDevices(const NodeFabric& node) {
  return std::count_if(
      node.rdma_devices.begin(), node.rdma_devices.end(),
      [](const RdmaDevice& device) { return IsEfa(device) && device.uverbs_usable; });
}

void JudgePodDevices(const Observations& observations, const Policy& policy,
                     const std::vector<RayClusterView>& views, Judge& judge) {
  const Observed<RankRun>& ranks = observations.nccl_ranks;
  if (JudgeWithoutRanks(observations, ranks, kDevicesInPod, "what the pods hold",
                        ": this is about what they ask for, not about what pods hold", judge)) {
    return;
  }
  std::set<std::string> told;
  const auto results = ResultsOf(ranks.value(), &RankObservations::fabric_node);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto& result = results[i];
    const Subject subject{"rank", result.name};
    if (!result.seen.seen()) {
      judge.Unseen(kDevicesInPod, subject, "the devices of its pod", result.seen);
      continue;
    }
    const std::string host = HostOf(ranks.value().ranks[i]);
    if (host.empty() || told.insert(host).second) {
      const RayUnit* unit = UnitOfHost(views, host);
      const bool spec_told = unit != nullptr && !IsLimitUnknown(*unit, policy.fabric.resource);
      PodView pod{policy, subject, result.seen.value(), spec_told ? unit->spec : nullptr, judge};
      JudgePod(pod);
    }
  }
}

}  // namespace dlc
