#include "reports/evidence/consistency.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/evidence/sample_report.h"

namespace dlc {
namespace {

// The schema says much of this too; these hold each function on its own.

Finding With(Verdict verdict, std::vector<Assertion> assertions) {
  Finding finding;
  finding.rule = "sample/rule";
  finding.verdict = verdict;
  finding.assertions = std::move(assertions);
  return finding;
}

const Assertion kHolding{"n", Op::kEq, std::int64_t{1}, std::int64_t{1}, "", "constant"};
const Assertion kBroken{"n", Op::kEq, std::int64_t{1}, std::int64_t{2}, "", "constant"};

TEST_CASE("consistency: a verdict follows from its assertions, or is refused") {
  struct Row {
    Verdict verdict;
    std::vector<Assertion> assertions;
    bool follows;
  };
  const Row rows[] = {{Verdict::kPass, {kHolding, kHolding}, true},
                      {Verdict::kPass, {kHolding, kBroken}, false},
                      {Verdict::kPass, {}, false},
                      {Verdict::kFail, {kHolding, kBroken}, true},
                      {Verdict::kFail, {kHolding}, false},
                      {Verdict::kFail, {}, false},
                      {Verdict::kUnknown, {}, true},
                      {Verdict::kUnknown, {kHolding}, false},
                      {Verdict::kNotApplicable, {}, true},
                      {Verdict::kNotApplicable, {kBroken}, false}};
  for (const Row& row : rows) {
    CAPTURE(VerdictName(row.verdict));
    CAPTURE(row.assertions.size());
    CHECK(consistency::CheckVerdicts({With(row.verdict, row.assertions)}).has_value() ==
          row.follows);
  }
}

TEST_CASE(
    "consistency: the outcome is what the findings make it, and never passed when interrupted") {
  EvidenceContents contents;
  contents.findings = {With(Verdict::kPass, {kHolding})};
  contents.outcome = Outcome::kPassed;
  CHECK(consistency::CheckOutcome(contents).has_value());
  contents.observations.run.interrupted = true;
  CHECK_FALSE(consistency::CheckOutcome(contents).has_value());
  contents.outcome = Outcome::kIncomplete;
  CHECK(consistency::CheckOutcome(contents).has_value());
  contents.findings.clear();
  contents.observations.run.interrupted = false;
  CHECK(consistency::CheckOutcome(contents).has_value());
  contents.outcome = Outcome::kPassed;
  CHECK_FALSE(consistency::CheckOutcome(contents).has_value());
}

}  // namespace
}  // namespace dlc
