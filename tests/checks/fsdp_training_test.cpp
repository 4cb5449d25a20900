#include <doctest/doctest.h>

#include <string>

#include "checks/check.h"
#include "tests/checks/fsdp_run.h"
#include "tests/checks/rank_run.h"

namespace dlc {
namespace {

using testing::FsdpRankAt;
using testing::GoodFsdp;
using testing::One;

constexpr const char* kExact = "fsdp-training/whole-numbers";
constexpr const char* kUnsharded = "fsdp-training/unsharded-model";
constexpr const char* kFinite = "fsdp-training/finite";
constexpr const char* kAgree = "fsdp-training/ranks-agree";
constexpr const char* kBytes = "fsdp-training/sent-bytes";
constexpr const char* kVerifier = "fsdp-training/verifier";

std::vector<Finding> Trained(const Observations& o, const Policy& p = {}) {
  return FindCheck("fsdp-training")->judge(o, p);
}

FsdpTrainingRun GoodTraining(const std::string& name, int ranks) {
  FsdpTrainingRun run;
  run.name = name;
  run.model = "qwen2-tiny";
  run.ranks = ranks;
  run.rows = 2;
  run.sequence = 64;
  run.micro_batches = 2;
  run.hash = "0123456789abcdef0123456789abcdef0123456789abcdef";
  run.expected_bytes = ranks > 1 ? 100 * ranks : 0;
  run.steps = {{6.25, 2.5, true, 1.0, 0.25, 0.125, ranks > 1 ? 100 : 0},
               {6.0, 2.25, true, 0.5, 0.125, 0.0625, ranks > 1 ? 100 : 0},
               {5.75, 2.0, true, 0.5, 0.125, 0.0625, ranks > 1 ? 100 : 0}};
  run.own = {{"padding", "", 240, 0, 0, 0, 0}, {"gathered", "", 1000, 0, 0, 0, 0}};
  const bool exact = name == "exact";
  const double bound = exact ? 0 : 1e-3;
  std::vector<FsdpComparison> reference = {
      {"first-moments", "model.norm.weight", 500, exact ? 0 : 7, 0, bound, bound}};
  run.reference = std::move(reference);
  if (exact) {
    for (const char* control : {"wrong-average", "skipped-shard", "dropped-micro-batch",
                                "flipped-bit", "padding-leak", "stale-gather"}) {
      const bool can = ranks > 1 || std::string(control) != "wrong-average";
      run.controls.push_back({control, can, can});
    }
  }
  return run;
}

Observations GoodTrainings(int ranks) {
  Observations o = GoodFsdp(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    FsdpTrainingExperiment seen;
    seen.backend = "cpu";
    seen.runs = {GoodTraining("exact", ranks), GoodTraining("training", ranks)};
    seen.predictions = {{"qwen2.5-1.5b", 8'912'222'976, 1.5}};
    const ExperimentEnd finished{"finished", 0, 0, "", false, false, "", 1};
    FsdpRankAt(o, rank).fsdp_training = {{"fsdp-training", finished, seen}};
  }
  return o;
}

FsdpTrainingExperiment& TrainingAt(Observations& o, int rank) {
  return FsdpRankAt(o, rank).fsdp_training[0].seen.value();
}

FsdpTrainingRun& ExactAt(Observations& o, int rank) {
  return TrainingAt(o, rank).runs[0];
}

FsdpTrainingRun& RunAt(Observations& o, int rank) {
  return TrainingAt(o, rank).runs[1];
}

TEST_CASE("fsdp-training: all that is right passes, at the bound too") {
  const auto findings = Trained(GoodTrainings(3));
  CHECK(findings.size() == 6);
  for (const Finding& finding : findings) {
    CAPTURE(finding.rule);
    CAPTURE(finding.reason.message);
    CHECK(finding.verdict == Verdict::kPass);
  }
  CHECK(One(findings, kUnsharded).actual == "5220 numbers compared on 3 ranks, trained on cpu");
  const auto notes = One(findings, kFinite).notes;
  REQUIRE(notes.size() == 2);
  CHECK(notes[0] ==
        "step of 0.5 s: 0.312 s computing, 0.125 s waiting for communication, 0.0625 s optimizer; "
        "1536 tokens/s over 3 ranks");
  CHECK(notes[1] ==
        "communication of a step of qwen2.5-1.5b, with nothing to hide it behind: 1.500 s for 8.91 "
        "GB per rank, at the bandwidths measured here");
}

TEST_CASE("fsdp-training: what was trained on the CPU says nothing about GPUs") {
  Observations o = GoodTrainings(2);
  TrainingAt(o, 0).backend = "cuda";
  Policy policy;
  policy.fsdp.training.backend = "cuda";
  for (const char* rule : {kExact, kUnsharded}) {
    const Finding finding = One(Trained(o, policy), rule);
    CHECK(finding.verdict == Verdict::kUnknown);
    CHECK(finding.reason.message.find("asks for cuda (fsdp.training.backend); rank 1") !=
          std::string::npos);
    CHECK(finding.reason.message.find("trained on cpu") != std::string::npos);
  }
  for (const Finding& finding : Trained(o, policy)) {
    CAPTURE(finding.rule);
    CHECK(finding.verdict == Verdict::kUnknown);
  }
  TrainingAt(o, 1).backend = "cuda";
  CHECK(One(Trained(o, policy), kUnsharded).verdict == Verdict::kPass);
  CHECK(One(Trained(o), kUnsharded).verdict == Verdict::kUnknown);
  TrainingAt(o, 1).runs[0].reference.value()[0].error = 1;
  CHECK(One(Trained(o), kExact).verdict == Verdict::kFail);
}

TEST_CASE("fsdp-training: fewer steps or tokens than the policy asks for are not what it asks") {
  const auto unknown = [](const Policy& policy, const std::string& reason) {
    const auto findings = Trained(GoodTrainings(2), policy);
    CAPTURE(reason);
    for (const std::string rule : {kUnsharded, kFinite, kAgree, kBytes}) {
      CAPTURE(rule);
      CHECK(One(findings, rule).verdict == Verdict::kUnknown);
    }
    CHECK(One(findings, kUnsharded).reason.message.find(reason) != std::string::npos);
  };
  Policy policy;
  policy.fsdp.training.steps = 4;
  unknown(policy, "asks for 4 steps of 2 x 2 x 64 tokens (fsdp.training); rank 0");
  CHECK(One(Trained(GoodTrainings(2), policy), kExact).verdict == Verdict::kPass);
  policy.fsdp.training.steps = 3;
  policy.fsdp.training.rows = 3;
  unknown(policy, "trained 3 steps of 2 x 2 x 64 tokens");
  policy.fsdp.training.rows = 2;
  policy.fsdp.training.sequence = 65;
  unknown(policy, "2 x 2 x 65 tokens");
  policy.fsdp.training.sequence = 64;
  policy.fsdp.training.micro_batches = 3;
  unknown(policy, "3 x 2 x 64 tokens");
  policy.fsdp.training.micro_batches = 1;
  policy.fsdp.training.steps = 1;
  CHECK(One(Trained(GoodTrainings(2), policy), kUnsharded).verdict == Verdict::kPass);
}

TEST_CASE("fsdp-training: a reference that holds no comparison is no pass") {
  Observations o = GoodTrainings(2);
  RunAt(o, 1).reference.value().clear();
  CHECK(One(Trained(o), kUnsharded).verdict == Verdict::kUnknown);
}

TEST_CASE("fsdp-training: one rank sends nothing") {
  const auto findings = Trained(GoodTrainings(1));
  CHECK(One(findings, kBytes).verdict == Verdict::kNotApplicable);
  CHECK(One(findings, kVerifier).verdict == Verdict::kPass);
  CHECK(One(findings, kExact).notes.at(0) ==
        "one rank: its shard is the whole, and nothing went anywhere");
}

TEST_CASE("fsdp-training: just beyond a bound fails, and names rank, parameter and what") {
  Observations o = GoodTrainings(2);
  RunAt(o, 1).reference.value()[0].error = 1.01e-3;
  const auto findings = Trained(o);
  CHECK(One(findings, kUnsharded).verdict == Verdict::kFail);
  CHECK(One(findings, kUnsharded).reason.message ==
        "rank 1 on pod-1: first-moments of model.norm.weight are off by 0.00101, allowed 0.001");
  CHECK(One(findings, kExact).verdict == Verdict::kPass);
}

TEST_CASE("fsdp-training: one other bit of whole numbers fails") {
  Observations o = GoodTrainings(2);
  FsdpComparison& one = ExactAt(o, 0).reference.value()[0];
  one.different = 1;
  one.error = 1;
  CHECK(One(Trained(o), kExact).reason.message ==
        "rank 0 on pod-0: 1 of 500 first-moments of model.norm.weight are other bits");
  ExactAt(o, 0).explanation = "wrong-average: the sums were not divided by the number of ranks";
  CHECK(One(Trained(o), kExact).verdict == Verdict::kFail);
  CHECK(One(Trained(o), kExact).reason.message ==
        "rank 0 on pod-0: wrong-average: the sums were not divided by the number of ranks");
}

TEST_CASE("fsdp-training: padding that is not 0, and a stale gather") {
  Observations o = GoodTrainings(2);
  ExactAt(o, 1).own[0].different = 2;
  ExactAt(o, 1).own[0].error = 2;
  CHECK(One(Trained(o), kExact).reason.message ==
        "rank 1 on pod-1: padding-leak: 2 elements that fill the shards are not 0");
  o = GoodTrainings(2);
  RunAt(o, 0).own[1] = {"gathered", "model.norm.weight", 1000, 60, 0, 60, 0};
  CHECK(One(Trained(o), kUnsharded).reason.message ==
        "rank 0 on pod-0: stale-gather: what was gathered of model.norm.weight is not what its "
        "owners have");
}

TEST_CASE("fsdp-training: what is not finite fails, whatever the error says") {
  Observations o = GoodTrainings(2);
  RunAt(o, 1).steps[1].finite = false;
  RunAt(o, 1).reference.value()[0].not_finite = 3;
  const auto findings = Trained(o);
  CHECK(One(findings, kFinite).verdict == Verdict::kFail);
  CHECK(One(findings, kFinite).reason.message == "rank 1 on pod-1, step 2");
  CHECK(One(findings, kUnsharded).verdict == Verdict::kFail);
}

TEST_CASE("fsdp-training: another norm or state on one rank fails") {
  Observations o = GoodTrainings(3);
  RunAt(o, 2).steps[0].gradient_norm += 1e-9;
  CHECK(One(Trained(o), kAgree).verdict == Verdict::kFail);
  o = GoodTrainings(3);
  ExactAt(o, 1).hash[0] = 'f';
  CHECK(One(Trained(o), kAgree).verdict == Verdict::kFail);
}

TEST_CASE("fsdp-training: bytes are all or nothing, and NCCL's are not counted") {
  Observations o = GoodTrainings(2);
  RunAt(o, 0).steps[0].sent_bytes = 101;
  RunAt(o, 0).steps[1].sent_bytes = 99;
  CHECK(One(Trained(o), kBytes).verdict == Verdict::kFail);
  o = GoodTrainings(2);
  RunAt(o, 0).steps[0].sent_bytes = -1;
  CHECK(One(Trained(o), kBytes).verdict == Verdict::kNotApplicable);
}

TEST_CASE("fsdp-training: a control that is missed fails, one that was never planted is no pass") {
  Observations o = GoodTrainings(2);
  ExactAt(o, 1).controls[3].caught = false;
  CHECK(One(Trained(o), kVerifier).verdict == Verdict::kFail);
  CHECK(One(Trained(o), kVerifier).reason.message == "it did not find flipped-bit");
  o = GoodTrainings(2);
  ExactAt(o, 0).controls.clear();
  ExactAt(o, 1).controls.clear();
  CHECK(One(Trained(o), kVerifier).verdict == Verdict::kUnknown);
}

TEST_CASE("fsdp-training: a model that does not fit, and an error, are unknown") {
  Observations o = GoodTrainings(2);
  for (int rank = 0; rank < 2; ++rank) {
    RunAt(o, rank).not_looked_at = "rank 0 needs 30.00 GiB on this rank's device";
  }
  CHECK(One(Trained(o), kUnsharded).verdict == Verdict::kUnknown);
  CHECK(One(Trained(o), kUnsharded).reason.message.find("needs 30.00 GiB") != std::string::npos);
  CHECK(One(Trained(o), kExact).verdict == Verdict::kPass);
  o = GoodTrainings(2);
  RunAt(o, 1).reference = NotLookedAt{"the unsharded model needs 900 MiB", ""};
  CHECK(One(Trained(o), kUnsharded).verdict == Verdict::kUnknown);
  o = GoodTrainings(2);
  TrainingAt(o, 1).runs.pop_back();
  TrainingAt(o, 1).stopped_by = Error{ErrorCode::kTimedOut, "the step did not end", ""};
  for (const char* rule : {kUnsharded, kFinite, kAgree, kBytes}) {
    CAPTURE(rule);
    CHECK(One(Trained(o), rule).verdict == Verdict::kUnknown);
  }
  o = GoodTrainings(2);
  FsdpRankAt(o, 0).fsdp_training[0].seen = Error{ErrorCode::kUnavailable, "no memory", ""};
  CHECK(One(Trained(o), kExact).verdict == Verdict::kUnknown);
}

TEST_CASE("fsdp-training: an error elsewhere hides no difference") {
  Observations o = GoodTrainings(2);
  FsdpRankAt(o, 0).fsdp_training[0].seen = Error{ErrorCode::kUnavailable, "no memory", ""};
  ExactAt(o, 1).reference.value()[0].error = 1;
  CHECK(One(Trained(o), kExact).verdict == Verdict::kFail);
}

TEST_CASE("fsdp-training: another model than the policy's was not looked at") {
  Policy policy;
  policy.fsdp.training.model = "qwen2.5-0.5b";
  CHECK(One(Trained(GoodTrainings(2), policy), kUnsharded).verdict == Verdict::kUnknown);
}

TEST_CASE("fsdp-training: not applicable where nobody asks for it") {
  Policy policy;
  policy.fsdp.training.measure = "no";
  CHECK(One(Trained(GoodTrainings(2), policy), kUnsharded).verdict == Verdict::kNotApplicable);
  Observations o;
  o.fsdp_ranks = NotLookedAt{"the config has no target", ""};
  CHECK(One(Trained(o), kUnsharded).verdict == Verdict::kNotApplicable);
  policy = Policy{};
  policy.fsdp.measure = "required";
  CHECK(One(Trained(o, policy), kUnsharded).verdict == Verdict::kUnknown);
}

}  // namespace
}  // namespace dlc
