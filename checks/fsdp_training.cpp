#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "checks/check.h"
#include "checks/fsdp_ranks.h"
#include "checks/fsdp_training_runs.h"
#include "checks/wording.h"

namespace dlc {

extern const Check kFsdpTraining;  // the table in check_list.cpp finds it by this name

namespace {

constexpr std::string_view kExact = "fsdp-training/whole-numbers";
constexpr std::string_view kUnsharded = "fsdp-training/unsharded-model";
constexpr std::string_view kFinite = "fsdp-training/finite";
constexpr std::string_view kAgree = "fsdp-training/ranks-agree";
constexpr std::string_view kTrainingBytes = "fsdp-training/sent-bytes";
constexpr std::string_view kTrainingVerifier = "fsdp-training/verifier";

constexpr std::string_view kNoLearning =
    "learning, convergence or a model's quality: tokens are synthetic; nor the framework's own "
    "code";

constexpr Rule kRules[] = {
    {kExact, Severity::kRequired, false,
     "gradients of whole numbers come to the same bits as without shards",
     "each rank's parameters and AdamW's moments are, bit for bit, what sums of all ranks' "
     "gradients "
     "make of them; what fills the shards is 0; gathered units are what their owners have",
     kNoLearning, "look at the rank that is named: its memory, its links, its GPU"},
    {kUnsharded, Severity::kRequired, false,
     "a sharded Qwen2 decoder trains as the unsharded one does",
     "losses, gradient norms, and each rank's parameters and moments after the last step are those "
     "of the whole model on one rank, within bounds that follow from types, ranks and steps",
     kNoLearning, "compare with fsdp-training/whole-numbers: if that passes, arithmetic differs"},
    {kFinite, Severity::kRequired, false, "losses and gradient norms are finite",
     "every rank's loss and the norm of all gradients were finite numbers in every step",
     kNoLearning, "look at the first step and rank that is named"},
    {kAgree, Severity::kRequired, false, "all ranks have the same gradient norm and the same state",
     "the norm that clips gradients, and a hash over all parameters and moments, were the same "
     "bits "
     "on all ranks",
     kNoLearning, "a rank that differs has other gradients, or was sent other numbers"},
    {kTrainingBytes, Severity::kRequired, false,
     "training steps send as many bytes as their formulas say",
     "the payload of all ranks' messages in each step is that of FSDP2 with reshard after forward",
     "which link carried them, nor headers and repetitions; NCCL does not count its bytes",
     "compare the observation's sentBytes of each rank; it is a bug of this tool if all differ"},
    {kTrainingVerifier, Severity::kRequired, false, "the comparison finds faults of training",
     "a wrong mean, a skipped optimizer step, a dropped micro-batch, a flipped bit, a leak into "
     "what "
     "fills shards and a stale gather were each made on copies, in this run, and found",
     "that it would find every other fault", "report it: this build's findings cannot be trusted",
     true},
};

constexpr std::array<std::string_view, 6> kControls = {"wrong-average",       "skipped-shard",
                                                       "dropped-micro-batch", "flipped-bit",
                                                       "padding-leak",        "stale-gather"};
constexpr const char* kSource = "observation:fsdp_ranks.fsdp_training";

struct TrainingContext {
  const RankRun& run;
  const std::vector<RankResult<FsdpTrainingExperiment>>& results;
  FsdpRunRow exact;
  FsdpRunRow training;
  Judge judge;
};

Subject RunSubject(const TrainingContext& context) {
  const FsdpTrainingRun* any = context.training.Any();
  any = any == nullptr ? context.exact.Any() : any;
  return {"run", any == nullptr ? "training" : any->model};
}

/// Comparisons of all ranks, and the first that is beyond its bound.
struct ComparedRanks {
  std::int64_t elements = 0;
  std::int64_t beyond = 0;
  std::string text;
  std::optional<Observed<std::vector<FsdpComparison>>> unseen;
};

ComparedRanks Compared(const TrainingContext& context, const FsdpRunRow& row) {
  ComparedRanks all;
  for (std::size_t rank = 0; rank < row.by_rank.size(); ++rank) {
    const FsdpTrainingRun* run = row.by_rank[rank];
    if (run == nullptr) {
      continue;
    }
    const auto add = [&](const std::vector<FsdpComparison>& some) {
      for (const FsdpComparison& one : some) {
        all.elements += one.elements;
        all.beyond += BeyondBound(one) ? 1 : 0;
      }
      if (all.text.empty()) {
        all.text = FsdpComparisonText(context.run, static_cast<int>(rank), *run, some);
      }
    };
    const auto* reference = run->reference.get();
    if (reference != nullptr && !reference->empty()) {
      add(*reference);
    } else if (!all.unseen) {
      all.unseen = reference == nullptr
                       ? run->reference
                       : NotLookedAt{"a rank compared nothing with the whole model", ""};
    }
    add(run->own);
  }
  return all;
}

/// What is beyond its bound is wrong, however early the run ended.
void JudgeComparisons(TrainingContext& context, std::string_view rule, const FsdpRunRow& row) {
  const Subject subject = RunSubject(context);
  const ComparedRanks all = Compared(context, row);
  if (all.beyond == 0 && row.unseen) {
    context.judge.Unseen(rule, subject, "training (" + row.name + ")", *row.unseen);
    return;
  }
  if (all.beyond == 0 && all.unseen) {
    context.judge.Unseen(rule, subject, "what the shards must come to", *all.unseen);
    return;
  }
  Finding& finding = context.judge.Decide(
      rule, subject,
      {{"comparisons beyond their bound", Op::kEq, std::int64_t{0}, all.beyond, "", kSource},
       {"elements compared", Op::kGe, std::int64_t{1}, std::max<std::int64_t>(all.elements, 0), "",
        kSource}});
  if (finding.verdict == Verdict::kFail) {
    finding.actual = finding.reason.message = all.text.empty() ? "nothing was compared" : all.text;
  } else if (finding.verdict == Verdict::kPass) {
    finding.expected = "the same as without shards";
    finding.actual = std::to_string(all.elements) + " numbers compared on " +
                     Count(row.by_rank.size(), "rank") + ", trained on " +
                     context.results[0].seen.get()->backend;
  }
  if (context.run.size == 1 && finding.verdict != Verdict::kNotApplicable) {
    finding.notes.emplace_back("one rank: its shard is the whole, and nothing went anywhere");
  }
}

void NoteSpeed(const TrainingContext& context, Finding& finding) {
  if (std::string text = FsdpStepText(context.training); !text.empty()) {
    finding.notes.push_back(std::move(text));
  }
  const FsdpTrainingExperiment* seen =
      context.results.empty() ? nullptr : context.results[0].seen.get();
  for (const FsdpPrediction& one :
       seen == nullptr ? std::vector<FsdpPrediction>{} : seen->predictions) {
    finding.notes.push_back("communication of a step of " + one.model +
                            ", with nothing to hide it " + "behind: " + Fixed(one.seconds, 3) +
                            " s for " + Fixed(static_cast<double>(one.bytes_per_rank) / 1e9, 2) +
                            " GB per rank, at the bandwidths measured here");
  }
}

void JudgeFinite(TrainingContext& context) {
  std::vector<std::string> wrong;
  std::int64_t steps = 0;
  for (std::size_t rank = 0; rank < context.training.by_rank.size(); ++rank) {
    const FsdpTrainingRun* run = context.training.by_rank[rank];
    for (std::size_t i = 0; run != nullptr && i < run->steps.size(); ++i) {
      ++steps;
      if (!run->steps[i].finite) {
        wrong.push_back(RankNames(context.run, {static_cast<int>(rank)}) + ", step " +
                        std::to_string(i + 1));
      }
    }
  }
  const Subject subject = RunSubject(context);
  if (wrong.empty() && context.training.unseen) {
    context.judge.Unseen(kFinite, subject, "the steps of training", *context.training.unseen);
    return;
  }
  Finding& finding = context.judge.Decide(
      kFinite, subject,
      {{"steps that are not finite", Op::kSubset, std::vector<std::string>{}, wrong, "", kSource},
       {"steps of all ranks", Op::kGe, std::int64_t{1}, steps, "", kSource}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = wrong.empty() ? "there were no steps" : NameSome(wrong);
  } else if (finding.verdict == Verdict::kPass) {
    finding.expected = "finite";
    finding.actual = std::to_string(steps) + " steps of all ranks were";
    NoteSpeed(context, finding);
  }
}

void JudgeAgreement(TrainingContext& context) {
  const Subject subject = RunSubject(context);
  std::int64_t different = 0;
  for (const FsdpRunRow* row : {&context.exact, &context.training}) {
    const FsdpTrainingRun* any = row->Any();
    for (const FsdpTrainingRun* run : row->by_rank) {
      for (std::size_t i = 0; run != nullptr && i < run->steps.size(); ++i) {
        const bool same =
            i < any->steps.size() && run->steps[i].gradient_norm == any->steps[i].gradient_norm;
        different += same ? 0 : 1;
      }
      different += run != nullptr && run->hash != any->hash ? 1 : 0;
    }
  }
  for (const FsdpRunRow* row : {&context.exact, &context.training}) {
    if (different == 0 && row->unseen) {
      context.judge.Unseen(kAgree, subject, "training (" + row->name + ")", *row->unseen);
      return;
    }
  }
  Finding& finding = context.judge.Decide(kAgree, subject,
                                          {{"norms and hashes that differ from the first rank's",
                                            Op::kEq, std::int64_t{0}, different, "", kSource}});
  if (finding.verdict == Verdict::kPass) {
    finding.expected = "the same on all ranks";
    finding.actual = "state " + context.training.Any()->hash.substr(0, 16) + " on " +
                     Count(context.training.by_rank.size(), "rank");
  }
}

void JudgeTrainingBytes(TrainingContext& context) {
  const Subject subject = RunSubject(context);
  if (context.run.size == 1) {
    context.judge.NotApplicable(kTrainingBytes, subject, "one rank has nobody to send to");
    return;
  }
  std::int64_t sent = 0;
  std::int64_t expected = 0;
  std::int64_t wrong = 0;
  for (const FsdpRunRow* row : {&context.exact, &context.training}) {
    if (row->unseen) {
      context.judge.Unseen(kTrainingBytes, subject, "all bytes of training (" + row->name + ")",
                           *row->unseen);
      return;
    }
    const FsdpTrainingRun* any = row->Any();
    for (std::size_t i = 0; i < any->steps.size(); ++i) {
      std::int64_t one = 0;
      for (const FsdpTrainingRun* run : row->by_rank) {
        const std::int64_t bytes = i < run->steps.size() ? run->steps[i].sent_bytes : -1;
        if (bytes < 0) {
          context.judge.NotApplicable(kTrainingBytes, subject, "nobody counts what NCCL sends");
          return;
        }
        one += bytes;
      }
      sent += one;
      expected += any->expected_bytes;
      wrong += one == any->expected_bytes ? 0 : 1;
    }
  }
  Finding& finding = context.judge.Decide(
      kTrainingBytes, subject,
      {{"steps that sent another number of bytes", Op::kEq, std::int64_t{0}, wrong, "", kSource},
       {"bytes sent by all ranks", Op::kEq, expected, sent, "bytes", kSource}});
  if (finding.verdict == Verdict::kPass || finding.verdict == Verdict::kFail) {
    finding.expected = std::to_string(expected) + " bytes";
    finding.actual = std::to_string(sent) + " bytes";
  }
}

/// Of the run of whole numbers. One rank has nobody to take a wrong mean with.
FsdpPlanted PlantedOf(const TrainingContext& context) {
  FsdpPlanted all;
  for (const std::string_view name : kControls) {
    all.Add(FsdpControlOf(context.exact.by_rank, name),
            context.run.size > 1 || name != kControls[0], std::string(name));
  }
  return all;
}

void JudgeTrainingVerifier(TrainingContext& context) {
  const Subject subject{"run", "the comparison"};
  const FsdpPlanted all = PlantedOf(context);
  if (all.missed.empty() && context.exact.unseen) {
    context.judge.Unseen(kTrainingVerifier, subject, "what is planted", *context.exact.unseen);
    return;
  }
  Finding* finding = JudgeFsdpPlanted(kTrainingVerifier, subject, all, kSource, context.judge);
  if (finding != nullptr && finding->verdict == Verdict::kPass) {
    finding->actual = Count(static_cast<std::size_t>(all.planted), "kind") + " of faults were";
  }
}

std::vector<Finding> JudgeFsdpTraining(const Observations& observations, const Policy& policy) {
  Judge judge(kFsdpTraining, policy);
  const FsdpPolicy& fsdp = policy.fsdp;
  if (JudgeWithoutFsdp(observations, policy, kUnsharded, "what training over shards comes to",
                       fsdp.training.measure == "no"
                           ? "the policy asks for no training (fsdp.training.measure: no)"
                           : "",
                       judge)) {
    return judge.Take();
  }
  const RankRun& run = observations.fsdp_ranks.value();
  const auto results = ResultsOf(run, &RankObservations::fsdp_training);
  TrainingContext context{run, results, FsdpRunRowOf(results, "exact", fsdp.training),
                          FsdpRunRowOf(results, "training", fsdp.training), std::move(judge)};
  JudgeComparisons(context, kExact, context.exact);
  JudgeComparisons(context, kUnsharded, context.training);
  JudgeFinite(context);
  JudgeAgreement(context);
  JudgeTrainingBytes(context);
  JudgeTrainingVerifier(context);
  std::vector<Finding> findings = context.judge.Take();
  NotePlantedFaults(run, findings);
  return findings;
}

}  // namespace

constinit const Check kFsdpTraining{
    "fsdp-training",
    Stage::kFsdp,
    false,
    "a Qwen2 decoder, sharded by FSDP2, trains to the numbers of the unsharded model",
    "parameters, moments, losses and norms against the whole model; whole numbers bit for bit; "
    "bytes "
    "against formulas; planted faults that must be found",
    kRules,
    JudgeFsdpTraining,
};

}  // namespace dlc
