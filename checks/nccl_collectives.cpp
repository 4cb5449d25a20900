#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "checks/check.h"
#include "checks/nccl_steps.h"
#include "checks/wording.h"
#include "probes/observations/nccl_log.h"
#include "probes/observations/why_unseen.h"

namespace dlc {

extern const Check kNcclCollectives;  // the table in check_list.cpp finds it by this name

namespace {

constexpr std::string_view kRightResults = "nccl-collectives/right-results";
constexpr std::string_view kCompletes = "nccl-collectives/completes";
constexpr std::string_view kSameNccl = "nccl-collectives/same-library";
constexpr std::string_view kSameSettings = "nccl-collectives/same-settings";
constexpr std::string_view kKnownProblem = "nccl-collectives/known-problem";

constexpr std::string_view kNotTraining =
    "which network carried the bytes (nccl-transport says that), nor other sizes, types and "
    "communicators than those listed";

constexpr Rule kRules[] = {
    {kRightResults, Severity::kRequired, false, "every collective gives the right result",
     "every element of the checked operations was compared with the exact result, on every rank, "
     "out of place and in place",
     kNotTraining, "look at the rank named: its GPU (the gpu stage), its node, its links"},
    {kCompletes, Severity::kRequired, false, "every collective of the policy completes in time",
     "each ran on all ranks at every size, within the step's deadline", kNotTraining,
     "see which collective the ranks had reached; known releases hang in broadcast only"},
    {kSameNccl, Severity::kRequired, false, "every rank has the same NCCL",
     "version and sha256 of the file that was loaded are equal on every rank",
     "that the training job loads this copy",
     "give every worker one image by digest, and no runtime_env that replaces nvidia-nccl"},
    {kSameSettings, Severity::kRequired, false, "settings that must agree do, on every rank",
     "variables and nccl.conf entries that choose algorithm, protocol, network and buffers are "
     "equal on every rank",
     "that the training job has this environment",
     "give every worker the same environment; look at the pod template and at /etc/nccl.conf"},
    {kKnownProblem, Severity::kWarn, false, "no release with a known problem is in use",
     "the plugin's release is none of those with a confirmed problem in this version's list",
     "that the release has no problem", "take an image with a later release"},
};

/// Releases of aws-ofi-nccl with a confirmed problem. facts: aws/deep-learning-containers pull
/// requests 6551, 6668 and 6679.
struct KnownProblem {
  std::string_view plugin;
  std::string_view problem;
};
constexpr KnownProblem kProblems[] = {
    {"1.18.0",
     "hangs in large broadcasts between nodes (EFA installer 1.47.0), which an all-reduce never "
     "meets"},
};

struct Context {
  const RankRun& run;
  const Policy& policy;
  std::vector<NcclStep> steps;
  Judge judge;
};

Subject SubjectOf(const NcclStep& step) {
  return {"run", "step " + step.name};
}

std::string Joined(const std::vector<std::string>& words) {
  return NameSome(words, words.size());
}

void JudgeResults(Context& context, const NcclStep& step) {
  const auto [wrong, checked] = CheckedElements(step.rows.collectives);
  const std::string text = WrongCollectivesText(context.run, step.rows);
  // A wrong element is wrong, however early the run ended; right ones are all only if it ended
  // well.
  if (text.empty() && step.rows.unseen) {
    context.judge.Unseen(kRightResults, SubjectOf(step), "all results", *step.rows.unseen);
    return;
  }
  const char* source = "observation:nccl_ranks.nccl_collectives";
  Finding& finding =
      context.judge.Decide(kRightResults, SubjectOf(step),
                           {{"wrong elements", Op::kEq, std::int64_t{0}, wrong, "", source},
                            {"elements compared", Op::kGe, std::int64_t{1}, checked, "", source}});
  if (finding.verdict == Verdict::kNotApplicable) {
    return;
  }
  finding.expected = "every element is right";
  if (!text.empty()) {
    finding.actual = finding.reason.message = text;
  } else if (finding.verdict == Verdict::kPass) {
    finding.actual = std::to_string(checked) + " elements of " +
                     Count(step.rows.collectives.size(), "row") + " of " + step.Type() + " were";
  }
}

/// Whether it was time that ended the step. Ranks that wait for one that died run out of time too,
/// and then it is the dead one that is told.
bool TimedOut(const NcclStep& step) {
  return step.rows.unseen->failed() && step.rows.unseen->error().code == ErrorCode::kTimedOut;
}

std::string ProgressText(const NcclProgress& reached) {
  return reached.phase + (reached.collective.empty() ? "" : " of " + reached.collective) +
         (reached.asked_bytes == 0 ? "" : ", " + std::to_string(reached.asked_bytes) + " bytes") +
         (reached.in_place ? ", in place" : "") +
         (reached.started == 0 ? "" : ", operation " + std::to_string(reached.started));
}

/// How far each rank came: by its own word, else by the last that was heard of it. And what NCCL's
/// RAS said then.
void NoteProgress(const NcclStep& step, Finding& finding) {
  std::map<std::string, std::vector<std::string>> by_progress;
  std::string ras;
  for (const auto& rank : step.ranks) {
    const NcclExperiment* seen = rank.seen.get();
    const std::string own = seen == nullptr ? rank.end.last_progress : ProgressText(seen->reached);
    if (!own.empty()) {
      by_progress[own].push_back(rank.name);
    }
    if (seen != nullptr && seen->ras.seen()) {
      ras = ras.empty() ? "NCCL's RAS answered " + rank.name + "; its answer is in the observations"
                        : ras;
    }
  }
  for (const auto& [progress, ranks] : by_progress) {
    finding.notes.push_back(NameSome(ranks, 8) + " reached " + progress);
  }
  if (!ras.empty()) {
    finding.notes.push_back(ras);
  }
}

void JudgeCompletes(Context& context, const NcclStep& step) {
  std::set<std::string> measured;
  for (const CollectiveMeasurement& row : step.rows.collectives) {
    measured.insert(row.collective);
  }
  std::vector<std::string> missing;
  for (const std::string& wanted : context.policy.nccl.collectives) {
    if (!measured.contains(wanted)) {
      missing.push_back(wanted);
    }
  }
  const Subject subject = SubjectOf(step);
  const std::int64_t rows = static_cast<std::int64_t>(step.rows.collectives.size());
  if (step.rows.unseen && !TimedOut(step)) {
    NoteProgress(step,
                 context.judge.Unseen(kCompletes, subject, "all collectives", *step.rows.unseen));
    return;
  }
  if (!step.rows.unseen && !missing.empty()) {
    context.judge.Unknown(kCompletes, subject,
                          {"not-looked-at", "the ranks were not asked for " + Joined(missing), ""});
    return;
  }
  Finding& finding = context.judge.Decide(
      kCompletes, subject,
      {{"operations that did not end by the deadline", Op::kEq, std::int64_t{0},
        std::int64_t{step.rows.unseen ? 1 : 0}, "", "observation:nccl_ranks.nccl_collectives"}});
  if (finding.verdict == Verdict::kFail) {
    finding.actual = finding.reason.message = WhyUnseen(*step.rows.unseen);
    finding.notes.push_back(
        Count(static_cast<std::size_t>(rows), "row") + " before it" +
        (measured.empty() ? "" : ": " + Joined({measured.begin(), measured.end()})));
    NoteProgress(step, finding);
  } else if (finding.verdict == Verdict::kPass) {
    finding.expected = Joined(context.policy.nccl.collectives);
    finding.actual =
        std::to_string(rows) + " rows of " + Joined({measured.begin(), measured.end()});
  }
}

/// What must be alike on all ranks, by what each has; and the first rank that did not say.
struct Alike {
  std::map<std::string, std::vector<int>> ranks_by_value;
  const RankResult<NcclExperiment>* unseen = nullptr;
};

template <class Value>
Alike Compare(const NcclStep& step, Value value) {
  Alike alike;
  for (const auto& rank : step.ranks) {
    if (rank.seen.seen()) {
      alike.ranks_by_value[value(rank.seen.value())].push_back(rank.rank);
    } else if (alike.unseen == nullptr) {
      alike.unseen = &rank;
    }
  }
  return alike;
}

void DecideAlike(Context& context, const NcclStep& step, std::string_view rule, const char* metric,
                 const char* what, const Alike& alike) {
  if (alike.ranks_by_value.size() < 2 && alike.unseen != nullptr) {
    context.judge.Unseen(rule, SubjectOf(step), std::string(what) + " of " + alike.unseen->name,
                         alike.unseen->seen);
    return;
  }
  Finding& finding = context.judge.Decide(
      rule, SubjectOf(step),
      {{metric, Op::kEq, std::int64_t{1}, static_cast<std::int64_t>(alike.ranks_by_value.size()),
        "", "observation:nccl_ranks.nccl_collectives"}});
  if (finding.verdict == Verdict::kNotApplicable) {
    return;
  }
  finding.expected = std::string("the same ") + what + " on every rank";
  finding.actual = alike.ranks_by_value.size() == 1 ? alike.ranks_by_value.begin()->first
                                                    : GroupsText(context.run, alike.ranks_by_value);
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = finding.actual;
  }
}

std::string LibraryText(const NcclExperiment& seen) {
  const NcclLibrary& nccl = seen.library;
  return "NCCL " + nccl.library.version + " of " + nccl.library.path + " (" +
         (nccl.file.seen() ? ShortDigest(nccl.file.value()) : "not hashed") + ")";
}

std::string SettingsText(const NcclExperiment& seen) {
  const std::string settings = SharedNcclSettings(seen.settings);
  return settings.empty() ? "none" : settings;
}

/// A rank whose copy could not be hashed: its file may be another, whatever its version.
const RankResult<NcclExperiment>* FirstNotHashed(const NcclStep& step) {
  const auto it = std::find_if(step.ranks.begin(), step.ranks.end(), [](const auto& rank) {
    return rank.seen.seen() && !rank.seen.value().library.file.seen();
  });
  return it == step.ranks.end() ? nullptr : &*it;
}

void JudgeSame(Context& context, const NcclStep& step) {
  const Alike library = Compare(step, LibraryText);
  const RankResult<NcclExperiment>* not_hashed = FirstNotHashed(step);
  if (not_hashed != nullptr && library.ranks_by_value.size() == 1 && step.ranks.size() > 1) {
    context.judge.Unseen(kSameNccl, SubjectOf(step), "the library's file on " + not_hashed->name,
                         not_hashed->seen.value().library.file);
  } else {
    DecideAlike(context, step, kSameNccl, "different copies of NCCL", "NCCL", library);
  }
  DecideAlike(context, step, kSameSettings, "different settings", "settings",
              Compare(step, SettingsText));
}

void JudgeKnownProblems(Context& context, const NcclStep& step) {
  std::set<std::string> plugins;
  for (const auto& rank : step.ranks) {
    const NcclLog* log = rank.seen.seen() ? rank.seen.value().log.get() : nullptr;
    if (log != nullptr && !log->plugin_version.empty()) {
      plugins.insert(log->plugin_version);
    }
  }
  for (const std::string& plugin : plugins) {
    std::vector<std::string> problems;
    for (const KnownProblem& known : kProblems) {
      const bool is = plugin == known.plugin ||
                      (plugin.starts_with(known.plugin) && plugin[known.plugin.size()] == '-');
      if (is) {
        problems.emplace_back(known.problem);
      }
    }
    Finding& finding = context.judge.Decide(
        kKnownProblem, {"run", "aws-ofi-nccl " + plugin},
        {{"known problems", Op::kSubset, std::vector<std::string>{}, problems, "", "constant"}});
    if (finding.verdict == Verdict::kFail) {
      finding.reason.message = "aws-ofi-nccl " + plugin + " " + Joined(problems);
    }
  }
}

std::vector<Finding> JudgeNcclCollectives(const Observations& observations, const Policy& policy) {
  Judge judge(kNcclCollectives, policy);
  if (JudgeWithoutNccl(observations, policy, kRightResults, false, judge)) {
    return judge.Take();
  }
  const RankRun& run = observations.nccl_ranks.value();
  Context context{run, policy, NcclStepsOf(run), std::move(judge)};
  JudgeNoOwnSteps(run, context.steps, kRightResults, context.judge);
  std::set<std::string> types;
  for (const NcclStep* step : AsTheJob(context.steps)) {
    JudgeResults(context, *step);
    JudgeCompletes(context, *step);
    types.insert(step->Type());
  }
  for (const std::string& type : policy.nccl.types) {
    if (!types.empty() && !types.contains(type) && !types.contains("")) {
      context.judge.Unknown(kCompletes, {"run", type},
                            {"not-looked-at", "the ranks were not asked for " + type, ""});
    }
  }
  if (!context.steps.empty()) {
    JudgeSame(context, context.steps.front());
    JudgeKnownProblems(context, context.steps.front());
  }
  std::vector<Finding> findings = context.judge.Take();
  NotePlantedFaults(run, findings);
  return findings;
}

}  // namespace

constinit const Check kNcclCollectives{
    "nccl-collectives",
    Stage::kNccl,
    false,
    "NCCL's collectives give the right results on all ranks, and none hangs",
    "each collective of the policy at each size, by the image's own NCCL in the job's own "
    "environment: every element, the library and the settings of every rank",
    kRules,
    JudgeNcclCollectives,
};

}  // namespace dlc
