#include "checks/checkpoint_trees.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "checks/wording.h"

namespace dlc {
namespace {

using Results = std::vector<RankResult<CheckpointTree>>;
using Texts = std::vector<std::string>;

std::set<std::string> NamesIn(const CheckpointTree& tree) {
  std::set<std::string> names;
  for (const ShardFile& shard : tree.shards) {
    names.insert(shard.name);
  }
  if (tree.has_metadata) {
    names.insert(".metadata");
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
              (result.seen.value().has_metadata ? " and .metadata" : "");
  }
  Texts missing;
  std::set_difference(all.begin(), all.end(), common.begin(), common.end(),
                      std::back_inserter(missing));
  const bool disjoint = common.empty() && !all.empty();
  Finding& finding = judge.Decide(kTreeSameFiles, subject,
                                  {{"files that only some ranks see", Op::kSubset, Texts{}, missing,
                                    "", "observation:checkpoint_ranks.checkpoint_tree"}});
  if (finding.verdict == Verdict::kFail) {
    finding.expected = "every rank sees the same files";
    finding.actual = (disjoint ? "node-local: no file is seen by all ranks; "
                               : "only some ranks see " + NameSome(missing) + "; ") +
                     counts;
    finding.reason.message = finding.actual;
  }
}

/// Same name, other size or content: two file systems.
void JudgeContent(const Results& results, const Subject& subject, Judge& judge) {
  std::map<std::string, std::pair<std::int64_t, std::string>> first;
  std::set<std::string> differing;
  const auto compare = [&](const std::string& name, std::int64_t size, const Digest& digest) {
    const std::pair<std::int64_t, std::string> content{size, digest.hex};
    if (!first.emplace(name, content).second && first[name] != content) {
      differing.insert(name);
    }
  };
  for (const auto& result : results) {
    const CheckpointTree& tree = result.seen.value();
    for (const ShardFile& shard : tree.shards) {
      compare(shard.name, shard.size_bytes, shard.digest);
    }
    if (tree.has_metadata) {
      compare(".metadata", tree.metadata_bytes, tree.metadata_digest);
    }
  }
  const Texts names(differing.begin(), differing.end());
  Finding& finding = judge.Decide(kTreeSameContent, subject,
                                  {{"files that ranks see with other content", Op::kSubset, Texts{},
                                    names, "", "observation:checkpoint_ranks.checkpoint_tree"}});
  if (finding.verdict == Verdict::kFail) {
    finding.expected = "every rank reads the same bytes under one name";
    finding.actual = "two file systems: " + NameSome(names) + " differ from rank to rank";
    finding.reason.message = finding.actual;
  }
}

/// Over all that any rank sees: a set that is split is not thereby incomplete.
void JudgeComplete(const Results& results, int workers, const Subject& subject, Judge& judge) {
  std::set<int> writers;
  bool published = false;
  for (const auto& result : results) {
    for (const ShardFile& shard : result.seen.value().shards) {
      writers.insert(shard.rank);
    }
    published = published || result.seen.value().has_metadata;
  }
  const int expected = workers > 0 ? workers : writers.empty() ? 1 : *writers.rbegin() + 1;
  Texts missing;
  for (int rank = 0; rank < expected; ++rank) {
    if (writers.count(rank) == 0) {
      missing.push_back("rank " + std::to_string(rank));
    }
  }
  Finding& finding = judge.Decide(kTreeComplete, subject,
                                  {{".metadata is there", Op::kEq, true, published, "", "constant"},
                                   {"ranks without a shard", Op::kSubset, Texts{}, missing, "",
                                    workers > 0 ? "observation:run.workload.workers"
                                                : "observation:checkpoint_ranks.checkpoint_tree"}});
  if (finding.verdict == Verdict::kFail) {
    finding.expected = "a shard of each of " + std::to_string(expected) + " ranks, and .metadata";
    finding.actual =
        (published ? std::string()
                   : std::string("not published: no .metadata, so the save did not end")) +
        (published || missing.empty() ? "" : "; ") +
        (missing.empty() ? "" : "incomplete: no shard of " + NameSome(missing));
    finding.reason.message = finding.actual;
  } else if (finding.verdict == Verdict::kPass && workers == 0) {
    finding.notes.emplace_back(
        "how many ranks saved is not stated: a missing shard of the last ranks would not be seen");
  }
}

}  // namespace

void JudgeCheckpointTrees(const RankRun& run, int workers, Judge& judge) {
  const Results results = ResultsOf(run, &RankObservations::checkpoint_tree);
  const bool asked = std::any_of(results.begin(), results.end(),
                                 [](const auto& result) { return !result.seen.not_looked_at(); });
  if (!asked) {
    judge.NotApplicable(kTreeSameFiles, {"run", "checkpoint directory"},
                        "no existing checkpoint directory was named");
    return;
  }
  std::string path;
  for (const auto& result : results) {
    if (!result.seen.seen()) {
      judge.Unseen(kTreeSameFiles, {"rank", result.name}, "the checkpoint directory", result.seen);
      return;
    }
    path = result.seen.value().path;
  }
  const Subject subject{"run", path};
  JudgeNames(results, subject, judge);
  JudgeContent(results, subject, judge);
  JudgeComplete(results, workers, subject, judge);
}

}  // namespace dlc
