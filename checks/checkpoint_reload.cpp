#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "checks/check.h"
#include "checks/checkpoint_runs.h"
#include "checks/wording.h"

namespace dlc {

extern const Check kCheckpointReload;  // the table in check_list.cpp finds it by this name

namespace {

constexpr std::string_view kSaved = "checkpoint-reload/saved";
constexpr std::string_view kSameState = "checkpoint-reload/same-state";
constexpr std::string_view kNotCached = "checkpoint-reload/not-cached";
constexpr std::string_view kWorldSizes = "checkpoint-reload/other-world-sizes";
constexpr std::string_view kRefusals = "checkpoint-reload/refusals";

constexpr std::string_view kNotTheFramework =
    "the framework's own format and code; that the storage outlives a crash of its servers";

constexpr Rule kRules[] = {
    {kSaved, Severity::kRequired, false, "the ranks save their sharded state",
     "every rank's file was written, synced and named, and a manifest with all lengths and sha256 "
     "written after them",
     kNotTheFramework, "look at the error that is named: space, quota, rights, the mount's health"},
    {kSameState, Severity::kRequired, false, "what other processes load is what was saved",
     "each rank loaded another rank's file, where there is one, and as many as one shift of all "
     "ranks allows another node's, in a process that had trained nothing; every byte was held "
     "against the manifest's sha256, and every parameter and AdamW moment in memory against what "
     "was in the saving ranks' memory",
     kNotTheFramework,
     "look at the tensors and ranks that are named; storage-shared tells whose files differ"},
    {kNotCached, Severity::kWarn, false, "the loaded bytes came from no page cache of the reader",
     "another node wrote them, or the pages were shown to be absent before, or O_DIRECT was used",
     "that they came from disks and not from a server's memory",
     "run ranks on two nodes, or on a file system that does not live in memory"},
    {kWorldSizes, Severity::kRequired, false, "the state loads for another number of ranks",
     "cut for other numbers of ranks from the same files, the tensors are the same",
     kNotTheFramework, "it is a bug of this tool if same-state passes: report it"},
    {kRefusals, Severity::kRequired, false,
     "damaged sets of files are refused, each for its reason",
     "a partial, a damaged, a swapped, a stale and a mixed-run set were made in this run, on this "
     "file system, and the reader refused each for what it is",
     "that it would refuse every other damage",
     "report it: this build's findings cannot be trusted", true},
};

constexpr std::array<std::string_view, 5> kDamages = {"partial", "damaged", "swapped", "stale",
                                                      "mixed-run"};
constexpr std::string_view kNoCommonState = "the saving ranks tell no common state";
constexpr const char* kSaves = "observation:checkpoint_ranks.checkpoint_save";
constexpr const char* kLoads = "observation:checkpoint_ranks.checkpoint_load";

struct ReloadContext {
  const RankRun& run;
  CheckpointSaveRow saves;
  CheckpointLoadRow loads;
  Subject subject;
  Judge judge;
};

/// "rank 1 on pod-1: unavailable: cannot write ...: ENOSPC" of each that has one.
template <class T>
std::vector<std::string> RefusedBy(const CheckpointRow<T>& row) {
  std::vector<std::string> all;
  for (const auto& result : row.results) {
    if (const T* seen = result.seen.get(); seen != nullptr && !seen->refused.empty()) {
      all.push_back(result.name + ": " + seen->refused);
    }
  }
  return all;
}

std::string Rate(std::int64_t bytes, double seconds) {
  return seconds > 0 ? Fixed(static_cast<double>(bytes) / seconds / 1e6, 1) + " MB/s" : "no rate";
}

void JudgeSaved(ReloadContext& context) {
  const std::vector<std::string> refused = RefusedBy(context.saves);
  if (refused.empty() && context.saves.unseen) {
    context.judge.Unseen(kSaved, context.subject, "the save", *context.saves.unseen);
    return;
  }
  std::int64_t published = 0;
  std::int64_t bytes = 0;
  double seconds = 0;
  std::vector<std::string> notes;
  for (const auto& result : context.saves.results) {
    const CheckpointSave* seen = result.seen.get();
    if (seen == nullptr) {
      continue;
    }
    published += seen->published && seen->bytes > 0 ? 1 : 0;
    bytes += seen->bytes;
    seconds = std::max(seconds, seen->seconds);
    for (const std::string& note : seen->notes) {
      if (std::find(notes.begin(), notes.end(), note) == notes.end()) {
        notes.push_back(note);
      }
    }
  }
  Finding& finding = context.judge.Decide(
      kSaved, context.subject,
      {{"what refused", Op::kSubset, std::vector<std::string>{}, refused, "", kSaves},
       {"ranks whose file is in a published checkpoint", Op::kEq,
        static_cast<std::int64_t>(context.saves.results.size()), published, "", kSaves}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message =
        refused.empty() ? "not every rank's file was published" : NameSome(refused);
  }
  if (finding.verdict != Verdict::kPass) {
    return;  // switched off, it may have seen nobody
  }
  const CheckpointSave& any = context.saves.results.front().seen.value();
  finding.expected = "saved";
  finding.actual = "step " + std::to_string(any.step) + " of " + any.training.model + ", " +
                   std::to_string(any.tensors) + " tensors in " + std::to_string(bytes) +
                   " bytes, by " + Count(context.saves.results.size(), "rank") + " (" +
                   any.strategy + ") in " + Fixed(seconds, 2) + " s: " + Rate(bytes, seconds);
  finding.notes.insert(finding.notes.end(), notes.begin(), notes.end());
}

/// Whether the manifest was written: without it there is nothing that should have been found.
bool Published(const CheckpointSaveRow& saves) {
  return std::any_of(saves.results.begin(), saves.results.end(), [](const auto& result) {
    return result.seen.seen() && result.seen.value().published;
  });
}

void JudgeSameState(ReloadContext& context) {
  if (!Published(context.saves)) {
    if (context.saves.unseen) {
      context.judge.Unseen(kSameState, context.subject, "the save", *context.saves.unseen);
    } else {
      context.judge.Unknown(kSameState, context.subject,
                            {"unavailable", "no checkpoint was published", ""});
    }
    return;
  }
  std::vector<std::string> wrong = RefusedBy(context.loads);
  const std::string saved = SavedHash(context.saves);
  std::int64_t loaded = 0;
  std::int64_t bytes = 0;
  double seconds = 0;
  for (const auto& result : context.loads.results) {
    const CheckpointLoad* seen = result.seen.get();
    if (seen == nullptr || seen->hash.empty()) {
      continue;
    }
    if (seen->wrong_tensors > 0) {
      wrong.push_back(result.name + ": " +
                      Count(static_cast<std::size_t>(seen->wrong_tensors), "tensor") +
                      " not as saved: " + NameSome(seen->wrong));
    } else if (!saved.empty() && seen->hash != saved) {
      wrong.push_back(result.name + ": other state than was in memory when it was saved");
    }
    loaded += seen->hash == saved && seen->bytes > 0 ? 1 : 0;
    bytes += seen->bytes;
    seconds = std::max(seconds, seen->seconds);
  }
  if (wrong.empty() && context.loads.unseen) {
    context.judge.Unseen(kSameState, context.subject, "the load", *context.loads.unseen);
    return;
  }
  if (wrong.empty() && saved.empty()) {
    context.judge.Unknown(kSameState, context.subject,
                          {"unavailable", std::string(kNoCommonState), ""});
    return;
  }
  if (const std::string trouble = RoleTrouble(context.loads); wrong.empty() && !trouble.empty()) {
    context.judge.Unknown(kSameState, context.subject, {"unavailable", trouble, ""});
    return;
  }
  Finding& finding = context.judge.Decide(
      kSameState, context.subject,
      {{"what differs", Op::kSubset, std::vector<std::string>{}, wrong, "", kLoads},
       {"ranks with the saved state", Op::kEq,
        static_cast<std::int64_t>(context.loads.results.size()), loaded, "", kLoads}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = wrong.empty() ? "not every rank has the saved state" : NameSome(wrong);
  }
  if (finding.verdict != Verdict::kPass) {
    return;
  }
  finding.expected = "state " + saved;
  finding.actual = "the same on " + Count(context.loads.results.size(), "rank") + ", " +
                   std::to_string(bytes) + " bytes in " + Fixed(seconds, 2) +
                   " s: " + Rate(bytes, seconds);
}

void JudgeNotCached(ReloadContext& context) {
  if (context.loads.unseen) {
    context.judge.Unseen(kNotCached, context.subject, "the load", *context.loads.unseen);
    return;
  }
  std::vector<std::string> cached;
  std::vector<std::string> nothing;
  std::string how;
  for (const auto& result : context.loads.results) {
    if (result.seen.value().bytes == 0) {
      nothing.push_back(result.name);
    }
    const std::string& why = result.seen.value().cold_because;
    if (why.empty()) {
      cached.push_back(result.name);
    } else if (how.find(why) == std::string::npos) {
      how += (how.empty() ? "" : ", ") + why;
    }
  }
  if (!cached.empty()) {
    context.judge.Unknown(
        kNotCached, context.subject,
        {"unavailable", NameSome(cached) + " may have read this node's memory", ""});
    return;
  }
  if (!nothing.empty()) {
    context.judge.Unknown(kNotCached, context.subject,
                          {"unavailable", NameSome(nothing) + " read nothing", ""});
    return;
  }
  Finding& finding = context.judge.Decide(kNotCached, context.subject,
                                          {{"ranks that may have read their own cache", Op::kSubset,
                                            std::vector<std::string>{}, cached, "", kLoads}});
  if (finding.verdict == Verdict::kPass) {
    finding.actual = how;
  }
}

/// "1, 3, 5".
std::string ReshardSizes(const CheckpointLoad& load) {
  std::string sizes;
  for (const CheckpointReshard& one : load.reshards) {
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(one.ranks);
  }
  return sizes;
}

/// Where `saved` is empty there is nothing that a hash could differ from: errors alone are left.
std::vector<std::string> WrongReshards(const CheckpointLoadRow& loads, const std::string& saved) {
  std::vector<std::string> wrong;
  for (const auto& result : loads.results) {
    for (const CheckpointReshard& one : result.seen.value().reshards) {
      if (!one.error.empty() || (!saved.empty() && one.hash != saved)) {
        wrong.push_back(result.name + ": cut for " + std::to_string(one.ranks) + ": " +
                        (one.error.empty() ? "other tensors" : one.error));
      }
    }
  }
  return wrong;
}

/// Why the loads without a wrong one show nothing all the same; an empty code: they do.
Reason WhyNoReshards(const CheckpointLoadRow& loads, const std::string& saved) {
  const CheckpointLoad& any = loads.results.front().seen.value();
  const std::string sizes = ReshardSizes(any);
  for (const auto& result : loads.results) {
    if (ReshardSizes(result.seen.value()) != sizes) {
      return {"unavailable", "the ranks did not try the same numbers", ""};
    }
  }
  if (sizes.empty()) {
    const std::string& why = any.reshard_not_looked_at;
    return {"not-looked-at", why.empty() ? "no other number was tried" : why, ""};
  }
  return saved.empty() ? Reason{"unavailable", std::string(kNoCommonState), ""} : Reason{};
}

void JudgeWorldSizes(ReloadContext& context) {
  if (context.loads.unseen) {
    context.judge.Unseen(kWorldSizes, context.subject, "the load", *context.loads.unseen);
    return;
  }
  const CheckpointLoad& any = context.loads.results.front().seen.value();
  const std::string saved = SavedHash(context.saves);
  const std::vector<std::string> wrong = WrongReshards(context.loads, saved);
  if (const Reason why = WhyNoReshards(context.loads, saved); wrong.empty() && !why.code.empty()) {
    context.judge.Unknown(kWorldSizes, context.subject, why);
    return;
  }
  Finding& finding = context.judge.Decide(kWorldSizes, context.subject,
                                          {{"numbers of ranks with other tensors", Op::kSubset,
                                            std::vector<std::string>{}, wrong, "", kLoads}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = NameSome(wrong);
  } else if (finding.verdict == Verdict::kPass) {
    finding.actual = "saved by " + std::to_string(any.training.ranks) + ", the same cut for " +
                     ReshardSizes(any);
  }
}

/// Of all ranks, though one does the damage: none hides behind another. It is done to files of no
/// model.
std::vector<CheckpointRefusal> RefusalsOf(const RankRun& run) {
  std::vector<CheckpointRefusal> all;
  for (const auto& result : ResultsOf(run, &RankObservations::checkpoint_save)) {
    if (const CheckpointSave* seen = result.seen.get()) {
      all.insert(all.end(), seen->refusals.begin(), seen->refusals.end());
    }
  }
  return all;
}

void JudgeRefusals(ReloadContext& context) {
  const std::vector<CheckpointRefusal> refusals = RefusalsOf(context.run);
  if (refusals.empty()) {
    if (context.saves.unseen) {
      context.judge.Unseen(kRefusals, context.subject, "the refusals", *context.saves.unseen);
    } else {
      context.judge.Unknown(kRefusals, context.subject,
                            {"not-looked-at", "no rank damaged a set of files", ""});
    }
    return;
  }
  std::vector<std::string> missed;
  for (const CheckpointRefusal& one : refusals) {
    if (one.planted && !one.caught) {
      missed.push_back(one.name + " (" + one.found + ")");
    }
  }
  std::vector<std::string> absent;
  for (const std::string_view damage : kDamages) {
    if (std::none_of(refusals.begin(), refusals.end(),
                     [&](const auto& one) { return one.name == damage && one.planted; })) {
      absent.emplace_back(damage);
    }
  }
  if (missed.empty() && !absent.empty()) {
    context.judge.Unknown(kRefusals, context.subject,
                          {"not-looked-at", "not planted: " + NameSome(absent), ""});
    return;
  }
  Finding& finding = context.judge.Decide(kRefusals, context.subject,
                                          {{"damages that were not refused", Op::kSubset,
                                            std::vector<std::string>{}, missed, "", kSaves}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = "it took " + NameSome(missed);
  } else if (finding.verdict == Verdict::kPass) {
    finding.actual = Count(kDamages.size(), "kind") + " of damage were refused";
  }
}

std::vector<Finding> JudgeCheckpointReload(const Observations& observations, const Policy& policy) {
  Judge judge(kCheckpointReload, policy);
  if (policy.checkpoint.measure == "no") {
    judge.NotApplicable(kSameState, {"run", "ranks"},
                        "the policy asks for no saved state (checkpoint.measure: no)");
    return judge.Take();
  }
  const Observed<RankRun>& ranks = observations.checkpoint_ranks;
  if (JudgeWithoutRanks(observations, ranks, kSameState, "what a checkpoint comes back as",
                        kNothingDemanded, judge)) {
    return judge.Take();
  }
  ReloadContext context{ranks.value(),
                        CheckpointSavesOf(ranks.value(), policy.checkpoint),
                        CheckpointLoadsOf(ranks.value(), policy.checkpoint),
                        {"run", policy.checkpoint.model},
                        std::move(judge)};
  JudgeSaved(context);
  JudgeSameState(context);
  JudgeNotCached(context);
  JudgeWorldSizes(context);
  JudgeRefusals(context);
  std::vector<Finding> findings = context.judge.Take();
  NotePlantedFaults(ranks.value(), findings);
  return findings;
}

}  // namespace

constinit const Check kCheckpointReload{
    "checkpoint-reload",
    Stage::kCheckpoint,
    false,
    "sharded state that was saved loads in other processes, to the bit",
    "hashes of every parameter and moment, before and after; sha256 of every file; refusals of "
    "damaged sets",
    kRules,
    JudgeCheckpointReload,
};

}  // namespace dlc
