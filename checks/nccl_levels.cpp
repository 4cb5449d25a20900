#include "checks/nccl_levels.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "checks/instance_types.h"
#include "checks/rank_results.h"
#include "checks/wording.h"

namespace dlc {
namespace {

using Ranks = std::vector<const RankTransport*>;

bool Reached(const RankTransport& rank) {
  return rank.demand.least && rank.verdict.level >= *rank.demand.least;
}

/// What was seen speaks against the level; more looking would not mend it.
bool Missed(const RankTransport& rank) {
  return rank.demand.least && !Reached(rank) &&
         (rank.verdict.level == TransportLevel::kTcpProven || rank.verdict.against);
}

/// "rank 2 on pod-2", "ranks 0, 1 and 3".
std::string Names(const Ranks& ranks) {
  if (ranks.size() == 1) {
    return ranks.front()->name;
  }
  std::vector<int> numbers;
  numbers.reserve(ranks.size());
  for (const RankTransport* rank : ranks) {
    numbers.push_back(rank->rank);
  }
  return RankNames({}, numbers);
}

std::string LevelOf(const RankTransport& rank) {
  return std::string(TransportLevelName(rank.verdict.level));
}

/// Ranks by their level, the fewest first, for they are the odd ones, with what decided on any of
/// them: "ranks 0 and 1: TCP_PROVEN (4 connections via NET/Socket); rank 2 on pod-2: EFA_LOGGED".
std::string Grouped(const Ranks& ranks) {
  struct Group {
    Ranks ranks;
    std::vector<std::string> because;
  };
  std::map<std::string, Group> groups;
  for (const RankTransport* rank : ranks) {
    Group& group = groups[LevelOf(*rank)];
    group.ranks.push_back(rank);
    std::vector<std::string> because = rank->verdict.because;
    if (rank->demand.unknown) {
      because.push_back(rank->demand.why);
    }
    for (std::string& one : because) {
      if (std::find(group.because.begin(), group.because.end(), one) == group.because.end()) {
        group.because.push_back(std::move(one));
      }
    }
  }
  std::vector<std::pair<std::string, Group>> sorted(groups.begin(), groups.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.ranks.size() < b.second.ranks.size();
  });
  std::string text;
  for (const auto& [level, group] : sorted) {
    text += (text.empty() ? "" : "; ") + Names(group.ranks) + ": " + level +
            (group.because.empty() ? "" : " (" + NameSome(group.because, 4) + ")");
  }
  return text;
}

Ranks Where(const std::vector<RankTransport>& ranks, bool (*holds)(const RankTransport&)) {
  Ranks some;
  for (const RankTransport& rank : ranks) {
    if (holds(rank)) {
      some.push_back(&rank);
    }
  }
  return some;
}

std::vector<std::string> LevelsFrom(TransportLevel least) {
  std::vector<std::string> names;
  for (const auto level : {TransportLevel::kEfaLogged, TransportLevel::kEfaProven}) {
    if (level >= least) {
      names.emplace_back(TransportLevelName(level));
    }
  }
  return names;
}

/// One assertion for all ranks of a level, a demand and its source.
std::vector<Assertion> Assertions(const Ranks& ranks) {
  std::map<std::string, Ranks> groups;
  for (const RankTransport* rank : ranks) {
    groups[LevelOf(*rank) + " " + std::string(TransportLevelName(*rank->demand.least)) +
           rank->demand.source]
        .push_back(rank);
  }
  std::vector<Assertion> assertions;
  for (const auto& [key, some] : groups) {
    const RankTransport& one = *some.front();
    assertions.push_back({"transport of " + Names(some), Op::kIn, LevelsFrom(*one.demand.least),
                          LevelOf(one), "", one.demand.source});
  }
  return assertions;
}

void AddNotes(const std::vector<RankTransport>& ranks, Finding& finding) {
  std::set<std::string> unheard;
  std::set<std::string> why;
  for (const RankTransport& rank : ranks) {
    unheard.insert(rank.verdict.not_checked.begin(), rank.verdict.not_checked.end());
    why.insert(rank.demand.why);
  }
  for (const std::string& one : unheard) {
    finding.notes.push_back("not checked: " + one);
  }
  for (const std::string& one : why) {
    finding.notes.push_back("asked for because: " + one);
  }
}

/// EFA on one rank says that the others could have it.
void AskAlike(std::vector<RankTransport>& ranks) {
  const bool one_has = std::any_of(ranks.begin(), ranks.end(), [](const RankTransport& rank) {
    return rank.verdict.level >= TransportLevel::kEfaLogged;
  });
  for (RankTransport& rank : ranks) {
    if (one_has && !rank.demand.least && rank.verdict.level < TransportLevel::kEfaLogged &&
        rank.demand.unknown) {
      rank.demand.least = TransportLevel::kEfaLogged;
      rank.demand.unknown = false;
      rank.demand.source = "observation:other ranks";
      rank.demand.why = "other ranks of the run have EFA";
    }
  }
}

Finding& DecideLevel(const std::vector<RankTransport>& ranks, const Subject& subject, Judge& judge,
                     std::string_view rule) {
  if (const Ranks missed = Where(ranks, Missed); !missed.empty()) {
    Finding& finding = judge.Decide(rule, subject, Assertions(missed));
    if (finding.verdict == Verdict::kFail) {
      Ranks all = Where(ranks, [](const RankTransport&) { return true; });
      finding.actual = Grouped(all);
      finding.reason.message = Grouped(missed);
    }
    return finding;
  }
  const Ranks alone = Where(ranks, [](const RankTransport& rank) {
    return rank.verdict.one_node && rank.verdict.level == TransportLevel::kNotProven;
  });
  if (!alone.empty() && alone.size() == ranks.size()) {
    const std::string text = "all ranks are on one node: nothing went between nodes";
    const bool asked = std::any_of(ranks.begin(), ranks.end(),
                                   [](const RankTransport& rank) { return rank.demand.by_policy; });
    return asked ? judge.Unknown(
                       rule, subject,
                       {"not-looked-at", text + ", and the policy asks for what carries it", ""})
                 : judge.NotApplicable(rule, subject, text);
  }
  const Ranks open = Where(ranks, [](const RankTransport& rank) {
    return (rank.demand.least && !Reached(rank)) ||
           (rank.demand.unknown && rank.verdict.level < TransportLevel::kEfaLogged);
  });
  if (!open.empty()) {
    return judge.Unknown(rule, subject, {"not-looked-at", Grouped(open), ""});
  }
  const Ranks reached = Where(ranks, Reached);
  if (reached.empty()) {
    const Ranks all = Where(ranks, [](const RankTransport&) { return true; });
    return judge.NotApplicable(rule, subject, "nothing is asked for: " + Grouped(all));
  }
  Finding& finding = judge.Decide(rule, subject, Assertions(reached));
  if (finding.verdict == Verdict::kPass) {
    finding.actual = Grouped(reached);
  }
  return finding;
}

bool NeedsGpuDirect(const RankTransport& rank, const Policy& policy) {
  const InstanceType* type = FindInstanceType(rank.type);
  return policy.nccl.gpu_direct == "required" ||
         (policy.nccl.gpu_direct == "by-instance-type" && type != nullptr &&
          type->gpu_direct == GpuDirect::kYes);
}

bool HasNetwork(const NcclLog& log) {
  return std::any_of(log.connections.begin(), log.connections.end(),
                     [](const NcclConnections& one) { return one.transport == "NET"; });
}

}  // namespace

void JudgeLevels(std::vector<RankTransport> ranks, const Subject& subject, Judge& judge,
                 std::string_view rule) {
  AskAlike(ranks);
  AddNotes(ranks, DecideLevel(ranks, subject, judge, rule));
}

void JudgeGpuDirect(const std::vector<RankTransport>& ranks, const Policy& policy,
                    const Subject& subject, Judge& judge) {
  std::vector<std::string> without;
  std::string unseen;
  std::int64_t asked = 0;
  std::int64_t connected = 0;
  for (const RankTransport& rank : ranks) {
    if (!NeedsGpuDirect(rank, policy)) {
      continue;
    }
    ++asked;
    const NcclLog* log = rank.evidence.log.get();
    if (log == nullptr) {
      unseen = unseen.empty() ? "the log of " + rank.name + " was not seen" : unseen;
    } else if (ConnectionsWithoutGpuDirect(*log) > 0 || log->gpu_direct_refused) {
      without.push_back(
          rank.name +
          (log->gpu_direct_refused
               ? ": the plugin says GDR is disabled"
               : ": " + std::to_string(ConnectionsWithoutGpuDirect(*log)) + " connections"));
    } else {
      connected += HasNetwork(*log) ? 1 : 0;
    }
  }
  if (asked == 0) {
    judge.NotApplicable(kGpuDirectRule, subject,
                        policy.nccl.gpu_direct == "no"
                            ? "the policy asks for none (nccl.gpuDirect: no)"
                            : "no rank is on an instance type that is known to have it");
    return;
  }
  if (without.empty() && connected < asked) {
    judge.Unknown(
        kGpuDirectRule, subject,
        {"not-looked-at", unseen.empty() ? "no connection between nodes was logged" : unseen, ""});
    return;
  }
  Finding& finding =
      judge.Decide(kGpuDirectRule, subject,
                   {{"ranks with connections through host memory", Op::kSubset,
                     std::vector<std::string>{}, without, "", "policy:nccl.gpuDirect"}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = "through host memory: " + NameSome(without, 8);
  }
}

void JudgeNics(const std::vector<RankTransport>& ranks, Judge& judge) {
  for (const RankTransport& rank : ranks) {
    const NcclLog* log = rank.evidence.log.get();
    if (log == nullptr || log->nics == 0 || !rank.usable_devices || *rank.usable_devices == 0) {
      continue;
    }
    judge.Decide(
        kNicsRule, {"rank", rank.name},
        {{"NICs that the plugin found", Op::kGe, *rank.usable_devices,
          static_cast<std::int64_t>(log->nics), "", "observation:nccl_ranks.fabric_node"}});
  }
}

}  // namespace dlc
