#include "checks/gpu_types.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "checks/instance_types.h"
#include "checks/wording.h"

namespace dlc {
namespace {

/// A GPU that CUDA shows to a rank; of several ranks with the same one, the first.
struct ShownGpu {
  const GpuRankView* rank = nullptr;
  CudaGpu gpu;
};

std::vector<ShownGpu> DistinctGpus(const std::vector<GpuRankView>& ranks) {
  std::vector<ShownGpu> all;
  std::set<std::string> told;
  for (const GpuRankView& rank : ranks) {
    if (!rank.node.seen()) {
      continue;
    }
    for (CudaGpu& gpu : ShownGpus(rank.node.value())) {
      if (told.insert(gpu.uuid).second) {
        all.push_back({&rank, std::move(gpu)});
      }
    }
  }
  return all;
}

/// A rank whose GPUs were not seen: it may have others.
const GpuRankView* RankWithoutGpus(const std::vector<GpuRankView>& ranks) {
  const auto it = std::find_if(ranks.begin(), ranks.end(), [](const GpuRankView& rank) {
    return !rank.node.seen() || CudaUseOf(rank.node.value()) == CudaUse::kBroken;
  });
  return it == ranks.end() ? nullptr : &*it;
}

void UnknownKind(std::string_view rule, const GpuRankView& rank, Judge& judge) {
  const Subject subject{"run", "all ranks"};
  if (rank.node.seen()) {
    judge.Unknown(
        rule, subject,
        {"prerequisite-failed", "CUDA does not start on " + rank.name, "gpu-driver/cuda-starts"});
  } else {
    judge.Unseen(rule, subject, "the GPUs of " + rank.name, rank.node);
  }
}

std::string KindText(const CudaGpu& gpu) {
  return gpu.name + " (compute capability " + gpu.compute_capability +
         (gpu.uuid.starts_with("MIG-") ? ", a MIG slice)" : ")");
}

void JudgeOneKind(const std::vector<GpuRankView>& ranks, const std::vector<ShownGpu>& gpus,
                  Judge& judge) {
  std::map<std::string, std::vector<std::string>> kinds;
  for (const ShownGpu& shown : gpus) {
    kinds[KindText(shown.gpu)].push_back(GpuSubject(*shown.rank, shown.gpu.uuid).name);
  }
  if (const GpuRankView* unseen = RankWithoutGpus(ranks); kinds.size() < 2 && unseen != nullptr) {
    UnknownKind(kOneKind, *unseen, judge);
    return;
  }
  if (kinds.empty()) {
    return;  // gpu-given has said it
  }
  Finding& finding =
      judge.Decide(kOneKind, {"run", "all ranks"},
                   {{"different kinds of GPU", Op::kEq, std::int64_t{1},
                     static_cast<std::int64_t>(kinds.size()), "", "observation:gpu_ranks"}});
  if (finding.verdict == Verdict::kFail) {
    std::vector<std::pair<std::string, std::vector<std::string>>> sorted(kinds.begin(),
                                                                         kinds.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return a.second.size() < b.second.size();
    });
    finding.actual.clear();
    for (const auto& [kind, names] : sorted) {
      finding.actual += (finding.actual.empty() ? "" : "; ") + kind + ": " + NameSome(names, 3);
    }
    finding.reason.message = finding.actual;
  } else {
    finding.notes.push_back(kinds.begin()->first + ", " + Count(gpus.size(), "GPU"));
  }
}

void JudgeAsPolicy(const GpuPolicy& policy, const std::vector<GpuRankView>& ranks,
                   const std::vector<ShownGpu>& gpus, Judge& judge) {
  const Subject subject{"run", "all ranks"};
  if (policy.model.empty() && policy.min_memory_bytes == 0) {
    judge.NotApplicable(
        kAsPolicy, subject,
        "the policy demands no model and no memory (gpu.model, gpu.minMemoryBytes)");
    return;
  }
  std::vector<std::string> others;
  std::int64_t least = 0;
  const ShownGpu* smallest = nullptr;
  for (const ShownGpu& shown : gpus) {
    if (!policy.model.empty() && !IsOfModel(shown.gpu.name, policy.model)) {
      others.push_back(shown.gpu.name + ", " + GpuSubject(*shown.rank, shown.gpu.uuid).name);
    }
    if (smallest == nullptr || shown.gpu.total_bytes < least) {
      smallest = &shown;
      least = shown.gpu.total_bytes;
    }
  }
  const bool small = smallest != nullptr && least < policy.min_memory_bytes;
  if (others.empty() && !small) {
    if (const GpuRankView* unseen = RankWithoutGpus(ranks)) {
      UnknownKind(kAsPolicy, *unseen, judge);
      return;
    }
    if (gpus.empty()) {
      judge.Unknown(kAsPolicy, subject,
                    {"prerequisite-failed", "no rank is shown a GPU", "gpu-visible/gpu-given"});
      return;
    }
  }
  std::vector<Assertion> assertions;
  if (!policy.model.empty()) {
    assertions.push_back({"GPUs that are no " + policy.model, Op::kSubset,
                          std::vector<std::string>{}, others, "", "policy:gpu.model"});
  }
  if (policy.min_memory_bytes > 0) {
    assertions.push_back({"memory of " + GpuSubject(*smallest->rank, smallest->gpu.uuid).name,
                          Op::kGe, policy.min_memory_bytes, least, "bytes",
                          "policy:gpu.minMemoryBytes"});
  }
  judge.Decide(kAsPolicy, subject, std::move(assertions));
}

/// The type of the node that the pod of that name is on; empty when not known.
std::string InstanceTypeOf(const ClusterFacts& cluster, const std::string& host) {
  if (!cluster.pods.seen() || !cluster.nodes.seen()) {
    return "";
  }
  const auto& pods = cluster.pods.value();
  const auto pod =
      std::find_if(pods.begin(), pods.end(), [&](const Pod& p) { return p.name == host; });
  if (pod == pods.end()) {
    return "";
  }
  const auto& nodes = cluster.nodes.value();
  const auto node =
      std::find_if(nodes.begin(), nodes.end(), [&](const Node& n) { return n.name == pod->node; });
  return node == nodes.end() ? "" : node->instance_type;
}

void JudgePodAsInstance(const GpuRankView& rank, const std::string& name, const InstanceType& type,
                        Judge& judge) {
  const auto shown = ShownGpus(rank.node.value());
  std::vector<std::string> others;
  for (const CudaGpu& gpu : shown) {
    if (!IsOfModel(gpu.name, type.gpu_model)) {
      others.push_back(gpu.name);
    }
  }
  const std::int64_t count =
      rank.node.value().nvml.gpus.seen()
          ? static_cast<std::int64_t>(rank.node.value().nvml.gpus.value().size())
          : static_cast<std::int64_t>(shown.size());
  Finding& finding =
      judge.Decide(kAsInstance, rank.RankSubject(),
                   {{"GPUs that are no " + std::string(type.gpu_model), Op::kSubset,
                     std::vector<std::string>{}, others, "", "constant"},
                    {"GPUs of the node", Op::kLe, std::int64_t{type.gpus}, count, "", "constant"}});
  finding.notes.push_back(name + ": " + std::to_string(type.gpus) + " x " +
                          std::string(type.gpu_model) + ", " + Fixed(type.gpu_memory_gib, 1) +
                          " GiB each (Karpenter's tables; the vendor's figure for P types)");
}

void JudgeAsInstance(const Observations& observations, const std::vector<GpuRankView>& ranks,
                     Judge& judge) {
  std::set<std::string> told;
  std::set<std::string> not_listed;
  for (const GpuRankView& rank : ranks) {
    if (!rank.node.seen() || ShownGpus(rank.node.value()).empty() ||
        !told.insert(rank.host).second) {
      continue;
    }
    const std::string name = InstanceTypeOf(observations.cluster, rank.host);
    if (const InstanceType* type = FindInstanceType(name)) {
      JudgePodAsInstance(rank, name, *type, judge);
    } else {
      not_listed.insert(name);
    }
  }
  for (const std::string& name : not_listed) {
    judge.NotApplicable(kAsInstance, {"run", name.empty() ? "ranks" : name},
                        name.empty() ? "the instance type of the ranks' nodes is not known"
                                     : "dlc-check's table has no instance type " + name);
  }
}

}  // namespace

void JudgeGpuTypes(const Observations& observations, const Policy& policy,
                   const std::vector<GpuRankView>& ranks, Judge& judge) {
  const std::vector<ShownGpu> gpus = DistinctGpus(ranks);
  JudgeOneKind(ranks, gpus, judge);
  JudgeAsPolicy(policy.gpu, ranks, gpus, judge);
  JudgeAsInstance(observations, ranks, judge);
}

}  // namespace dlc
