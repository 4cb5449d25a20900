#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reports/json_writer.h"
#include "reports/plain_text.h"
#include "reports/render.h"
#include "reports/summary.h"

namespace dlc {
namespace {

const char* StatusName(Standing standing) {
  switch (standing) {
    case Standing::kPassed:
      return "passed";
    case Standing::kFailed:
      return "failed";
    case Standing::kNotApplicable:
      return "skipped";
    case Standing::kUnknown:
    case Standing::kWarned:
      break;
  }
  return "other";
}

void WriteFindingTest(JsonWriter& out, const Finding& finding) {
  out.BeginObject();
  out.Text("name", PlainText(finding.rule + " " + SubjectText(finding.subject)));
  out.Text("status", StatusName(StandingOf(finding)));
  out.Number("duration", 0);
  out.Texts("suite", std::array{PlainText(finding.check)});
  if (finding.verdict != Verdict::kPass) {
    out.Text("message", PlainText(WhatHappened(finding)));
  }
  out.Text("rawStatus", VerdictName(finding.verdict));
  out.Key("extra");
  out.BeginObject();
  out.Text("severity", SeverityName(finding.severity));
  const auto add = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) {
      out.Text(key, PlainText(value));
    }
  };
  add("expected", finding.expected);
  add("actual", finding.actual);
  add("reason", finding.reason.code);
  add("blockedBy", finding.reason.blocked_by);
  add("hint", finding.hint);
  out.EndObject();
  out.EndObject();
}

std::int64_t Milliseconds(std::optional<std::int64_t> seconds) {
  return seconds.value_or(0) * 1000;
}

void WriteVerdictTest(JsonWriter& out, const Report& report) {
  const bool passed = report.outcome == Outcome::kPassed;
  const std::string outcome = OutcomeName(report.outcome);
  out.BeginObject();
  out.Text("name", "preflight.verdict");
  out.Text("status", passed ? "passed" : "failed");
  out.Number("duration", Milliseconds(RunSeconds(report.observations.run)));
  out.Texts("suite", std::array{"preflight"});
  if (!passed) {
    out.Text("message", outcome + ": " + PlainText(WhyNotPassedLine(report)));
  }
  out.Text("rawStatus", outcome);
  out.EndObject();
}

void WriteSummary(JsonWriter& out, const Report& report) {
  const RunFacts& run = report.observations.run;
  const FindingCounts counts = CountFindings(report.findings);
  const int verdict_passed = report.outcome == Outcome::kPassed ? 1 : 0;
  out.BeginObject();
  out.Number("tests", static_cast<std::int64_t>(report.findings.size()) + 1);
  out.Number("passed", counts.passed + verdict_passed);
  out.Number("failed", counts.failed + 1 - verdict_passed);
  out.Number("skipped", counts.not_applicable);
  out.Number("pending", 0);
  out.Number("other", counts.unknown + counts.warned);
  // The schema demands both; 0 when the run does not say.
  out.Number("start", Milliseconds(UnixSeconds(run.started_at)));
  out.Number("stop", Milliseconds(UnixSeconds(run.finished_at)));
  out.EndObject();
}

void WriteRunExtra(JsonWriter& out, const Report& report) {
  out.BeginObject();
  out.Text("outcome", OutcomeName(report.outcome));
  out.Text("evidence", PlainText(report.signature));
  const auto list = [&](std::string_view key, const std::vector<std::string>& texts) {
    out.Key(key);
    out.BeginArray();
    for (const std::string& text : texts) {
      out.Text(PlainText(text));
    }
    out.EndArray();
  };
  for (const RunField& field : RunFields(report)) {
    list(field.label, field.values);
  }
  list("doesNotEstablish", NotEstablished(report.findings));
  out.EndObject();
}

}  // namespace

std::string RenderCtrf(const Report& report) {
  const RunFacts& run = report.observations.run;
  JsonWriter out(2, JsonWriter::Unsafe::kEscaped);
  out.BeginObject();
  out.Text("reportFormat", "CTRF");
  out.Text("specVersion", "1.0.0");
  if (UnixSeconds(run.finished_at)) {
    out.Text("timestamp", run.finished_at);
  }
  out.Text("generatedBy", "dlc-check");
  out.Key("results");
  out.BeginObject();
  out.Key("tool");
  out.BeginObject();
  out.Text("name", "dlc-check");
  out.Text("version", PlainText(run.tool_version));
  out.EndObject();
  out.Key("summary");
  WriteSummary(out, report);
  out.Key("tests");
  out.BeginArray();
  for (const Finding& finding : report.findings) {
    WriteFindingTest(out, finding);
  }
  WriteVerdictTest(out, report);
  out.EndArray();
  out.Key("extra");
  WriteRunExtra(out, report);
  out.EndObject();
  out.EndObject();
  return out.Take() + "\n";
}

}  // namespace dlc
