#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "checks/check.h"
#include "checks/fsdp_proofs.h"
#include "checks/fsdp_ranks.h"
#include "checks/wording.h"

namespace dlc {

extern const Check kFsdpLayout;  // the table in check_list.cpp finds it by this name

namespace {

constexpr std::string_view kElements = "fsdp-layout/right-elements";
constexpr std::string_view kBytes = "fsdp-layout/sent-bytes";
constexpr std::string_view kVerifier = "fsdp-layout/verifier";

constexpr std::string_view kNotTheFramework =
    "the framework's own code, which cuts and moves its tensors itself; nor GPU memory and NCCL: "
    "the shards are in host memory and go by libfabric";

constexpr Rule kRules[] = {
    {kElements, Severity::kRequired, false,
     "shards that are gathered, and gradients that are scattered, are each at their place",
     "every gathered element that was moved was compared, on each rank, with what its parameter, "
     "row and column say; each owner's sums of gradients likewise, and what fills the shards",
     kNotTheFramework,
     "look at the rank whose shard it is, then at those where it was wrong: nodes, links, memory"},
    {kBytes, Severity::kRequired, false, "collectives send as many bytes as their formulas say",
     "the payload of all ranks' messages is the ring's: (n - 1) / n of what is gathered or "
     "reduced, per rank",
     "which link carried them, nor headers and repetitions below libfabric",
     "compare the observation's sentBytes of each rank; it is a bug of this tool if all differ"},
    {kVerifier, Severity::kRequired, false, "the comparison finds damage that is planted",
     "shards in each other's place, a stale shard, one flipped bit and a dropped rank were each "
     "put into what had arrived right, in this run, and found",
     "that it would find every other damage", "report it: this build's findings cannot be trusted",
     true},
};

constexpr std::array<std::string_view, 4> kControls = {"swapped-shards", "stale-shard",
                                                       "flipped-bit", "dropped-rank"};
constexpr const char* kSource = "observation:fsdp_ranks.fsdp_layout";

struct Context {
  const RankRun& run;
  std::vector<FsdpProofRow> rows;  ///< of the policy's models and layouts
  Judge judge;
};

const FsdpProofRow* FirstUnseen(const std::vector<const FsdpProofRow*>& rows) {
  const auto it =
      std::find_if(rows.begin(), rows.end(), [](const FsdpProofRow* row) { return !row->Seen(); });
  return it == rows.end() ? nullptr : *it;
}

std::vector<const FsdpProofRow*> RowsOf(const Context& context, const std::string& layout) {
  std::vector<const FsdpProofRow*> some;
  for (const FsdpProofRow& row : context.rows) {
    if (layout.empty() || row.layout == layout) {
      some.push_back(&row);
    }
  }
  return some;
}

std::string OfRow(const FsdpProofRow& row) {
  return row.model + " cut as " + row.layout;
}

/// A wrong element is wrong, however early the run ended; right ones are only all if it ended well.
void JudgeElements(Context& context, const std::string& layout) {
  const auto rows = RowsOf(context, layout);
  const Subject subject{"run", "layout " + layout};
  std::int64_t wrong = 0;
  std::int64_t fewest = -1;
  std::string wrong_text;
  std::string moved;
  for (const FsdpProofRow* row : rows) {
    wrong += row->Wrong();
    fewest = fewest < 0 ? row->Compared() : std::min(fewest, row->Compared());
    wrong_text = wrong_text.empty() ? FsdpWrongText(context.run, *row) : wrong_text;
    moved += (moved.empty() ? "" : "; ") + FsdpMovedText(*row);
  }
  if (const FsdpProofRow* unseen = FirstUnseen(rows); wrong == 0 && unseen != nullptr) {
    context.judge.Unseen(kElements, subject, OfRow(*unseen), *unseen->unseen);
    return;
  }
  Finding& finding =
      context.judge.Decide(kElements, subject,
                           {{"wrong elements", Op::kEq, std::int64_t{0}, wrong, "", kSource},
                            {"fewest elements compared on a rank", Op::kGe, std::int64_t{1},
                             wrong > 0 ? std::max<std::int64_t>(fewest, 1) : fewest, "", kSource}});
  if (finding.verdict == Verdict::kNotApplicable) {
    return;
  }
  finding.expected = "every element at its place";
  if (wrong > 0) {
    finding.actual = finding.reason.message = wrong_text;
  } else if (finding.verdict == Verdict::kPass) {
    finding.actual = moved;
  }
  if (context.run.size == 1) {
    finding.notes.emplace_back("one rank: its shard is the whole, and nothing went anywhere");
  }
}

/// "a training step of qwen2.5-1.5b cut as fsdp2 sends 6.60 GB per rank ...".
void NoteSteps(const Context& context, Finding& finding) {
  for (const FsdpProofRow& row : context.rows) {
    const FsdpLayoutProof* proof = row.Any();
    if (proof != nullptr && proof->model_elements > 1'000'000) {
      finding.notes.push_back("a training step of " + OfRow(row) + " sends " +
                              Fixed(static_cast<double>(proof->step_bytes_bfloat16) / 1e9, 2) +
                              " GB per rank with bfloat16 gradients, " +
                              Fixed(static_cast<double>(proof->step_bytes_float32) / 1e9, 2) +
                              " GB with float32");
    }
  }
}

/// Bytes of all layouts, and those that sent others than their formulas say.
struct BytesSeen {
  std::int64_t sent = 0;
  std::int64_t expected = 0;
  std::vector<std::string> different;
};

BytesSeen BytesOf(const std::vector<const FsdpProofRow*>& rows) {
  BytesSeen seen;
  for (const FsdpProofRow* row : rows) {
    const std::int64_t formula = row->Any()->expected_bytes;
    seen.sent += row->SentBytes();
    seen.expected += formula;
    if (row->SentBytes() != formula) {
      seen.different.push_back(OfRow(*row) + ": " + std::to_string(row->SentBytes()) +
                               " bytes, by the formulas " + std::to_string(formula));
    }
  }
  return seen;
}

void JudgeBytes(Context& context) {
  const Subject subject{"run", "all layouts"};
  if (context.run.size == 1) {
    context.judge.NotApplicable(kBytes, subject, "one rank has nobody to send to");
    return;
  }
  const auto rows = RowsOf(context, "");
  if (const FsdpProofRow* unseen = FirstUnseen(rows)) {
    context.judge.Unseen(kBytes, subject, "all bytes of " + OfRow(*unseen), *unseen->unseen);
    return;
  }
  const BytesSeen seen = BytesOf(rows);
  Finding& finding = context.judge.Decide(
      kBytes, subject,
      {{"layouts that sent another number of bytes", Op::kSubset, std::vector<std::string>{},
        seen.different, "", kSource},
       {"bytes sent by all ranks", Op::kEq, seen.expected, seen.sent, "bytes", kSource}});
  if (finding.verdict == Verdict::kNotApplicable) {
    return;
  }
  finding.expected = std::to_string(seen.expected) + " bytes";
  finding.actual = std::to_string(seen.sent) + " bytes";
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = NameSome(seen.different);
  }
  NoteSteps(context, finding);
}

FsdpPlanted PlantedOf(const std::vector<FsdpProofRow>& rows) {
  FsdpPlanted all;
  for (const FsdpProofRow& row : rows) {
    const FsdpLayoutProof* any = row.Any();
    for (const std::string_view name : kControls) {
      const bool possible = any != nullptr && (any->shard_ranks > 1 || name != kControls[0]);
      all.Add(FsdpControlOf(row.by_rank, name), possible, std::string(name) + " in " + OfRow(row));
    }
  }
  return all;
}

void JudgeVerifier(Context& context) {
  const Subject subject{"run", "the comparison"};
  const FsdpPlanted all = PlantedOf(context.rows);
  if (const FsdpProofRow* unseen = FirstUnseen(RowsOf(context, ""));
      all.missed.empty() && unseen != nullptr) {
    context.judge.Unseen(kVerifier, subject, "what is planted in " + OfRow(*unseen),
                         *unseen->unseen);
    return;
  }
  Finding* finding = JudgeFsdpPlanted(kVerifier, subject, all, kSource, context.judge);
  if (finding != nullptr && finding->verdict == Verdict::kPass) {
    finding->actual = std::to_string(all.planted) + " pieces of damage in " +
                      Count(context.rows.size(), "cut model") + " were";
  }
}

std::vector<Finding> JudgeFsdpLayout(const Observations& observations, const Policy& policy) {
  Judge judge(kFsdpLayout, policy);
  if (JudgeWithoutFsdp(observations, policy, kElements, "what the ranks do with sharded models", "",
                       judge)) {
    return judge.Take();
  }
  const FsdpPolicy& fsdp = policy.fsdp;
  const RankRun& run = observations.fsdp_ranks.value();
  const auto results = ResultsOf(run, &RankObservations::fsdp_layout);
  Context context{run, {}, std::move(judge)};
  for (const std::string& layout : fsdp.layouts) {
    for (const std::string& model : fsdp.models) {
      context.rows.push_back(FsdpProofRowOf(results, model, layout));
    }
  }
  for (const std::string& layout : fsdp.layouts) {
    JudgeElements(context, layout);
  }
  JudgeBytes(context);
  JudgeVerifier(context);
  std::vector<Finding> findings = context.judge.Take();
  NotePlantedFaults(run, findings);
  return findings;
}

}  // namespace

constinit const Check kFsdpLayout{
    "fsdp-layout",
    Stage::kFsdp,
    false,
    "sharded models are gathered and reduced to the bit: FSDP2, HSDP, FSDP1 and ZeRO-3",
    "position-encoded integers through shards, all-gather and reduce-scatter, for real and for "
    "awkward shapes; bytes against formulas; planted damage that must be found",
    kRules,
    JudgeFsdpLayout,
};

}  // namespace dlc
