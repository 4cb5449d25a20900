#include <cmath>
#include <string>
#include <utility>

#include "checks/check.h"
#include "checks/checkpoint_runs.h"
#include "checks/wording.h"

namespace dlc {

extern const Check kCheckpointResume;  // the table in check_list.cpp finds it by this name

namespace {

constexpr std::string_view kLosses = "checkpoint-resume/losses";
constexpr std::string_view kState = "checkpoint-resume/state";

constexpr std::string_view kOurTraining =
    "the framework's own training loop, its data loader or learning rate schedule";

constexpr Rule kRules[] = {
    {kLosses, Severity::kRequired, false,
     "training goes on from the checkpoint with the same losses",
     "the losses of every step after the load are, bit for bit, those of the run that went on "
     "without a pause",
     kOurTraining,
     "compare checkpoint-reload/same-state; if it passes, the step count, the data's "
     "place or the arithmetic differs between the two runs"},
    {kState, Severity::kRequired, false, "and comes to the same parameters and moments",
     "after as many steps as were trained before the save, every parameter and AdamW moment of all "
     "ranks is, bit for bit, that of the run without a pause",
     kOurTraining, "compare checkpoint-reload/same-state and the losses"},
};

constexpr const char* kLoads = "observation:checkpoint_ranks.checkpoint_load";

struct ResumeJudgement {
  CheckpointSaveRow saves;
  CheckpointLoadRow loads;
  Subject subject;
  Judge judge;
};

/// What does not even let itself be compared; true where a finding says so.
bool JudgedUnseen(ResumeJudgement& context, std::string_view rule) {
  if (context.saves.unseen) {
    context.judge.Unseen(rule, context.subject, "the run without a pause", *context.saves.unseen);
    return true;
  }
  if (context.loads.unseen) {
    context.judge.Unseen(rule, context.subject, "the run from the checkpoint",
                         *context.loads.unseen);
    return true;
  }
  return false;
}

/// nullptr: nobody saved as that rank.
const CheckpointSave* SavedAs(const CheckpointSaveRow& saves, int rank) {
  for (const auto& result : saves.results) {
    if (result.rank == rank) {
      return result.seen.get();
    }
  }
  return nullptr;
}

/// "step 3 has 6.25, not 6.5" of the first that differs or is not finite; else empty. Precondition:
/// as many losses in both.
std::string LossDifference(const CheckpointSave& saved, const CheckpointLoad& resumed) {
  for (std::size_t step = 0; step < saved.losses.size(); ++step) {
    const double expected = saved.losses[step];
    const double found = resumed.losses[step];
    const std::string name =
        "step " + std::to_string(saved.step + static_cast<std::int64_t>(step) + 1);
    if (!std::isfinite(expected) || !std::isfinite(found)) {
      return name + " is not finite: " + std::to_string(found) + ", and without a pause " +
             std::to_string(expected);
    }
    if (expected != found) {
      return name + " has " + std::to_string(found) + ", not " + std::to_string(expected);
    }
  }
  return "";
}

void JudgeLosses(ResumeJudgement& context) {
  if (JudgedUnseen(context, kLosses)) {
    return;
  }
  std::vector<std::string> wrong;
  std::int64_t compared = 0;
  for (const auto& result : context.loads.results) {
    const CheckpointLoad& resumed = result.seen.value();
    const CheckpointSave* saved = SavedAs(context.saves, resumed.role);
    const std::string as = result.name + " as rank " + std::to_string(resumed.role);
    if (saved == nullptr || saved->losses.size() != resumed.losses.size()) {
      wrong.push_back(as + ": another number of steps");
      continue;
    }
    // One rank's losses do not make up for another's: each has as many as it trained before.
    if (static_cast<std::int64_t>(saved->losses.size()) != saved->step) {
      wrong.push_back(as + ": " + Count(saved->losses.size(), "step") + " with a loss, after " +
                      std::to_string(saved->step) + " before the save");
      continue;
    }
    compared += saved->step;
    if (const std::string differs = LossDifference(*saved, resumed); !differs.empty()) {
      wrong.push_back(as);
      wrong.back().append(": ").append(differs);
    }
  }
  if (const std::string trouble = RoleTrouble(context.loads); wrong.empty() && !trouble.empty()) {
    context.judge.Unknown(kLosses, context.subject, {"unavailable", trouble, ""});
    return;
  }
  Finding& finding = context.judge.Decide(
      kLosses, context.subject,
      {{"losses that differ", Op::kSubset, std::vector<std::string>{}, wrong, "", kLoads},
       {"losses compared", Op::kGe, static_cast<std::int64_t>(context.loads.results.size()),
        compared, "", kLoads}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = wrong.empty() ? "no losses to compare" : NameSome(wrong);
  } else if (finding.verdict == Verdict::kPass) {
    finding.actual = Count(static_cast<std::size_t>(compared), "loss") == "1 loss"
                         ? "1 loss, the same bits"
                         : std::to_string(compared) + " losses, the same bits";
  }
}

void JudgeState(ResumeJudgement& context) {
  if (JudgedUnseen(context, kState)) {
    return;
  }
  std::vector<std::string> wrong;
  const std::string& expected = context.saves.results.front().seen.value().continued_hash;
  for (const auto& result : context.saves.results) {
    if (result.seen.value().continued_hash != expected || expected.empty()) {
      wrong.push_back(result.name + ": no common state without a pause");
    }
  }
  for (const auto& result : context.loads.results) {
    if (result.seen.value().resumed_hash != expected) {
      wrong.push_back(result.name + ": other state");
    }
  }
  if (const std::string trouble = RoleTrouble(context.loads); wrong.empty() && !trouble.empty()) {
    context.judge.Unknown(kState, context.subject, {"unavailable", trouble, ""});
    return;
  }
  Finding& finding = context.judge.Decide(
      kState, context.subject,
      {{"ranks that differ", Op::kSubset, std::vector<std::string>{}, wrong, "", kLoads}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = NameSome(wrong);
  } else if (finding.verdict == Verdict::kPass) {
    finding.expected = "state " + expected;
    finding.actual = "the same on " + Count(context.loads.results.size(), "rank");
  }
}

std::vector<Finding> JudgeCheckpointResume(const Observations& observations, const Policy& policy) {
  Judge judge(kCheckpointResume, policy);
  if (policy.checkpoint.measure == "no") {
    judge.NotApplicable(kState, {"run", "ranks"},
                        "the policy asks for no saved state (checkpoint.measure: no)");
    return judge.Take();
  }
  const Observed<RankRun>& ranks = observations.checkpoint_ranks;
  if (JudgeWithoutRanks(observations, ranks, kState, "what training from a checkpoint comes to",
                        kNothingDemanded, judge)) {
    return judge.Take();
  }
  ResumeJudgement context{CheckpointSavesOf(ranks.value(), policy.checkpoint),
                          CheckpointLoadsOf(ranks.value(), policy.checkpoint),
                          {"run", policy.checkpoint.model},
                          std::move(judge)};
  JudgeLosses(context);
  JudgeState(context);
  std::vector<Finding> findings = context.judge.Take();
  NotePlantedFaults(ranks.value(), findings);
  return findings;
}

}  // namespace

constinit const Check kCheckpointResume{
    "checkpoint-resume",
    Stage::kCheckpoint,
    false,
    "training from a checkpoint goes on as if nothing had happened",
    "losses and final state of k steps, save, new processes, load, k steps against 2k steps",
    kRules,
    JudgeCheckpointResume,
};

}  // namespace dlc
