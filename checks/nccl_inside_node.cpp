#include "checks/nccl_inside_node.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "checks/wording.h"

namespace dlc {
namespace {

/// What one rank's log says of its neighbours.
enum class Inside : std::uint8_t {
  kAlone,     ///< no other rank of its communicators is on its node
  kPeer,      ///< every connection inside the node is GPU to GPU
  kOther,     ///< one goes through host memory or a network
  kUnsettled  ///< the log is too little, or damaged
};

struct RankInside {
  Inside way = Inside::kUnsettled;
  std::string told;  ///< "P2P/CUMEM/read (8)"
};

/// What connects the rank, and how often, but for networks between nodes.
struct Ways {
  std::map<std::string, std::int64_t> all;
  std::int64_t peer = 0;
  bool other = false;
  bool network = false;  ///< there is one, counted or not
};

Ways WaysOf(const NcclLog& log, bool one_node) {
  Ways ways;
  for (const NcclConnections& one : log.connections) {
    const bool network = OfNetwork(one);
    ways.network = ways.network || network;
    if (network && !one_node) {
      continue;  // which of them stay inside a node is not in the log
    }
    const std::string& detail = network ? one.network : one.detail;
    ways.all[one.transport + (detail.empty() ? "" : "/" + detail)] += LinesOf(one);
    ways.peer += one.transport == "P2P" ? LinesOf(one) : 0;
    ways.other = ways.other || one.transport != "P2P";
  }
  return ways;
}

RankInside InsideOf(const NcclLog& log) {
  const auto all = [&](auto holds) {
    return !log.communicators.empty() &&
           std::all_of(log.communicators.begin(), log.communicators.end(), holds);
  };
  using Communicator = NcclLoggedCommunicator;
  // NCCL before 2.23 tells no number of nodes.
  const bool counted = all([](const Communicator& one) { return one.nodes > 0; });
  const bool alone = counted && all([](const Communicator& one) { return one.local_ranks == 1; });
  const Ways ways = WaysOf(log, all([](const Communicator& one) { return one.nodes == 1; }));
  RankInside inside;
  for (const auto& [way, lines] : ways.all) {
    inside.told += (inside.told.empty() ? "" : ", ") + way + " (" + std::to_string(lines) + ")";
  }
  const bool whole = HasEveryConnection(log) && !log.cut;
  if (ways.other) {
    inside.way = Inside::kOther;
  } else if (whole && ways.peer > 0 && !log.communicators.empty() && (counted || !ways.network)) {
    inside.way = Inside::kPeer;
  } else if (whole && alone && ways.peer == 0) {
    inside.way = Inside::kAlone;
  }
  return inside;
}

/// All ranks of a step.
struct RunInside {
  std::vector<std::string> others;  ///< that have another way than P2P
  std::vector<std::string> notes;   ///< each way, and who has it
  bool neighbours = false;          ///< there are two ranks on a node
  const RankTransport* unsettled = nullptr;
};

RunInside InsideOfAll(const std::vector<RankTransport>& ranks) {
  RunInside all;
  std::map<std::string, std::vector<std::string>> told;
  for (const RankTransport& rank : ranks) {
    const NcclLog* log = rank.evidence.log.get();
    const RankInside inside = log == nullptr ? RankInside{} : InsideOf(*log);
    if (!inside.told.empty()) {
      told[inside.told].push_back(rank.name);
    }
    all.neighbours = all.neighbours || inside.way == Inside::kPeer || inside.way == Inside::kOther;
    if (inside.way == Inside::kOther) {
      all.others.push_back(rank.name + ": " + inside.told);
    } else if (inside.way == Inside::kUnsettled && all.unsettled == nullptr) {
      all.unsettled = &rank;
    }
  }
  all.notes.reserve(told.size());
  for (const auto& [ways, names] : told) {
    all.notes.push_back(ways + ": " + NameSome(names, 3));
  }
  return all;
}

void Unsettled(const RankTransport& rank, const Subject& subject, Judge& judge) {
  if (!rank.evidence.log.seen()) {
    judge.Unseen(kInsideNodeRule, subject, "NCCL's log of " + rank.name, rank.evidence.log);
    return;
  }
  judge.Unknown(
      kInsideNodeRule, subject,
      {"not-looked-at",
       "the log of " + rank.name + " does not settle how it reaches the ranks of its node", ""});
}

}  // namespace

void JudgeInsideNode(const std::vector<RankTransport>& ranks, const Policy& policy,
                     const Subject& subject, Judge& judge) {
  RunInside all = InsideOfAll(ranks);
  if (policy.nccl.inside_node != "P2P") {
    judge.NotApplicable(kInsideNodeRule, subject,
                        "the policy asks for no way inside a node (nccl.insideNode)" +
                            (all.notes.empty() ? "" : "; seen: " + NameSome(all.notes, 3)));
    return;
  }
  if (all.others.empty() && all.unsettled != nullptr) {
    Unsettled(*all.unsettled, subject, judge);
    return;
  }
  if (!all.neighbours) {
    judge.NotApplicable(kInsideNodeRule, subject, "no two ranks are on one node");
    return;
  }
  Finding& finding =
      judge.Decide(kInsideNodeRule, subject,
                   {{"ranks that reach one of their node by another way than P2P", Op::kSubset,
                     std::vector<std::string>{}, all.others, "", "policy:nccl.insideNode"}});
  finding.notes = std::move(all.notes);
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = NameSome(all.others, 3);
  }
}

}  // namespace dlc
