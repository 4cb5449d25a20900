#include "reports/report.h"

#include <doctest/doctest.h>

#include "reports/render.h"
#include "reports/summary.h"
#include "tests/reports/sample_reports.h"

namespace dlc {
namespace {

Finding Of(Verdict verdict, Severity severity) {
  Finding finding;
  finding.verdict = verdict;
  finding.severity = severity;
  return finding;
}

TEST_CASE("a failure or unknown that is not required is a warning, and never a pass") {
  CHECK(StandingOf(Of(Verdict::kPass, Severity::kRequired)) == Standing::kPassed);
  CHECK(StandingOf(Of(Verdict::kPass, Severity::kWarn)) == Standing::kPassed);
  CHECK(StandingOf(Of(Verdict::kFail, Severity::kRequired)) == Standing::kFailed);
  CHECK(StandingOf(Of(Verdict::kFail, Severity::kWarn)) == Standing::kWarned);
  CHECK(StandingOf(Of(Verdict::kFail, Severity::kOff)) == Standing::kWarned);
  CHECK(StandingOf(Of(Verdict::kUnknown, Severity::kRequired)) == Standing::kUnknown);
  CHECK(StandingOf(Of(Verdict::kUnknown, Severity::kWarn)) == Standing::kWarned);
  CHECK(StandingOf(Of(Verdict::kNotApplicable, Severity::kOff)) == Standing::kNotApplicable);
}

TEST_CASE("every finding is counted once") {
  const auto findings = WorstFirst().findings;
  const FindingCounts counts = CountFindings(findings);
  CHECK(counts == FindingCounts{3, 9, 2, 2, 2});
  CHECK(counts.passed + counts.failed + counts.unknown + counts.warned + counts.not_applicable ==
        static_cast<int>(findings.size()));
}

TEST_CASE("MakeReport judges and keeps what was given") {
  Observations observations;
  observations.run.id = "0123456789abcdef";
  Policy policy;
  policy.name = "production";
  const Report report = MakeReport(observations, policy, {"file", "p.yaml", "text"});
  CHECK(report.findings == JudgeAll(observations, policy));
  CHECK(report.outcome == Aggregate(report.findings, false));
  CHECK(report.observations == observations);
  CHECK(report.policy_name == "production");
  CHECK(report.policy_source.text == "text");
  CHECK(report.signature == "unsigned");
}

TEST_CASE("MakeReport of a run that looked at nothing or was interrupted is not PASSED") {
  CHECK(MakeReport({}, {}, {}).outcome == Outcome::kIncomplete);
  Observations interrupted;
  interrupted.run.stages = {Stage::kImage};
  interrupted.run.interrupted = true;
  CHECK(MakeReport(interrupted, {}, {}).outcome != Outcome::kPassed);
}

TEST_CASE("why a run did not pass names the first finding to blame") {
  CHECK(WhyNotPassedLine(AllPass()).empty());
  CHECK(WhyNotPassedLine(WorstFirst()) ==
        "9 required findings failed, the first is image-digest/pod-runs-policy-digest on pod "
        "worker-0");
  CHECK(WhyNotPassedLine(NothingJudged()) == "nothing was judged");
  CHECK(WhyNotPassedLine(Interrupted()) == "the run was interrupted");
  Report report = Interrupted();
  report.findings.push_back(SampleUnknown("a/b", {"node", "n"}));
  CHECK(WhyNotPassedLine(report) ==
        "the run was interrupted; 1 required finding is unknown, the first is a/b on node n");
  report = NothingJudged();
  report.findings = {SamplePass("a/b", {"run", ""})};
  report.findings[0].severity = Severity::kWarn;
  CHECK(WhyNotPassedLine(report) == "no required check of the world passed");
}

TEST_CASE("findings that differ in more than the subject's name are not grouped") {
  const Finding base = SampleFail("a/b", {"pod", "one"});
  const auto groups_with = [&](auto change) {
    Finding other = base;
    other.subject.name = "two";
    change(other);
    return GroupFindings({base, other}, Standing::kFailed).size();
  };
  CHECK(groups_with([](Finding&) {}) == 1);
  CHECK(groups_with([](Finding& f) { f.rule = "a/c"; }) == 2);
  CHECK(groups_with([](Finding& f) { f.subject.kind = "node"; }) == 2);
  CHECK(groups_with([](Finding& f) { f.expected += "x"; }) == 2);
  CHECK(groups_with([](Finding& f) { f.actual += "x"; }) == 2);
  CHECK(groups_with([](Finding& f) { f.reason.code = "timeout"; }) == 2);
  CHECK(groups_with([](Finding& f) { f.reason.blocked_by = "x"; }) == 2);
  CHECK(groups_with([](Finding& f) { f.hint = "x"; }) == 2);
  CHECK(groups_with([](Finding& f) { f.notes = {"x"}; }) == 2);
}

TEST_CASE("what is not established is told once, the bounds of passes first") {
  Finding fail = SampleFail("a/b", {"pod", "one"});
  fail.does_not_establish = {"of the failure", "of both"};
  Finding pass = SamplePass("a/b", {"pod", "two"});
  pass.does_not_establish = {"of both", "of the pass", ""};
  CHECK(NotEstablished({fail, pass, pass}) ==
        std::vector<std::string>{"of both", "of the pass", "of the failure"});
}

TEST_CASE("only a full RFC 3339 time in UTC is a time") {
  CHECK(UnixSeconds("1970-01-01T00:00:00Z") == 0);
  CHECK(UnixSeconds("2026-01-02T03:04:05Z") == 1767323045);
  CHECK(UnixSeconds("2024-02-29T23:59:59Z") == 1709251199);
  for (const char* bad :
       {"", "2026-01-02T03:04:05", "2026-01-02 03:04:05Z", "2026-02-29T00:00:00Z",
        "2026-13-02T03:04:05Z", "2026-01-02T24:04:05Z", "2026-01-02T03:60:05Z",
        "2026-01-02T03:04:05+00:00", "2026-01-02T03:04:0xZ", "2026-01-02T03:04:-5Z"}) {
    CAPTURE(bad);
    CHECK_FALSE(UnixSeconds(bad).has_value());
  }
  RunFacts run;
  run.started_at = "2026-01-02T03:04:05Z";
  CHECK_FALSE(RunSeconds(run).has_value());
  run.finished_at = "2026-01-02T03:05:05Z";
  CHECK(RunSeconds(run) == 60);
  run.finished_at = "2026-01-02T03:04:04Z";
  CHECK_FALSE(RunSeconds(run).has_value());
}

TEST_CASE("each format has one renderer, found by its name") {
  CHECK(AllRenderers().size() == 5);
  for (const Renderer& renderer : AllRenderers()) {
    CAPTURE(renderer.format);
    CHECK(FindRenderer(renderer.format) == &renderer);
    CHECK_FALSE(renderer.render(AllPass(), {}).empty());
  }
  CHECK(FindRenderer("html") == nullptr);
  CHECK(FindRenderer("") == nullptr);
}

}  // namespace
}  // namespace dlc
