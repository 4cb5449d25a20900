#include "checks/check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string>

namespace dlc {
namespace {

std::string Text(std::string_view view) {
  return std::string(view);
}

TEST_CASE("catalogue: every check and rule is identified and documented") {
  const std::regex kebab("[a-z][a-z0-9]*(-[a-z0-9]+)*");
  std::set<std::string> ids;
  for (const Check* check : AllChecks()) {
    CAPTURE(Text(check->id));
    CHECK(std::regex_match(Text(check->id), kebab));
    CHECK(ids.insert(Text(check->id)).second);
    CHECK_FALSE(check->title.empty());
    CHECK_FALSE(check->compares.empty());
    CHECK_FALSE(check->rules.empty());
    for (const Rule& rule : check->rules) {
      CAPTURE(Text(rule.id));
      CHECK(ids.insert(Text(rule.id)).second);
      REQUIRE(rule.id.starts_with(Text(check->id) + "/"));
      CHECK(std::regex_match(Text(rule.id.substr(check->id.size() + 1)), kebab));
      CHECK_FALSE(rule.title.empty());
      CHECK_FALSE(rule.establishes.empty());
      CHECK_FALSE(rule.does_not_establish.empty());
      CHECK_FALSE(rule.hint.empty());
      CHECK(FindRule(rule.id) == &rule);
    }
    CHECK(FindCheck(check->id) == check);
  }
  CHECK(FindCheck("no-such-check") == nullptr);
  CHECK(FindRule("coverage/no-such-rule") == nullptr);
}

TEST_CASE("every check: observations never looked at give no pass and no fail") {
  Observations o;
  o.run.stages = {Stage::kImage, Stage::kGpu, Stage::kNccl, Stage::kFsdp, Stage::kCheckpoint};
  for (const Check* check : AllChecks()) {
    if (check->cross_cutting) {
      continue;
    }
    CAPTURE(Text(check->id));
    const auto findings = check->judge(o, {});
    CHECK_FALSE(findings.empty());
    for (const Finding& finding : findings) {
      CAPTURE(finding.rule);
      const bool judged = finding.verdict == Verdict::kPass || finding.verdict == Verdict::kFail;
      CHECK_FALSE(judged);
      CHECK_FALSE(finding.reason.code.empty());
    }
  }
  CHECK(Aggregate(JudgeAll(o, {}), false) == Outcome::kIncomplete);
}

Finding Made(Verdict verdict, Severity severity) {
  Finding finding;
  finding.verdict = verdict;
  finding.severity = severity;
  return finding;
}

TEST_CASE("outcome: worst required finding decides") {
  const Finding pass = Made(Verdict::kPass, Severity::kRequired);
  const Finding fail = Made(Verdict::kFail, Severity::kRequired);
  const Finding unknown = Made(Verdict::kUnknown, Severity::kRequired);
  const Finding not_applicable = Made(Verdict::kNotApplicable, Severity::kRequired);
  struct Row {
    std::vector<Finding> findings;
    bool interrupted;
    Outcome outcome;
  };
  const Row rows[] = {
      {{}, false, Outcome::kIncomplete},
      {{pass}, false, Outcome::kPassed},
      {{pass, not_applicable}, false, Outcome::kPassed},
      {{not_applicable}, false, Outcome::kIncomplete},
      {{pass, unknown}, false, Outcome::kIncomplete},
      {{pass, unknown, fail}, false, Outcome::kFailed},
      {{pass, Made(Verdict::kFail, Severity::kWarn)}, false, Outcome::kPassed},
      {{pass, Made(Verdict::kUnknown, Severity::kWarn)}, false, Outcome::kPassed},
      {{Made(Verdict::kPass, Severity::kWarn)}, false, Outcome::kIncomplete},
      {{pass}, true, Outcome::kIncomplete},
      {{fail}, true, Outcome::kFailed},
  };
  for (const Row& row : rows) {
    CHECK(Aggregate(row.findings, row.interrupted) == row.outcome);
  }
}

TEST_CASE("outcome: a pass about the run itself is no pass about the world") {
  Finding coverage = Made(Verdict::kPass, Severity::kRequired);
  coverage.check = "coverage";
  const std::vector<Finding> alone = {coverage, Made(Verdict::kNotApplicable, Severity::kRequired)};
  CHECK(Aggregate(alone, false) == Outcome::kIncomplete);
  const std::vector<Finding> beside = {coverage, Made(Verdict::kPass, Severity::kRequired)};
  CHECK(Aggregate(beside, false) == Outcome::kPassed);
}

TEST_CASE("severity: the rule's own entry wins over its check's, and off is told") {
  Observations o;
  o.run.stages = {Stage::kFsdp};
  Policy p;
  p.severity["coverage"] = Severity::kWarn;
  CHECK(FindCheck("coverage")->judge(o, p).at(0).severity == Severity::kWarn);
  p.severity["coverage/stage-has-checks"] = Severity::kOff;
  const auto off = FindCheck("coverage")->judge(o, p).at(0);
  CHECK(off.verdict == Verdict::kNotApplicable);
  CHECK(off.reason.code == "switched-off");
}

}  // namespace
}  // namespace dlc
