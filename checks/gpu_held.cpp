#include "checks/gpu_held.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checks/gpu_ranks.h"

namespace dlc {
namespace {

/// The ranks of one host together.
struct HostGpus {
  std::optional<std::int64_t> allotted;
  std::set<std::string> permitted;
  std::set<std::string> shown;
  std::set<std::string> tried;
  std::set<std::string> worked;
  const GpuRankView* unseen = nullptr;  ///< a rank that cannot tell its part
  bool nvml_seen = true;
};

void AddRank(const GpuRankView& rank, HostGpus& host) {
  host.allotted = rank.allotted;
  if (!rank.node.seen() || !rank.compute.seen()) {
    host.unseen = &rank;
  }
  if (const GpuNode* node = rank.node.get()) {
    host.nvml_seen = host.nvml_seen && node->nvml.gpus.seen();
    if (node->nvml.gpus.seen()) {
      const auto permitted = PermittedGpuUuids(*node);
      host.permitted.insert(permitted.begin(), permitted.end());
    }
    for (const CudaGpu& gpu : ShownGpus(*node)) {
      host.shown.insert(gpu.uuid);
    }
  }
  if (const GpuCompute* compute = rank.compute.get()) {
    for (const GpuWork& work : compute->gpus) {
      host.tried.insert(work.uuid);
      if (work.failure.code == 0) {
        host.worked.insert(work.uuid);
      }
    }
  }
}

std::string HostText(const HostGpus& host) {
  return (host.nvml_seen ? "NVML permits " + std::to_string(host.permitted.size())
                         : std::string("NVML does not tell what it permits")) +
         ", CUDA shows " + std::to_string(host.shown.size()) + ", " +
         std::to_string(host.worked.size()) + " of " + std::to_string(host.tried.size()) +
         " that were tried computed";
}

std::int64_t Size(const std::set<std::string>& set) {
  return static_cast<std::int64_t>(set.size());
}

void JudgeHost(const std::string& name, const HostGpus& host, const GpuPolicy& policy,
               Judge& judge) {
  const Subject subject{"pod", name};
  const bool by_policy = !host.allotted && policy.per_worker_pod > 0;
  if (!host.allotted && !by_policy) {
    judge.NotApplicable(kHeldRule, subject,
                        "neither a pod of this name nor gpu.perWorkerPod of the policy tells how "
                        "many there should be: " +
                            HostText(host));
    return;
  }
  const std::int64_t wanted = host.allotted ? *host.allotted : policy.per_worker_pod;
  const char* source = by_policy ? "policy:gpu.perWorkerPod" : "observation:cluster.pods";
  std::vector<Assertion> assertions;
  if (host.nvml_seen) {
    assertions.push_back(
        {"GPUs that NVML permits", Op::kEq, wanted, Size(host.permitted), "", source});
  }
  assertions.push_back({"GPUs that CUDA shows", Op::kEq, wanted, Size(host.shown), "", source});
  if (Size(host.tried) >= wanted) {
    assertions.push_back({"GPUs that computed", Op::kEq, wanted, Size(host.worked), "", source});
  }
  const bool broken = !std::all_of(assertions.begin(), assertions.end(), Holds);
  if (!broken && host.unseen != nullptr) {
    const bool node = !host.unseen->node.seen();
    if (node) {
      judge.Unseen(kHeldRule, subject, "the GPUs of " + host.unseen->name, host.unseen->node);
    } else {
      judge.Unseen(kHeldRule, subject, "the GPUs of " + host.unseen->name, host.unseen->compute);
    }
    return;
  }
  if (!broken && (!host.nvml_seen || Size(host.tried) < wanted)) {
    judge.Unknown(
        kHeldRule, subject,
        {"not-looked-at", "of " + std::to_string(wanted) + " GPUs " + HostText(host), ""});
    return;
  }
  judge.Decide(kHeldRule, subject, std::move(assertions)).notes.push_back(HostText(host));
}

}  // namespace

void JudgeHeldGpus(const Observations& observations, const Policy& policy, Judge& judge) {
  const Observed<RankRun>& ranks = observations.gpu_ranks;
  if (policy.gpu.devices != "no" && ranks.not_looked_at() && ranks.why_not().blocked_by.empty()) {
    return;  // gpu-visible says why
  }
  if (JudgeWithoutGpuRanks(observations, policy, kHeldRule, "what the ranks' pods hold", judge)) {
    return;
  }
  std::map<std::string, HostGpus> hosts;
  const auto views = GpuRanksOf(observations, policy);
  for (const GpuRankView& rank : views) {
    AddRank(rank, hosts[rank.host.empty() ? rank.name : rank.host]);
  }
  for (const auto& [name, host] : hosts) {
    JudgeHost(name, host, policy.gpu, judge);
  }
}

bool IsHostAlone(const Observations& observations) {
  const auto not_named = [](const auto& observed) {
    return observed.not_looked_at() && observed.why_not().blocked_by.empty();
  };
  const RankRun* run = observations.gpu_ranks.get();
  return run != nullptr && run->launcher == "local" && !observations.run.interrupted &&
         not_named(observations.cluster.ray_clusters) && not_named(observations.cluster.pods);
}

void JudgeHostAlone(const Observations& observations, std::string_view rule, bool demanded,
                    Judge& judge) {
  const Subject subject{"cluster", ""};
  if (demanded) {
    judge.Unseen(rule, subject, "the RayCluster", observations.cluster.ray_clusters);
  } else {
    judge.NotApplicable(rule, subject, "no cluster is named: the ranks ran on this host alone");
  }
}

}  // namespace dlc
