#include "checks/checkpoint_trees.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "checks/wording.h"

namespace dlc {
namespace {

using Results = TreeResults;
using Texts = std::vector<std::string>;

/// With the directory below the path: two ranks may each find another checkpoint the newest.
std::string NameBelow(const CheckpointTree& tree, const std::string& name) {
  return tree.directory.empty() ? name : tree.directory + "/" + name;
}

std::set<std::string> NamesIn(const CheckpointTree& tree) {
  std::set<std::string> names;
  for (const ShardFile& shard : tree.shards) {
    names.insert(NameBelow(tree, shard.name));
  }
  if (tree.has_metadata) {
    names.insert(NameBelow(tree, MetadataName(tree)));
  }
  return names;
}

/// Names that some rank sees and another does not.
void JudgeNames(const Results& results, const Subject& subject, Judge& judge) {
  std::set<std::string> all;
  std::set<std::string> common = NamesIn(results.front().seen.value());
  std::string counts;
  for (const auto& result : results) {
    const auto names = NamesIn(result.seen.value());
    all.insert(names.begin(), names.end());
    std::erase_if(common, [&](const std::string& name) { return names.count(name) == 0; });
    counts += (counts.empty() ? "" : "; ") + result.name + " sees " +
              std::to_string(result.seen.value().shards.size()) + " shards" +
              (result.seen.value().has_metadata ? " and " + MetadataName(result.seen.value()) : "");
  }
  Texts missing;
  std::set_difference(all.begin(), all.end(), common.begin(), common.end(),
                      std::back_inserter(missing));
  const bool disjoint = common.empty();
  // Two looks at nothing are not the same files.
  if (all.empty()) {
    judge.Unknown(kTreeSameFiles, subject,
                  {"not-found", "no file of a sharded checkpoint was seen", ""});
    return;
  }
  Finding& finding = judge.Decide(kTreeSameFiles, subject,
                                  {{"files that only some see", Op::kSubset, Texts{}, missing, "",
                                    "observation:checkpoint_tree"}});
  if (finding.verdict == Verdict::kFail) {
    finding.expected = "all see the same files";
    finding.actual = (disjoint ? "node-local: no file is seen by all; "
                               : "only some see " + NameSome(missing) + "; ") +
                     counts;
    finding.reason.message = finding.actual;
  }
}

/// Same name, other size or content: two file systems.
void JudgeContent(const Results& results, const Subject& subject, Judge& judge) {
  std::map<std::string, std::pair<std::int64_t, std::string>> first;
  std::set<std::string> differing;
  int compared = 0;
  const auto compare = [&](const std::string& name, std::int64_t size, const Digest& digest) {
    const std::pair<std::int64_t, std::string> content{size, digest.hex};
    if (!first.emplace(name, content).second) {
      ++compared;
      if (first[name] != content) {
        differing.insert(name);
      }
    }
  };
  for (const auto& result : results) {
    const CheckpointTree& tree = result.seen.value();
    for (const ShardFile& shard : tree.shards) {
      compare(NameBelow(tree, shard.name), shard.size_bytes, shard.digest);
    }
    if (tree.has_metadata) {
      compare(NameBelow(tree, MetadataName(tree)), tree.metadata_bytes, tree.metadata_digest);
    }
  }
  if (compared == 0) {
    judge.Unknown(kTreeSameContent, subject,
                  {"not-found", "no file was seen twice, so no content was compared", ""});
    return;
  }
  const Texts names(differing.begin(), differing.end());
  Finding& finding = judge.Decide(kTreeSameContent, subject,
                                  {{"files that have other content for some", Op::kSubset, Texts{},
                                    names, "", "observation:checkpoint_tree"}});
  if (finding.verdict == Verdict::kFail) {
    finding.expected = "all read the same bytes under one name";
    finding.actual = "two file systems: " + NameSome(names) + (names.size() == 1 ? " is" : " are") +
                     " not the same for all";
    finding.reason.message = finding.actual;
  }
}

void JudgeTreeResults(const TreeResults& results, int workers, Judge& judge) {
  const std::string& path = results.front().seen.value().path;
  const bool one_path = std::all_of(results.begin(), results.end(), [&](const auto& result) {
    return result.seen.value().path == path;
  });
  const Subject subject{"run", one_path ? path : "checkpoint directory"};
  if (results.size() < 2) {
    for (const std::string_view rule : {kTreeSameFiles, kTreeSameContent}) {
      judge.NotApplicable(rule, subject, "there is no second look to compare with");
    }
  } else {
    JudgeNames(results, subject, judge);
    JudgeContent(results, subject, judge);
  }
  JudgeTreeComplete(results, workers, subject, judge);
  JudgeMetadataLast(results, judge);
}

}  // namespace

void JudgeCheckpointTrees(const RankRun& run, int workers, Judge& judge) {
  const TreeResults results = ResultsOf(run, &RankObservations::checkpoint_tree);
  const bool asked = std::any_of(results.begin(), results.end(),
                                 [](const auto& result) { return !result.seen.not_looked_at(); });
  if (!asked) {
    judge.NotApplicable(kTreeSameFiles, {"run", "checkpoint directory"},
                        "no existing checkpoint directory was named");
    return;
  }
  for (const auto& result : results) {
    if (!result.seen.seen()) {
      judge.Unseen(kTreeSameFiles, {"rank", result.name}, "the checkpoint directory", result.seen);
      return;
    }
  }
  JudgeTreeResults(results, workers, judge);
}

void JudgeCheckpointViews(const std::vector<CheckpointView>& views, int workers, Judge& judge) {
  TreeResults results;
  for (const CheckpointView& view : views) {
    if (!view.tree.seen()) {
      judge.Unseen(kTreeComplete, {"run", view.name}, "the checkpoint directory", view.tree);
      return;
    }
    results.push_back({static_cast<int>(results.size()), view.name, "", view.tree, {}});
  }
  if (results.empty()) {
    judge.Unknown(kTreeComplete, {"run", "checkpoint directory"},
                  {"not-looked-at", "no directory was looked at", ""});
    return;
  }
  JudgeTreeResults(results, workers, judge);
}

}  // namespace dlc
