#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "checks/checkpoint_trees.h"
#include "checks/wording.h"

namespace dlc {
namespace {

using Texts = std::vector<std::string>;

/// All looks as one.
struct UnitedTree {
  std::set<std::string> kinds;
  std::map<std::string, std::set<int>> ranks_by_part;
  std::set<int> stated_ranks;
  std::set<std::string> files;
  std::set<std::string> empty_files;
  std::set<std::string> unfinished;
  std::set<std::string> unread;
  std::set<std::string> unclear;
  std::string metadata;  ///< its name
  bool published = false;
  bool empty_metadata = false;
  bool rank_metadata = false;
  bool unregistered = false;
};

void Add(const CheckpointTree& tree, UnitedTree& all) {
  if (!tree.kind.empty()) {
    all.kinds.insert(tree.kind);
    all.metadata = MetadataName(tree);
  }
  for (const ShardFile& shard : tree.shards) {
    all.ranks_by_part[shard.part].insert(shard.rank);
    all.files.insert(shard.name);
    if (shard.size_bytes == 0) {
      all.empty_files.insert(shard.name);
    }
  }
  if (tree.stated_ranks > 0) {
    all.stated_ranks.insert(tree.stated_ranks);
  }
  all.unfinished.insert(tree.unfinished.begin(), tree.unfinished.end());
  all.unread.insert(tree.unread.begin(), tree.unread.end());
  if (!tree.unclear.empty()) {
    all.unclear.insert(tree.unclear);
  }
  all.published = all.published || tree.has_metadata;
  all.empty_metadata = all.empty_metadata || (tree.has_metadata && tree.metadata_bytes == 0);
  all.rank_metadata = all.rank_metadata || tree.rank_metadata;
  all.unregistered = all.unregistered || tree.ray_registered == "no";
}

Texts TextsOf(const std::set<std::string>& set) {
  return {set.begin(), set.end()};
}

/// How many ranks should have written; of DeepSpeed each part has ranks of its own.
int ExpectedRanks(const UnitedTree& all, int workers) {
  int most = 0;
  for (const auto& [part, ranks] : all.ranks_by_part) {
    most = std::max(most, *ranks.rbegin() + 1);
  }
  const bool by_part = all.kinds.contains("deepspeed");
  if (!by_part && workers > 0) {
    return workers;
  }
  return std::max({by_part || all.stated_ranks.empty() ? 1 : *all.stated_ranks.rbegin(), most, 1});
}

Texts MissingShards(const UnitedTree& all, int expected) {
  constexpr std::string_view kByModelRank = "model_states by mp_rank";
  Texts missing;
  auto parts = all.ranks_by_part;
  if (parts.empty()) {
    parts[""];
  }
  for (const auto& [part, ranks] : parts) {
    const int here = part == kByModelRank ? *ranks.rbegin() + 1 : expected;
    for (int rank = 0; rank < here; ++rank) {
      if (!ranks.contains(rank)) {
        missing.push_back("rank " + std::to_string(rank) + (part.empty() ? "" : " (" + part + ")"));
      }
    }
  }
  return missing;
}

/// DeepSpeed's optimizer files, one of each process.
std::size_t ProcessesOfDeepSpeed(const UnitedTree& all) {
  std::size_t count = 0;
  for (const auto& [part, ranks] : all.ranks_by_part) {
    count += part.starts_with("optim_states") ? ranks.size() : 0;
  }
  return count;
}

/// What is wrong beside missing shards.
Texts ProblemsOfTree(const UnitedTree& all, int workers) {
  const bool dcp = all.kinds.contains("dcp");
  Texts problems;
  if (!all.unfinished.empty()) {
    problems.push_back("interrupted: " + NameSome(TextsOf(all.unfinished)) + " of a save is left");
  }
  if (all.empty_metadata) {
    problems.push_back("cut: " + all.metadata + " is empty");
  }
  // torch opens a file for a rank that has nothing to write.
  const bool all_empty = all.empty_files.size() == all.files.size() && !all.files.empty();
  if (!all.empty_files.empty() && (!dcp || all_empty)) {
    problems.push_back("cut: no byte in " + NameSome(TextsOf(all.empty_files)));
  }
  if (all.unregistered) {
    problems.emplace_back(
        "not registered: Ray Train's checkpoint_manager_snapshot.json does not name it, so not "
        "every "
        "worker reported it");
  }
  if (all.kinds.size() > 1 || all.stated_ranks.size() > 1) {
    problems.emplace_back("mixed: files of two saves or writers are in it");
  }
  const int stated = all.stated_ranks.empty() ? 0 : *all.stated_ranks.begin();
  if (workers > 0 && stated > 0 && stated != workers) {
    problems.push_back("its files say " + Count(static_cast<std::size_t>(stated), "rank") +
                       ", the workload says " + std::to_string(workers));
  }
  if (workers > 0 && all.kinds.contains("deepspeed") && ProcessesOfDeepSpeed(all) > 0 &&
      ProcessesOfDeepSpeed(all) != static_cast<std::size_t>(workers)) {
    problems.push_back("incomplete: optimizer states of " +
                       Count(ProcessesOfDeepSpeed(all), "process") + ", the workload says " +
                       std::to_string(workers));
  }
  return problems;
}

/// Why names and sizes do not tell, though nothing is wrong with them; empty: they do.
std::string CannotTell(const UnitedTree& all) {
  if (!all.unread.empty()) {
    return "not looked into: " + NameSome(TextsOf(all.unread));
  }
  if (all.rank_metadata && !all.published) {
    return "it was saved without a coordinator (__<rank>.metadata): no one file is written last";
  }
  if (!all.published && !all.kinds.contains("dcp") && !all.kinds.contains("dlc-check")) {
    return "all files are there by name, and nothing beside them says that the save reached its "
           "end";
  }
  if (!all.empty_files.empty()) {
    return "no byte in " + NameSome(TextsOf(all.empty_files)) +
           ": cut, or of ranks that had nothing to write, and only the pickle .metadata knows";
  }
  return "";
}

std::string SizeText(const CheckpointTree& tree) {
  std::int64_t bytes = 0;
  std::set<int> ranks;
  const ShardFile* smallest = nullptr;
  const ShardFile* largest = nullptr;
  for (const ShardFile& shard : tree.shards) {
    bytes += shard.size_bytes;
    ranks.insert(shard.rank);
    smallest = smallest == nullptr || shard.size_bytes < smallest->size_bytes ? &shard : smallest;
    largest = largest == nullptr || shard.size_bytes > largest->size_bytes ? &shard : largest;
  }
  std::string text = Count(tree.shards.size(), "file") + " of " + Count(ranks.size(), "rank");
  if (smallest != nullptr) {
    text += " (" + std::to_string(*ranks.begin()) + " to " + std::to_string(*ranks.rbegin()) +
            "), " + std::to_string(bytes) + " bytes, " + std::to_string(smallest->size_bytes) +
            " to " + std::to_string(largest->size_bytes) + " each";
  }
  return text + (tree.has_metadata ? ", " + MetadataName(tree) + " of " +
                                         std::to_string(tree.metadata_bytes) + " bytes"
                                   : "");
}

void NoteTrees(const TreeResults& results, Finding& finding) {
  constexpr std::size_t kNotedViews = 8;
  for (std::size_t i = 0; i < results.size() && i < kNotedViews; ++i) {
    const CheckpointTree& tree = results[i].seen.value();
    const std::string where =
        results[i].name + (tree.directory.empty() ? "" : ", in " + tree.directory) + ": ";
    finding.notes.push_back(where + (tree.kind.empty() ? tree.unclear : tree.kind + ", ") +
                            (tree.kind.empty() ? "" : SizeText(tree)));
    if (!tree.passed_over.empty()) {
      finding.notes.push_back(where + "passed over " + NameSome(tree.passed_over));
    }
    if (!tree.ray.empty() || tree.ray_marker) {
      finding.notes.push_back(
          where + (tree.ray.empty() ? "of Ray Train" : "of Ray Train " + tree.ray) +
          (tree.ray_marker ? ", whose controller's .validate_storage_marker is there" : ""));
    }
  }
}

std::string WordProblems(const UnitedTree& all, bool missing_metadata, const Texts& missing,
                         const Texts& problems) {
  std::string text;
  const auto add = [&](const std::string& one) { text += (text.empty() ? "" : "; ") + one; };
  if (missing_metadata) {
    add("not published: no " + all.metadata + ", so the save did not end");
  }
  if (!missing.empty()) {
    add("incomplete: no shard of " + NameSome(missing));
  }
  for (const std::string& problem : problems) {
    add(problem);
  }
  return text;
}

}  // namespace

std::string MetadataName(const CheckpointTree& tree) {
  return tree.kind == "dlc-check"   ? "checkpoint.json"
         : tree.kind == "deepspeed" ? "latest"
                                    : ".metadata";
}

void JudgeTreeComplete(const TreeResults& results, int workers, const Subject& subject,
                       Judge& judge) {
  UnitedTree all;
  for (const auto& result : results) {
    Add(result.seen.value(), all);
  }
  if (all.kinds.empty()) {
    NoteTrees(results, judge.Unknown(kTreeComplete, subject,
                                     {"not-found",
                                      "no checkpoint whose names tell was found: " +
                                          NameSome(all.unread.empty() ? TextsOf(all.unclear)
                                                                      : TextsOf(all.unread)),
                                      ""}));
    return;
  }
  const bool needs_metadata =
      !all.rank_metadata && (all.kinds.contains("dcp") || all.kinds.contains("dlc-check"));
  const int expected = ExpectedRanks(all, workers);
  const Texts missing = MissingShards(all, expected);
  const Texts problems = ProblemsOfTree(all, workers);
  const bool missing_metadata = needs_metadata && !all.published;
  const bool wrong = missing_metadata || !missing.empty() || !problems.empty();
  const std::string cannot = wrong ? "" : CannotTell(all);
  if (!cannot.empty()) {
    NoteTrees(results, judge.Unknown(kTreeComplete, subject, {"unsupported", cannot, ""}));
    return;
  }
  Finding& finding = judge.Decide(
      kTreeComplete, subject,
      {{all.metadata + " is missing", Op::kEq, false, missing_metadata, "", "constant"},
       {"ranks without a shard", Op::kSubset, Texts{}, missing, "",
        workers > 0 ? "observation:run.workload.workers" : "observation:checkpoint_tree"},
       {"other problems", Op::kSubset, Texts{}, problems, "", "observation:checkpoint_tree"}});
  finding.expected = "a shard of each of " + Count(static_cast<std::size_t>(expected), "rank") +
                     ", and what is written last";
  finding.actual = wrong ? WordProblems(all, missing_metadata, missing, problems)
                         : "they are there; " + SizeText(results.front().seen.value());
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = finding.actual;
  } else if (workers == 0 && all.stated_ranks.empty()) {
    finding.notes.emplace_back(
        "how many ranks saved is not stated (--workers, workload.workers): a missing shard of the "
        "last ranks would not be seen");
  }
  NoteTrees(results, finding);
}

void JudgeMetadataLast(const TreeResults& results, Judge& judge) {
  std::set<std::string> newer;
  bool compared = false;
  bool uploaded = false;
  for (const auto& result : results) {
    const CheckpointTree& tree = result.seen.value();
    uploaded = uploaded || !tree.ray.empty();
    if (tree.metadata_modified_at_ns == 0 || !tree.ray.empty()) {
      continue;
    }
    compared = true;
    for (const ShardFile& shard : tree.shards) {
      if (shard.modified_at_ns > tree.metadata_modified_at_ns) {
        newer.insert(shard.name);
      }
    }
  }
  const Subject subject{"run", "checkpoint directory"};
  if (!compared) {
    judge.NotApplicable(
        kTreeMetadataLast, subject,
        uploaded ? "Ray Train uploads each checkpoint into a directory of its own, each worker at "
                   "its own time"
                 : "no file that is written last was seen");
    return;
  }
  if (!newer.empty()) {
    // A copy without times looks the same.
    judge.Unknown(kTreeMetadataLast, subject,
                  {"unsupported",
                   "newer than what is written last: " + NameSome(TextsOf(newer)) +
                       "; a later save overwrote it in place and did not end, so that files of two "
                       "saves are mixed, or the directory is a copy that did not keep the times",
                   ""});
    return;
  }
  judge.Decide(kTreeMetadataLast, subject,
               {{"files newer than the one that is written last", Op::kEq, std::int64_t{0},
                 static_cast<std::int64_t>(newer.size()), "", "observation:checkpoint_tree"}});
}

}  // namespace dlc
