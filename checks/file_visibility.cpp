#include "checks/file_visibility.h"

#include <algorithm>
#include <set>
#include <utility>

namespace dlc {
namespace {

using Context = SharedStorage;
using Texts = std::vector<std::string>;

/// What is said of one reader and one writer.
struct Pair {
  int reader;
  const PeerFile* file;
};

std::vector<Pair> PairsSeen(const Context& context) {
  std::vector<Pair> pairs;
  for (const auto& result : context.results) {
    if (result.seen.seen() && result.seen.value().peers.seen()) {
      for (const PeerFile& peer : result.seen.value().peers.value()) {
        pairs.push_back({result.rank, &peer});
      }
    }
  }
  return pairs;
}

/// The first rank that did not tell what it saw of the others, or nullptr.
const RankResult<StorageShared>* FirstBlind(const Context& context) {
  const auto it = std::find_if(
      context.results.begin(), context.results.end(),
      [](const auto& result) { return !result.seen.seen() || !result.seen.value().peers.seen(); });
  return it == context.results.end() ? nullptr : &*it;
}

Finding& JudgeBlind(Context& context, std::string_view rule, const Subject& subject,
                    const RankResult<StorageShared>& blind) {
  const std::string what = "what " + blind.name + " sees of the others' files";
  return blind.seen.seen() ? context.judge.Unseen(rule, subject, what, blind.seen.value().peers)
                           : context.judge.Unseen(rule, subject, what, blind.seen);
}

std::string PairText(const Context& context, const Pair& pair) {
  const std::string reader = "rank " + std::to_string(pair.reader);
  const std::string writer = RankNames(context.run, {pair.file->rank});
  const std::string error = pair.file->error.empty() ? "" : " (" + pair.file->error + ")";
  if (pair.file->state == "not-written") {
    return writer + " wrote no file";
  }
  return pair.file->state == "different" ? reader + " read other bytes than " + writer + " wrote"
                                         : reader + " does not see the file of " + writer + error;
}

/// Ranks that read each other's files, both ways, are in one group; largest group first.
std::vector<std::vector<int>> Groups(const Context& context, const std::vector<Pair>& pairs) {
  std::set<std::pair<int, int>> reads;
  for (const Pair& pair : pairs) {
    if (pair.file->state == "same") {
      reads.insert({pair.reader, pair.file->rank});
    }
  }
  std::vector<std::vector<int>> groups;
  for (const auto& result : context.results) {
    const auto joins = [&](const std::vector<int>& group) {
      return reads.count({result.rank, group.front()}) > 0 &&
             reads.count({group.front(), result.rank}) > 0;
    };
    const auto it = std::find_if(groups.begin(), groups.end(), joins);
    if (it == groups.end()) {
      groups.push_back({result.rank});
    } else {
      it->push_back(result.rank);
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return groups;
}

Texts FailedPairs(const Context& context, const std::vector<Pair>& pairs) {
  std::set<std::string> failed;
  for (const Pair& pair : pairs) {
    if (pair.file->state != "same") {
      failed.insert(PairText(context, pair));
    }
  }
  return {failed.begin(), failed.end()};
}

/// The ranks that wrote nothing, if that is all there is to see: it says nothing of who shares
/// what.
std::vector<int> Silent(const std::vector<Pair>& pairs) {
  std::set<int> silent;
  for (const Pair& pair : pairs) {
    if (pair.file->state == "not-written") {
      silent.insert(pair.file->rank);
    } else if (pair.file->state != "same") {
      return {};
    }
  }
  return {silent.begin(), silent.end()};
}

/// Names who stands apart; the pairs are remarks.
void WordApart(const Context& context, const std::vector<Pair>& pairs, const Texts& failed,
               Finding& finding) {
  constexpr std::size_t kRemarks = 6;
  const auto groups = Groups(context, pairs);
  finding.expected = "every rank reads every other's file at " + context.path;
  finding.actual.clear();
  for (std::size_t i = 1; i < groups.size(); ++i) {
    finding.actual += (i == 1 ? "" : ", ") + RankNames(context.run, groups[i]);
  }
  finding.actual += groups.size() > 2 || (groups.size() == 2 && groups[1].size() > 1)
                        ? " stand apart from "
                        : " stands apart from ";
  finding.actual += RankNames(context.run, groups.front());
  if (groups.size() == 1) {
    finding.actual = failed.front();
  }
  if (const std::vector<int> silent = Silent(pairs); !silent.empty()) {
    finding.actual = RankNames(context.run, silent) + " wrote no file";
    finding.hint = "storage-shared/file-operations says what failed there before";
  }
  finding.reason.message = finding.actual;
  for (std::size_t i = 0; i < failed.size() && i < kRemarks; ++i) {
    finding.notes.push_back(failed[i]);
  }
  if (failed.size() > kRemarks) {
    finding.notes.push_back("and " + std::to_string(failed.size() - kRemarks) + " more such pairs");
  }
}

void JudgePairs(Context& context, std::string_view rule, const std::vector<Pair>& pairs,
                const std::vector<Pair>& all_pairs) {
  const Subject subject{"run", context.path};
  const Texts failed = FailedPairs(context, pairs);
  const RankResult<StorageShared>* blind = FirstBlind(context);
  // What was seen to fail stays a failure; what nobody could tell is no pass.
  if (failed.empty() && blind != nullptr) {
    JudgeBlind(context, rule, subject, *blind);
    return;
  }
  Finding& finding =
      context.judge.Decide(rule, subject,
                           {{"pairs of ranks looked at", Op::kGe, std::int64_t{1},
                             static_cast<std::int64_t>(pairs.size()), "", "constant"},
                            {"pairs that did not read the other's file", Op::kSubset, Texts{},
                             failed, "", "observation:checkpoint_ranks.storage_shared.peers"}});
  if (finding.verdict == Verdict::kFail && !failed.empty()) {
    WordApart(context, all_pairs, failed, finding);
  } else if (finding.verdict == Verdict::kPass) {
    finding.expected = "every rank reads every other's file at " + context.path;
    finding.actual =
        std::to_string(pairs.size()) + " of " + std::to_string(pairs.size()) + " pairs of ranks do";
  }
}

void JudgeVisibility(Context& context) {
  const Subject subject{"run", context.path};
  if (context.results.size() < 2) {
    for (const std::string_view rule : {kFilesVisible, kBetweenNodes}) {
      context.judge.NotApplicable(rule, subject, "one rank has nobody to share with");
    }
    return;
  }
  const auto pairs = PairsSeen(context);
  JudgePairs(context, kFilesVisible, pairs, pairs);
  std::set<std::string> nodes;
  for (const auto& [rank, node] : context.node_of) {
    nodes.insert(node);
  }
  if (context.node_of.size() < context.results.size() && nodes.size() < 2) {
    JudgeBlind(context, kBetweenNodes, subject, *FirstBlind(context));
    return;
  }
  if (nodes.size() < 2) {
    context.judge.NotApplicable(kBetweenNodes, subject,
                                "all " + std::to_string(context.results.size()) +
                                    " ranks run under one kernel, where any local directory is "
                                    "shared");
    return;
  }
  std::vector<Pair> across;
  for (const Pair& pair : pairs) {
    const auto writer = context.node_of.find(pair.file->rank);
    if (writer != context.node_of.end() && writer->second != context.node_of.at(pair.reader)) {
      across.push_back(pair);
    }
  }
  JudgePairs(context, kBetweenNodes, across, pairs);
}

/// What holds for the pairs that were seen holds for all only if no rank was blind.
void DecideDetail(Context& context, std::string_view rule, Assertion assertion) {
  const Subject subject{"run", context.path};
  const RankResult<StorageShared>* blind = FirstBlind(context);
  if (blind != nullptr && Holds(assertion)) {
    JudgeBlind(context, rule, subject, *blind);
    return;
  }
  context.judge.Decide(rule, subject, {std::move(assertion)});
}

/// Over all pairs that read each other.
void JudgePairDetails(Context& context) {
  const auto pairs = PairsSeen(context);
  Texts allowed;
  double slowest = 0;
  std::int64_t stale = 0;
  bool any = false;
  for (const Pair& pair : pairs) {
    stale += pair.file->stale_handles;
    if (pair.file->state != "same") {
      continue;
    }
    any = true;
    slowest = std::max(slowest, pair.file->seconds);
    if (pair.file->exclusive_create != "refused") {
      allowed.push_back("rank " + std::to_string(pair.reader) + " on the file of rank " +
                        std::to_string(pair.file->rank) + ": " + pair.file->exclusive_create);
    }
  }
  if (!any) {
    return;  // files-visible says all there is to say
  }
  DecideDetail(context, kExclusiveCreate,
               {"exclusive creates of existing files that were not refused", Op::kSubset, Texts{},
                allowed, "", "observation:checkpoint_ranks.storage_shared.peers"});
  DecideDetail(
      context, kVisibleInTime,
      {"longest until a new file was seen", Op::kLe, context.policy.storage.visible_within_seconds,
       slowest, "s", "policy:storage.visibleWithinSeconds"});
  DecideDetail(context, kStaleHandles,
               {"stale file handles", Op::kEq, std::int64_t{0}, stale, "", "constant"});
}

}  // namespace

void JudgeFileVisibility(SharedStorage& context) {
  JudgeVisibility(context);
  JudgePairDetails(context);
}

}  // namespace dlc
