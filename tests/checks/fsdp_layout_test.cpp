#include <doctest/doctest.h>

#include <string>

#include "checks/check.h"
#include "tests/checks/fsdp_run.h"
#include "tests/checks/rank_run.h"

namespace dlc {
namespace {

using testing::FsdpAt;
using testing::FsdpRankAt;
using testing::GoodFsdp;
using testing::OfRule;
using testing::One;
using testing::ProofAt;

constexpr const char* kElements = "fsdp-layout/right-elements";
constexpr const char* kBytes = "fsdp-layout/sent-bytes";
constexpr const char* kVerifier = "fsdp-layout/verifier";

std::vector<Finding> Look(const Observations& o, const Policy& p = {}) {
  return FindCheck("fsdp-layout")->judge(o, p);
}

Finding OfLayout(const std::vector<Finding>& findings, const std::string& layout) {
  for (const Finding& finding : OfRule(findings, kElements)) {
    if (finding.subject.name == "layout " + layout) {
      return finding;
    }
  }
  FAIL("no finding of " << layout);
  return {};
}

bool Has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  return text.find(part) != std::string::npos;
}

TEST_CASE("fsdp-layout: all that is right passes, layout by layout") {
  for (const int ranks : {2, 3, 4}) {
    const auto findings = Look(GoodFsdp(ranks));
    CHECK(findings.size() == 7);
    for (const Finding& finding : findings) {
      CAPTURE(finding.rule);
      CAPTURE(finding.reason.message);
      CHECK(finding.verdict == Verdict::kPass);
    }
    CHECK(Has(OfLayout(findings, "fsdp2").actual,
              "qwen2-tiny: 139980 elements, all there are, over " + std::to_string(ranks)));
    CHECK(Has(OfLayout(findings, "fsdp2").actual, "2 of 29 units (1 whole, else around the cuts)"));
  }
  CHECK(Has(OfLayout(Look(GoodFsdp(4)), "hsdp").actual, "over 2 ranks in 2 copies"));
  CHECK(Has(One(Look(GoodFsdp(4)), kBytes).notes.at(0),
            "a training step of qwen2.5-1.5b cut as fsdp2 sends 6.60 GB per rank with bfloat16 "
            "gradients, 8.91 GB with float32"));
}

TEST_CASE("fsdp-layout: one rank moves nothing, and says so") {
  const auto findings = Look(GoodFsdp(1));
  CHECK(OfLayout(findings, "fsdp2").verdict == Verdict::kPass);
  CHECK(Has(OfLayout(findings, "fsdp2").notes.at(0), "nothing went anywhere"));
  CHECK(One(findings, kBytes).verdict == Verdict::kNotApplicable);
  CHECK(One(findings, kVerifier).verdict == Verdict::kPass);
}

TEST_CASE("fsdp-layout: one wrong element fails its layout and names rank and place") {
  Observations o = GoodFsdp(3);
  ProofAt(o, 2, 0).wrong_elements = 1;
  ProofAt(o, 2, 0).first_wrong = FsdpWrongElement{
      "all-gather", 1, "model.layers.0.self_attn.q_proj.weight", 30, 7, 12345, 12344};
  const auto findings = Look(o);
  const Finding wrong = OfLayout(findings, "fsdp2");
  CHECK(wrong.verdict == Verdict::kFail);
  CHECK(wrong.reason.message ==
        "1 wrong elements of qwen2-tiny at rank 2 on pod-2; the first: "
        "model.layers.0.self_attn.q_proj.weight[30, 7] of rank 1 on pod-1, all-gather: expected "
        "12345, found 12344");
  CHECK(OfLayout(findings, "zero3").verdict == Verdict::kPass);
  SUBCASE("also where another rank was lost") {
    o.fsdp_ranks.value().ranks[0].seen = Error{ErrorCode::kUnavailable, "rank 0 was killed", ""};
    CHECK(OfLayout(Look(o), "fsdp2").verdict == Verdict::kFail);
    CHECK(OfLayout(Look(o), "zero3").verdict == Verdict::kUnknown);
  }
  SUBCASE("what fills a shard, and what lies in another shard") {
    ProofAt(o, 2, 0).first_wrong = FsdpWrongElement{"reduce-scatter", 2, "", 99, 0, 0, 5};
    CHECK(Has(OfLayout(Look(o), "fsdp2").reason.message, "what fills the shard, at 99 of rank 2"));
    ProofAt(o, 2, 0).first_wrong = FsdpWrongElement{"layout", 0, "model.norm.weight", 3, 0, 0, 0};
    CHECK(Has(OfLayout(Look(o), "fsdp2").reason.message,
              "model.norm.weight[3, 0] lies in the shard of rank 0 on pod-0"));
  }
}

TEST_CASE("fsdp-layout: nothing compared is no pass") {
  Observations o = GoodFsdp(2);
  ProofAt(o, 1, 4).compared_elements = 1;
  CHECK(OfLayout(Look(o), "zero3").verdict == Verdict::kPass);
  ProofAt(o, 1, 4).compared_elements = 0;
  CHECK(OfLayout(Look(o), "zero3").verdict == Verdict::kFail);
  CHECK(OfLayout(Look(o), "fsdp2").verdict == Verdict::kPass);
}

TEST_CASE("fsdp-layout: what was not seen is unknown") {
  Observations o = GoodFsdp(3);
  SUBCASE("a rank that was lost") {
    o.fsdp_ranks.value().ranks[1].seen = Error{ErrorCode::kUnavailable, "rank 1 was killed", ""};
    for (const Finding& finding : Look(o)) {
      CHECK(finding.verdict == Verdict::kUnknown);
      CHECK(Has(finding.reason.message, "rank 1 was killed"));
    }
  }
  SUBCASE("an experiment that ended early: what came before stands") {
    for (int rank = 0; rank < 3; ++rank) {
      FsdpAt(o, rank).proofs.resize(7);  // of the second model fsdp2 and hsdp
      FsdpAt(o, rank).stopped_by = Error{ErrorCode::kTimedOut, "rank 2 does not answer", ""};
    }
    const auto findings = Look(o);
    CHECK(OfLayout(findings, "fsdp2").verdict == Verdict::kPass);
    CHECK(OfLayout(findings, "fsdp1").verdict == Verdict::kUnknown);
    CHECK(Has(OfLayout(findings, "fsdp1").reason.message, "rank 2 does not answer"));
    CHECK(One(findings, kBytes).verdict == Verdict::kUnknown);
    CHECK(One(findings, kVerifier).verdict == Verdict::kUnknown);
  }
  SUBCASE("a process that did not end well") {
    FsdpRankAt(o, 2).fsdp_layout[0].seen = Error{ErrorCode::kTimedOut, "rank 2: after 60 s", ""};
    CHECK(OfLayout(Look(o), "hsdp").verdict == Verdict::kUnknown);
  }
  SUBCASE("a layout that the ranks were not asked for") {
    for (int rank = 0; rank < 3; ++rank) {
      FsdpAt(o, rank).proofs.resize(9);
    }
    const Finding finding = OfLayout(Look(o), "zero3");
    CHECK(finding.verdict == Verdict::kUnknown);
    CHECK(Has(finding.reason.message, "not asked for"));
  }
}

TEST_CASE("fsdp-layout: one byte more or less than the formulas is a failure") {
  Observations o = GoodFsdp(2);
  ProofAt(o, 0, 1).sent_bytes += 1;
  const Finding more = One(Look(o), kBytes);
  CHECK(more.verdict == Verdict::kFail);
  CHECK(Has(more.reason.message, "qwen2-tiny cut as hsdp: 2001 bytes, by the formulas 2000"));
  // As many bytes in all, but not in each.
  ProofAt(o, 0, 0).sent_bytes -= 1;
  CHECK(One(Look(o), kBytes).verdict == Verdict::kFail);
  ProofAt(o, 1, 1).sent_bytes -= 1;
  ProofAt(o, 1, 0).sent_bytes += 1;
  CHECK(One(Look(o), kBytes).verdict == Verdict::kPass);
}

TEST_CASE(
    "fsdp-layout: a comparison that misses what was planted fails, whatever the policy says") {
  for (std::size_t control = 0; control < 4; ++control) {
    Observations o = GoodFsdp(2);
    ProofAt(o, 1, 3).controls[control].caught = false;
    Policy p;
    p.severity["fsdp-layout"] = Severity::kOff;
    p.severity[kVerifier] = Severity::kOff;
    const Finding missed = One(Look(o, p), kVerifier);
    CHECK(missed.verdict == Verdict::kFail);
    CHECK(missed.severity == Severity::kRequired);
    CHECK(Has(missed.reason.message,
              ProofAt(o, 1, 3).controls[control].name + " in qwen2-tiny cut as fsdp1-aligned"));
  }
}

TEST_CASE("fsdp-layout: damage that nobody planted was not found") {
  Observations o = GoodFsdp(2);
  ProofAt(o, 0, 2).controls[3] = {"dropped-rank", false, false};
  // A rank whose shard holds nothing has no place for it.
  CHECK(One(Look(o), kVerifier).verdict == Verdict::kPass);
  ProofAt(o, 1, 2).controls[3] = {"dropped-rank", false, false};
  const Finding finding = One(Look(o), kVerifier);
  CHECK(finding.verdict == Verdict::kUnknown);
  CHECK(Has(finding.reason.message, "dropped-rank in qwen2-tiny cut as fsdp1"));
  ProofAt(o, 0, 2).controls.clear();
  ProofAt(o, 1, 2).controls.clear();
  CHECK(One(Look(o), kVerifier).verdict == Verdict::kUnknown);
}

TEST_CASE("fsdp-layout: the policy may ask for less, for none, or demand that ranks ran") {
  Observations none;
  none.fsdp_ranks = NotLookedAt{"the config has no target", ""};
  CHECK(One(Look(none), kElements).verdict == Verdict::kNotApplicable);
  Policy p;
  p.fsdp.measure = "required";
  CHECK(One(Look(none, p), kElements).verdict == Verdict::kUnknown);
  none.fsdp_ranks = Error{ErrorCode::kNotFound, "no dlc-probe", ""};
  CHECK(One(Look(none), kElements).verdict == Verdict::kUnknown);
  none.fsdp_ranks = NotLookedAt{"", "image-digest/x (pod y)"};
  CHECK(One(Look(none), kElements).verdict == Verdict::kUnknown);
  none.fsdp_ranks = RankRun{};
  CHECK(One(Look(none), kElements).verdict == Verdict::kUnknown);
  p.fsdp.measure = "no";
  CHECK(One(Look(GoodFsdp(2), p), kElements).verdict == Verdict::kNotApplicable);
  p.fsdp.measure = "with-ranks";
  p.fsdp.layouts = {"zero3"};
  p.fsdp.models = {"qwen2-tiny"};
  Observations some = GoodFsdp(2, p.fsdp);
  const auto findings = Look(some, p);
  CHECK(findings.size() == 3);
  CHECK(OfLayout(findings, "zero3").verdict == Verdict::kPass);
}

TEST_CASE("fsdp-layout: a run with planted faults says so in every finding") {
  Observations o = GoodFsdp(2);
  o.fsdp_ranks.value().planted_faults = {{1, "fsdp-layout", "flip-bit", ""}};
  for (const Finding& finding : Look(o)) {
    REQUIRE_FALSE(finding.notes.empty());
    CHECK(Has(finding.notes.back(), "flip-bit in rank 1"));
  }
}

}  // namespace
}  // namespace dlc
