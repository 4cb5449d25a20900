#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "checks/check.h"
#include "checks/gpu_ranks.h"
#include "checks/wording.h"

namespace dlc {

extern const Check kGpuPeers;  // the table in check_list.cpp finds it by this name

namespace {

constexpr std::string_view kLinks = "gpu-peers/nvlinks-active";
constexpr std::string_view kAccess = "gpu-peers/peer-access";
constexpr const char* kSource = "observation:gpu_ranks.gpu_node.nvml";

constexpr Rule kRules[] = {
    {kLinks, Severity::kRequired, false, "no GPU has fewer NVLinks than its like",
     "every GPU has as many active NVLinks as the best one of its model in the run, and as the "
     "policy demands",
     "the speed of the links (nccl-bandwidth looks at that), and a link that is down on all GPUs",
     "look at `nvidia-smi nvlink -s` on the node named, and for Xid 74 in its kernel log; a link "
     "that stays down after a reset of the GPU is a fault of the board"},
    {kAccess, Severity::kRequired, false, "GPUs that NVLink joins reach each other's memory",
     "the driver lets each GPU of such a pair read and write the other's memory, or of every pair "
     "of a node where the policy demands that",
     "that NCCL makes use of it (its log tells), and the speed",
     "look at `nvidia-smi topo -p2p r` on the node named: a driver's option, the fabric manager, "
     "or PCIe ACS or an IOMMU where there is no NVLink"},
};

std::string NameOf(const NvmlGpu& gpu) {
  return "GPU " + std::to_string(gpu.index) + " (" + gpu.uuid.value() + ")";
}

std::string ModelOf(const NvmlGpu& gpu) {
  return gpu.name.seen() ? gpu.name.value() : "";
}

int ActiveLinks(const NvmlGpu& gpu) {
  if (!gpu.nvlinks.seen()) {
    return 0;
  }
  const auto& links = gpu.nvlinks.value();
  return static_cast<int>(
      std::count_if(links.begin(), links.end(), [](const GpuNvLink& link) { return link.active; }));
}

/// The ranks of one container see the same GPUs: one of them tells. Containers may share a host's
/// name.
std::vector<const GpuRankView*> OneOfEach(const std::vector<GpuRankView>& ranks) {
  std::vector<const GpuRankView*> nodes;
  std::set<std::string> told;
  for (const GpuRankView& rank : ranks) {
    if (rank.node.seen() && rank.node.value().nvml.gpus.seen()) {
      std::string key = rank.host;
      for (const NvmlGpu& gpu : rank.node.value().nvml.gpus.value()) {
        key += gpu.uuid.seen() ? "\n" + gpu.uuid.value() : "";
      }
      if (told.insert(key).second) {
        nodes.push_back(&rank);
      }
    } else {
      nodes.push_back(&rank);
    }
  }
  return nodes;
}

/// By model, the most active links that a GPU of the run has.
std::map<std::string, int> MostLinks(const std::vector<const GpuRankView*>& nodes) {
  std::map<std::string, int> most;
  for (const GpuRankView* rank : nodes) {
    if (!rank->node.seen() || !rank->node.value().nvml.gpus.seen()) {
      continue;
    }
    for (const NvmlGpu& gpu : rank->node.value().nvml.gpus.value()) {
      int& count = most[ModelOf(gpu)];
      count = std::max(count, ActiveLinks(gpu));
    }
  }
  return most;
}

void JudgeLinks(const GpuRankView& rank, const NvmlView& view, const GpuPolicy& policy,
                const std::map<std::string, int>& most, Judge& judge) {
  std::vector<std::string> fewer;
  std::vector<std::string> notes;
  const NvmlGpu* unread = nullptr;
  int wanted_of_any = 0;
  for (const NvmlGpu& gpu : view.gpus.value()) {
    if (!gpu.uuid.seen()) {
      continue;  // not for this process
    }
    const int wanted = std::max(policy.min_nvlinks, most.at(ModelOf(gpu)));
    const int active = ActiveLinks(gpu);
    wanted_of_any = std::max(wanted_of_any, wanted);
    if (!gpu.nvlinks.seen() && !HasNoSuch(gpu.nvlinks)) {
      unread = &gpu;
      continue;
    }
    const std::size_t all = gpu.nvlinks.seen() ? gpu.nvlinks.value().size() : 0;
    const std::string told =
        NameOf(gpu) + ": " + std::to_string(active) + " of " + Count(all, "NVLink") + " active";
    if (active < wanted) {
      fewer.push_back(told + ", not " + std::to_string(wanted));
    }
    notes.push_back(told);
  }
  if (fewer.empty() && unread != nullptr) {
    judge.Unseen(kLinks, rank.RankSubject(), "the NVLinks of " + NameOf(*unread), unread->nvlinks);
    return;
  }
  if (wanted_of_any == 0) {
    judge.NotApplicable(kLinks, rank.RankSubject(),
                        "no GPU of such a model has an active NVLink, and the policy demands none "
                        "(gpu.minNvLinks)");
    return;
  }
  Finding& finding = judge.Decide(kLinks, rank.RankSubject(),
                                  {{"GPUs with fewer active NVLinks", Op::kSubset,
                                    std::vector<std::string>{}, fewer, "", kSource}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = NameSome(fewer);
  } else {
    finding.notes = std::move(notes);
  }
}

bool OnOneFabric(const NvmlGpu& a, const NvmlGpu& b) {
  const auto up = [](const NvmlGpu& gpu) {
    const bool sliced = gpu.mig.seen() && gpu.mig.value().enabled;  // slices have no peers
    return gpu.fabric.seen() && gpu.fabric.value().state == "completed" && !sliced;
  };
  return up(a) && up(b) && a.fabric.value().cluster == b.fabric.value().cluster &&
         a.fabric.value().clique == b.fabric.value().clique;
}

std::string StateText(const Observed<std::string>& state) {
  return state.seen() ? state.value() : "not seen";
}

/// What is known of the pairs of one node.
struct Pairs {
  std::vector<std::string> denied;  ///< of those that must reach each other
  const GpuPeer* unread = nullptr;  ///< one that was not seen enough of
  const Observed<std::string>* why = nullptr;
  std::size_t wanted = 0;
  std::size_t reach = 0;                     ///< of all
  std::map<std::string, std::size_t> kinds;  ///< how many pairs are alike
};

bool IsOk(const Observed<std::string>& state) {
  return state.seen() && state.value() == "ok";
}

void AddPair(const GpuPeer& pair, bool on_one_fabric, bool required, Pairs& pairs) {
  const std::string told = "read " + StateText(pair.read) + ", write " + StateText(pair.write) +
                           ", NVLink " + StateText(pair.nvlink) + ", path " + StateText(pair.path);
  ++pairs.kinds[told];
  const bool reach = IsOk(pair.read) && IsOk(pair.write);
  pairs.reach += reach ? 1 : 0;
  const bool joined = on_one_fabric || IsOk(pair.nvlink);
  pairs.wanted += required || joined ? 1 : 0;
  if (reach) {
    return;
  }
  if (!required && !joined) {
    if (!pair.nvlink.seen() && !HasNoSuch(pair.nvlink)) {
      pairs.unread = &pair;
      pairs.why = &pair.nvlink;
    }
    return;
  }
  const bool refused =
      (pair.read.seen() && !IsOk(pair.read)) || (pair.write.seen() && !IsOk(pair.write));
  if (refused) {
    pairs.denied.push_back("GPU " + std::to_string(pair.a) + " and GPU " + std::to_string(pair.b) +
                           ": " + told);
  } else {
    pairs.unread = &pair;
    pairs.why = pair.read.seen() ? &pair.write : &pair.read;
  }
}

Pairs PairsOf(const NvmlView& view, bool required) {
  const auto gpu_at = [&](int index) {
    const auto& gpus = view.gpus.value();
    const auto it = std::find_if(gpus.begin(), gpus.end(),
                                 [&](const NvmlGpu& gpu) { return gpu.index == index; });
    return it == gpus.end() ? nullptr : &*it;
  };
  Pairs pairs;
  for (const GpuPeer& pair : view.peers.value()) {
    const NvmlGpu* a = gpu_at(pair.a);
    const NvmlGpu* b = gpu_at(pair.b);
    AddPair(pair, a != nullptr && b != nullptr && OnOneFabric(*a, *b), required, pairs);
  }
  return pairs;
}

void JudgeAccess(const GpuRankView& rank, const NvmlView& view, const GpuPolicy& policy,
                 Judge& judge) {
  if (!view.peers.seen()) {
    judge.Unseen(kAccess, rank.RankSubject(), "which GPUs reach each other", view.peers);
    return;
  }
  const std::size_t all = view.peers.value().size();
  if (all == 0) {
    judge.NotApplicable(kAccess, rank.RankSubject(), "NVML shows this process no two GPUs");
    return;
  }
  const Pairs pairs = PairsOf(view, policy.peer_access == "required");
  if (pairs.denied.empty() && pairs.unread != nullptr) {
    judge.Unseen(kAccess, rank.RankSubject(),
                 "whether GPU " + std::to_string(pairs.unread->a) + " and GPU " +
                     std::to_string(pairs.unread->b) + " reach each other",
                 *pairs.why);
    return;
  }
  const std::string reach =
      std::to_string(pairs.reach) + " of " + Count(all, "pair") + " of GPUs reach each other";
  if (pairs.wanted == 0) {
    judge.NotApplicable(kAccess, rank.RankSubject(),
                        "NVLink joins no two GPUs here, and the policy does not demand it of "
                        "others (gpu.peerAccess): " +
                            reach);
    return;
  }
  Finding& finding = judge.Decide(
      kAccess, rank.RankSubject(),
      {{"pairs that do not reach each other", Op::kSubset, std::vector<std::string>{}, pairs.denied,
        "", policy.peer_access == "required" ? "policy:gpu.peerAccess" : kSource}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = NameSome(pairs.denied, 3);
  }
  finding.notes.push_back(reach);
  for (const auto& [kind, count] : pairs.kinds) {
    finding.notes.push_back(Count(count, "pair") + ": " + kind);
  }
}

std::vector<Finding> JudgeGpuPeers(const Observations& observations, const Policy& policy) {
  Judge judge(kGpuPeers, policy);
  if (JudgeWithoutGpuRanks(observations, policy, kAccess, "the GPUs of the ranks", judge)) {
    return judge.Take();
  }
  const auto ranks = GpuRanksOf(observations, policy);
  const auto nodes = OneOfEach(ranks);
  const auto most = MostLinks(nodes);
  for (const GpuRankView* rank : nodes) {
    if (JudgeWithoutGpu(*rank, kAccess, "the GPUs of its pod", judge)) {
      continue;
    }
    const NvmlView& view = rank->node.value().nvml;
    if (!view.gpus.seen()) {
      judge.Unseen(kAccess, rank->RankSubject(), "NVML's GPUs", view.gpus);
      continue;
    }
    JudgeLinks(*rank, view, policy.gpu, most, judge);
    JudgeAccess(*rank, view, policy.gpu, judge);
  }
  std::vector<Finding> findings = judge.Take();
  NotePlantedFaults(observations.gpu_ranks.value(), findings);
  return findings;
}

}  // namespace

constinit const Check kGpuPeers{
    "gpu-peers",
    Stage::kGpu,
    false,
    "the GPUs of a node have all their NVLinks, and reach each other's memory",
    "per node: NVML's state of each NVLink, and of each pair of GPUs what the driver allows and "
    "the way between them",
    kRules,
    JudgeGpuPeers,
};

}  // namespace dlc
