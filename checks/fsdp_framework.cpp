#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checks/check.h"
#include "checks/fsdp_framework_runs.h"
#include "checks/fsdp_framework_transport.h"
#include "checks/fsdp_ranks.h"
#include "checks/fsdp_training_runs.h"
#include "checks/wording.h"

namespace dlc {

extern const Check kFsdpFramework;  // the table in check_list.cpp finds it by this name

namespace {

constexpr std::string_view kRuns = "fsdp-framework/runs";
constexpr std::string_view kLosses = "fsdp-framework/losses";
constexpr std::string_view kFrameworkFinite = "fsdp-framework/finite";
constexpr std::string_view kSpeed = "fsdp-framework/steps-per-second";
constexpr std::string_view kResumed = "fsdp-framework/checkpoint";

constexpr std::string_view kNoMore =
    "learning or a model's quality: tokens are synthetic; nor other models, optimizers or settings";

constexpr Rule kRules[] = {
    {kRuns, Severity::kRequired, false, "the image's framework trains over all ranks",
     "the python of the ranks loaded the framework, joined all ranks, sharded a Qwen2 decoder and "
     "trained all steps",
     kNoMore, "read the process's outputTail in the observations of the rank that is named"},
    {kLosses, Severity::kRequired, false, "the framework's losses are the native engine's",
     "with the same weights, tokens and steps each rank's losses were those of dlc-check's own "
     "engine, within fsdp.framework.maxLossDifference",
     kNoMore, "compare the versions of the packages with the image's; see fsdp-training"},
    {kFrameworkFinite, Severity::kRequired, false, "the framework's losses and norms are finite",
     "every rank's loss and gradient norm was a finite number in every step", kNoMore,
     "look at the first step and rank that is named"},
    {kSpeed, Severity::kRequired, false, "the framework's steps per second were measured",
     "steps were timed on all ranks, and there were at least fsdp.framework.minStepsPerSecond",
     "how fast the workload's own model and batch are", "compare with the native engine's step"},
    {kFrameworkTransport, Severity::kRequired, false,
     "the framework's own NCCL went over what the policy asks for",
     "what NCCL and its plugin logged in the framework's processes while they trained, every "
     "connection between nodes included",
     "that the devices moved the bytes: nobody counted those of these processes, so that "
     "EFA_LOGGED "
     "is as much as is asked",
     "compare with nccl-transport of the same run: another NCCL, plugin or environment in python"},
    {kResumed, Severity::kRequired, false,
     "the framework resumes from the checkpoint that it saved on the shared path",
     "other processes loaded each rank's parameters and optimizer state with the bits that were "
     "saved, and came to the losses of the processes that saved them",
     "durability, other numbers of ranks, or another format; checkpoint-reload shows more of the "
     "path",
     "look at the rank that is named, and at storage-shared"},
};

constexpr const char* kSource = "observation:fsdp_ranks.fsdp_framework";

/// The native engine on the same ranks, by its own check.
struct NativeView {
  std::string failed;  ///< "fsdp-training/finite: ..." of the first that fails; empty: none does
  bool whole = false;  ///< what was trained equals the unsharded model
  std::vector<RankResult<FsdpTrainingExperiment>> results;
  FsdpRunRow row;  ///< of those
};

struct FrameworkContext {
  const RankRun& run;
  const Policy& policy;
  const std::vector<RankResult<FrameworkExperiment>>& results;
  FrameworkRow train;
  NativeView native;
  double limit = 0;
  Judge judge;
};

Subject RunSubject(const FrameworkContext& context) {
  return {"run",
          context.policy.fsdp.framework.engine + " " + context.policy.fsdp.framework.strategy};
}

std::string Short(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

const FrameworkExperiment* AnyExperiment(const FrameworkContext& context) {
  for (const auto& result : context.results) {
    if (const FrameworkExperiment* seen = result.seen.get()) {
      return seen;
    }
  }
  return nullptr;
}

bool UnderRayTrain(const FrameworkContext& context) {
  const FrameworkExperiment* any = AnyExperiment(context);
  return any != nullptr && any->launcher == "ray-train";
}

/// What the native engine says about where to look.
std::string Blame(const NativeView& native) {
  return native.whole ? "the framework or its packages: the native engine trains the same on these "
                        "ranks, and right"
                      : "whether it is the framework or what is below it is not told apart: the "
                        "native engine was not seen to train right on these ranks";
}

void JudgeRuns(FrameworkContext& context) {
  const Subject subject = RunSubject(context);
  const FrameworkRow& train = context.train;
  if (train.failed.empty() && train.unseen) {
    context.judge.Unseen(kRuns, subject, "training by the framework", *train.unseen);
    return;
  }
  if (!train.failed.empty() && !context.native.failed.empty()) {
    context.judge.Unknown(kRuns, subject,
                          {"prerequisite-failed",
                           train.failed.front() + "; the native engine fails on these ranks too (" +
                               context.native.failed + "): look there first",
                           ""});
    return;
  }
  Finding& finding =
      context.judge.Decide(kRuns, subject,
                           {{"ranks whose framework failed", Op::kSubset,
                             std::vector<std::string>{}, train.failed, "", kSource},
                            {"ranks", Op::kGe, std::int64_t{1},
                             static_cast<std::int64_t>(train.by_rank.size()), "", kSource}});
  if (finding.verdict == Verdict::kFail) {
    finding.actual = finding.reason.message = train.failed.front() + "; " + Blame(context.native);
  } else if (finding.verdict == Verdict::kPass) {
    const FrameworkRun& any = *train.by_rank.front();
    finding.expected = "all ranks train";
    finding.actual = Count(any.steps.size() + any.more_steps.size(), "step") + " on " +
                     Count(train.by_rank.size(), "rank") + ", " + any.compute + " over " +
                     any.backend + ", the model of " +
                     (any.implementation == "own" ? "dlc-check" : any.implementation) +
                     (UnderRayTrain(context) ? ", under Ray Train's TorchTrainer" : "");
    std::map<std::string, std::vector<int>> versions;
    for (std::size_t rank = 0; rank < train.by_rank.size(); ++rank) {
      versions[FrameworkVersions(*train.by_rank[rank])].push_back(static_cast<int>(rank));
    }
    finding.notes.push_back(versions.size() == 1 ? versions.begin()->first
                                                 : GroupsText(context.run, versions));
  }
}

/// A native engine that is wrong beside a framework that is not has no explanation in the cluster.
bool JudgeNative(FrameworkContext& context) {
  const Subject subject = RunSubject(context);
  if (!context.native.failed.empty()) {
    context.judge.Unknown(
        kLosses, subject,
        {"prerequisite-failed",
         "the native engine fails (" + context.native.failed + ") and the framework trains: " +
             "impossible until explained, for both use the same ranks; report it if nothing was "
             "planted",
         ""});
    return true;
  }
  if (context.native.row.unseen) {
    context.judge.Unseen(kLosses, subject, "the native engine's losses",
                         *context.native.row.unseen);
    return true;
  }
  return false;
}

void JudgeLosses(FrameworkContext& context) {
  const Subject subject = RunSubject(context);
  if (!context.train.whole()) {
    const Observed<FrameworkExperiment> why =
        context.train.unseen ? *context.train.unseen
                             : Observed<FrameworkExperiment>(
                                   NotLookedAt{"it failed on " + context.train.failed.front(), ""});
    context.judge.Unseen(kLosses, subject, "the framework's losses", why);
    return;
  }
  if (JudgeNative(context)) {
    return;
  }
  LossDifference all;
  for (std::size_t rank = 0; rank < context.train.by_rank.size(); ++rank) {
    const FrameworkExperiment& seen = context.results[rank].seen.value();
    const FsdpTrainingRun& native = *context.native.row.by_rank[rank];
    const std::vector<FrameworkStep>& steps = context.train.by_rank[rank]->steps;
    const bool same = native.rows == seen.rows && native.sequence == seen.sequence &&
                      native.micro_batches == seen.micro_batches &&
                      native.steps.size() == steps.size() &&
                      native.compute == context.train.by_rank[rank]->compute;
    if (!same) {
      context.judge.Unknown(kLosses, subject,
                            {"not-looked-at",
                             context.results[rank].name +
                                 ": the native engine trained on other batches, steps or types",
                             ""});
      return;
    }
    std::vector<double> expected;
    for (const FsdpTrainingStep& step : native.steps) {
      expected.push_back(step.loss);
    }
    AddLossDifference(context.results[rank].name, 1, LossesOf(steps), expected, all);
  }
  Finding& finding = context.judge.Decide(
      kLosses, subject,
      {{"largest relative difference of a loss", Op::kLe, context.limit, all.largest, "", kSource},
       {"losses compared", Op::kGe, std::int64_t{1}, all.compared, "", kSource}});
  if (finding.verdict == Verdict::kFail) {
    finding.actual = finding.reason.message = all.where + ", off by " + Short(all.largest) +
                                              ", allowed " + Short(context.limit) + "; " +
                                              Blame(context.native);
  } else if (finding.verdict == Verdict::kPass) {
    finding.expected = "the native engine's losses, within " + Short(context.limit);
    finding.actual =
        std::to_string(all.compared) + " losses, off by " + Short(all.largest) + " at most";
  }
}

void JudgeFrameworkFinite(FrameworkContext& context) {
  std::vector<std::string> wrong;
  std::int64_t steps = 0;
  for (std::size_t rank = 0; rank < context.train.by_rank.size(); ++rank) {
    const FrameworkRun* run = context.train.by_rank[rank];
    if (run == nullptr) {
      continue;
    }
    std::vector<FrameworkStep> all = run->steps;
    all.insert(all.end(), run->more_steps.begin(), run->more_steps.end());
    for (std::size_t i = 0; i < all.size(); ++i) {
      ++steps;
      if (!all[i].finite) {
        wrong.push_back(context.results[rank].name + ", step " + std::to_string(i + 1));
      }
    }
  }
  const Subject subject = RunSubject(context);
  if (wrong.empty() && !context.train.whole()) {
    context.judge.Unknown(kFrameworkFinite, subject,
                          {"not-looked-at", "not all ranks came to the end of their steps", ""});
    return;
  }
  Finding& finding = context.judge.Decide(
      kFrameworkFinite, subject,
      {{"steps that are not finite", Op::kSubset, std::vector<std::string>{}, wrong, "", kSource},
       {"steps of all ranks", Op::kGe, std::int64_t{1}, steps, "", kSource}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = wrong.empty() ? "there were no steps" : NameSome(wrong);
  } else if (finding.verdict == Verdict::kPass) {
    finding.expected = "finite";
    finding.actual = std::to_string(steps) + " steps of all ranks were";
  }
}

void JudgeSpeed(FrameworkContext& context) {
  const Subject subject = RunSubject(context);
  if (!context.train.whole()) {
    context.judge.Unknown(kSpeed, subject,
                          {"not-looked-at", "not all ranks came to the end of their steps", ""});
    return;
  }
  const double rate = FrameworkStepsPerSecond(context.train);
  Finding& finding = context.judge.Decide(
      kSpeed, subject,
      {{"steps per second", Op::kGe, context.policy.fsdp.framework.min_steps_per_second, rate,
        "1/s", kSource},
       {"steps per second", Op::kGt, 0.0, rate, "1/s", kSource}});
  const FrameworkExperiment& seen = *AnyExperiment(context);
  const double tokens = static_cast<double>(seen.rows * seen.sequence) * seen.micro_batches *
                        static_cast<double>(context.train.by_rank.size());
  if (finding.verdict == Verdict::kPass || finding.verdict == Verdict::kFail) {
    finding.actual = Short(rate) + " steps/s, " + Fixed(tokens * rate, 0) + " tokens/s over " +
                     Count(context.train.by_rank.size(), "rank");
  }
  if (finding.verdict == Verdict::kPass) {
    if (std::string native = FsdpStepText(context.native.row); !native.empty()) {
      finding.notes.push_back("the native engine: " + std::move(native));
    }
  }
}

/// What came of the load, against what was saved.
void JudgeLoaded(FrameworkContext& context, const FrameworkRow& resume) {
  std::vector<std::string> other;
  LossDifference all;
  for (std::size_t rank = 0; rank < resume.by_rank.size(); ++rank) {
    const FrameworkRun& saved = *context.train.by_rank[rank];
    const FrameworkRun& loaded = *resume.by_rank[rank];
    if (saved.state_hash.empty() || saved.state_hash != loaded.state_hash) {
      other.push_back(context.results[rank].name);
    }
    if (saved.more_steps.size() != loaded.more_steps.size()) {
      other.push_back(context.results[rank].name + " (other steps)");
    }
    AddLossDifference(context.results[rank].name, static_cast<int>(saved.steps.size()) + 1,
                      LossesOf(loaded.more_steps), LossesOf(saved.more_steps), all);
  }
  Finding& finding = context.judge.Decide(
      kResumed, RunSubject(context),
      {{"ranks that loaded another state", Op::kSubset, std::vector<std::string>{}, other, "",
        kSource},
       {"largest relative difference of a loss", Op::kLe, context.limit, all.largest, "", kSource},
       {"losses compared", Op::kGe, std::int64_t{1}, all.compared, "", kSource}});
  if (finding.verdict == Verdict::kFail) {
    finding.actual = finding.reason.message =
        other.empty() ? (all.where.empty() ? "no step was done after the load"
                                           : all.where + " in the process that saved")
                      : "parameters or optimizer state are not as saved on " + NameSome(other);
  } else if (finding.verdict == Verdict::kPass) {
    const FrameworkRun& saved = *context.train.by_rank.front();
    finding.expected = "state and losses of the process that saved";
    finding.actual = "the same state on " + Count(resume.by_rank.size(), "rank") + ", " +
                     std::to_string(all.compared) + " losses off by " + Short(all.largest) +
                     " at most";
    finding.notes.push_back("saved in " + Short(saved.save_seconds) + " s, loaded in " +
                            Short(resume.by_rank.front()->load_seconds) + " s");
  }
}

void JudgeCheckpoint(FrameworkContext& context) {
  const Subject subject = RunSubject(context);
  const FrameworkExperiment* any = AnyExperiment(context);
  if (any != nullptr && any->checkpoint.empty()) {
    context.judge.NotApplicable(kResumed, subject,
                                "the config has no checkpoint.path: nothing was saved");
    return;
  }
  if (!context.train.whole()) {
    context.judge.Unknown(
        kResumed, subject,
        {"not-looked-at", "not all ranks came to the end of training: nothing was loaded", ""});
    return;
  }
  const FrameworkRow resume = FrameworkRowOf(context.results, "resume", context.policy.fsdp);
  if (resume.failed.empty() && resume.unseen) {
    context.judge.Unseen(kResumed, subject, "training from the checkpoint", *resume.unseen);
    return;
  }
  if (resume.failed.empty()) {
    JudgeLoaded(context, resume);
    return;
  }
  Finding& finding =
      context.judge.Decide(kResumed, subject,
                           {{"ranks whose framework failed", Op::kSubset,
                             std::vector<std::string>{}, resume.failed, "", kSource}});
  if (finding.verdict == Verdict::kFail) {
    finding.actual = finding.reason.message = resume.failed.front();
  }
}

NativeView NativeOf(const Observations& observations, const Policy& policy, const RankRun& run) {
  NativeView native;
  const Check* check = FindCheck("fsdp-training");
  for (const Finding& finding : check->judge(observations, policy)) {
    if (finding.verdict == Verdict::kFail && native.failed.empty()) {
      native.failed = finding.rule + ": " + finding.reason.message;
    }
    native.whole = native.whole || (finding.rule == "fsdp-training/unsharded-model" &&
                                    finding.verdict == Verdict::kPass);
  }
  native.results = ResultsOf(run, &RankObservations::fsdp_training);
  native.row = FsdpRunRowOf(native.results, "training", policy.fsdp.training);
  return native;
}

double LimitOf(const FsdpPolicy& fsdp) {
  constexpr double kFloat32 = 1e-4;
  constexpr double kBfloat16 = 0.02;
  return fsdp.framework.max_loss_difference.value_or(fsdp.training.backend == "cuda" ? kBfloat16
                                                                                     : kFloat32);
}

std::vector<Finding> JudgeFsdpFramework(const Observations& observations, const Policy& policy) {
  Judge judge(kFsdpFramework, policy);
  const FsdpPolicy& fsdp = policy.fsdp;
  if (JudgeWithoutFsdp(observations, policy, kRuns, "what the image's framework trains",
                       fsdp.framework.engine == "none"
                           ? "the policy asks for no framework (fsdp.framework.engine: none)"
                           : "",
                       judge)) {
    return judge.Take();
  }
  const RankRun& run = observations.fsdp_ranks.value();
  const auto results = FrameworkResultsOf(run);
  FrameworkContext context{run,
                           policy,
                           results,
                           FrameworkRowOf(results, "train", fsdp),
                           NativeOf(observations, policy, run),
                           LimitOf(fsdp),
                           std::move(judge)};
  JudgeRuns(context);
  JudgeLosses(context);
  JudgeFrameworkFinite(context);
  JudgeSpeed(context);
  JudgeFrameworkTransport(observations, policy, run, results, RunSubject(context), context.judge);
  JudgeCheckpoint(context);
  std::vector<Finding> findings = context.judge.Take();
  NotePlantedFaults(run, findings);
  return findings;
}

}  // namespace

constinit const Check kFsdpFramework{
    "fsdp-framework",
    Stage::kFsdp,
    false,
    "the image's own framework trains a sharded Qwen2 decoder to the native engine's losses",
    "losses of PyTorch's FSDP or DeepSpeed's ZeRO-3 against fsdp-training's on the same weights "
    "and "
    "tokens; steps per second; a checkpoint (torch: DCP) that other processes resume from",
    kRules,
    JudgeFsdpFramework,
};

}  // namespace dlc
