#include <nlohmann/json.hpp>
#include <string>

#include "reports/json_text.h"
#include "reports/plain_text.h"
#include "reports/render.h"
#include "reports/summary.h"

namespace dlc {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kVerdictTest = "preflight.verdict";

struct Status {
  const char* name;
  int* count;  // in Tally
};

struct Tally {
  int passed = 0;
  int failed = 0;
  int skipped = 0;
  int other = 0;

  Status Of(Standing standing) {
    switch (standing) {
      case Standing::kPassed:
        return {"passed", &passed};
      case Standing::kFailed:
        return {"failed", &failed};
      case Standing::kNotApplicable:
        return {"skipped", &skipped};
      case Standing::kUnknown:
      case Standing::kWarned:
        break;
    }
    return {"other", &other};
  }
};

Json FindingToTest(const Finding& finding, const char* status) {
  Json test = {{"name", PlainText(finding.rule + " " + SubjectText(finding.subject))},
               {"status", status},
               {"duration", 0},
               {"suite", Json::array({PlainText(finding.check)})},
               {"rawStatus", VerdictName(finding.verdict)}};
  Json extra = {{"severity", SeverityName(finding.severity)}};
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) {
      extra[key] = PlainText(value);
    }
  };
  add("expected", finding.expected);
  add("actual", finding.actual);
  add("reason", finding.reason.code);
  add("blockedBy", finding.reason.blocked_by);
  add("hint", finding.hint);
  if (finding.verdict != Verdict::kPass) {
    test["message"] = PlainText(WhatHappened(finding));
  }
  test["extra"] = std::move(extra);
  return test;
}

/// CTRF counts in milliseconds.
std::int64_t Milliseconds(std::optional<std::int64_t> seconds) {
  return seconds.value_or(0) * 1000;
}

Json VerdictTest(const Report& report, const char* status) {
  Json test = {{"name", kVerdictTest},
               {"status", status},
               {"duration", Milliseconds(RunSeconds(report.observations.run))},
               {"suite", Json::array({"preflight"})},
               {"rawStatus", OutcomeName(report.outcome)}};
  if (report.outcome != Outcome::kPassed) {
    test["message"] =
        std::string(OutcomeName(report.outcome)) + ": " + PlainText(WhyNotPassedLine(report));
  }
  return test;
}

Json RunExtra(const Report& report) {
  Json extra = {{"outcome", OutcomeName(report.outcome)}, {"evidence", report.signature}};
  for (const RunField& field : RunFields(report)) {
    Json values = Json::array();
    for (const std::string& value : field.values) {
      values.push_back(PlainText(value));
    }
    extra[std::string(field.label)] = std::move(values);
  }
  Json bounds = Json::array();
  for (const std::string& text : NotEstablished(report.findings)) {
    bounds.push_back(PlainText(text));
  }
  extra["doesNotEstablish"] = std::move(bounds);
  return extra;
}

}  // namespace

std::string RenderCtrf(const Report& report) {
  const RunFacts& run = report.observations.run;
  Tally tally;
  Json tests = Json::array();
  for (const Finding& finding : report.findings) {
    const Status status = tally.Of(StandingOf(finding));
    ++*status.count;
    tests.push_back(FindingToTest(finding, status.name));
  }
  const Status verdict =
      tally.Of(report.outcome == Outcome::kPassed ? Standing::kPassed : Standing::kFailed);
  ++*verdict.count;
  tests.push_back(VerdictTest(report, verdict.name));

  Json tool = {{"name", "dlc-check"}};
  if (!run.tool_version.empty()) {
    tool["version"] = PlainText(run.tool_version);
  }
  // start and stop are demanded by the schema; 0 when the run does not say.
  Json summary = {{"tests", tests.size()},
                  {"passed", tally.passed},
                  {"failed", tally.failed},
                  {"skipped", tally.skipped},
                  {"pending", 0},
                  {"other", tally.other},
                  {"start", Milliseconds(UnixSeconds(run.started_at))},
                  {"stop", Milliseconds(UnixSeconds(run.finished_at))}};
  Json document = {{"reportFormat", "CTRF"}, {"specVersion", "1.0.0"}};
  if (UnixSeconds(run.finished_at)) {
    document["timestamp"] = run.finished_at;
  }
  document["generatedBy"] = "dlc-check";
  document["results"] = {{"tool", std::move(tool)},
                         {"summary", std::move(summary)},
                         {"tests", std::move(tests)},
                         {"extra", RunExtra(report)}};
  return ShowableJson(document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace dlc
