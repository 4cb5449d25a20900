#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reports/finding_text.h"
#include "reports/plain_text.h"
#include "reports/render.h"
#include "reports/summary.h"

namespace dlc {
namespace {

/// Text made of lines of our own, each already neutralised.
std::string EscapeXml(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string Xml(std::string_view untrusted) {
  return EscapeXml(PlainText(untrusted));
}

struct Suite {
  std::string_view name;
  std::vector<const Finding*> findings;
  int failures = 0;
  int errors = 0;
  int skipped = 0;
};

std::vector<Suite> SuitesOf(const std::vector<Finding>& findings) {
  std::vector<Suite> suites;
  std::unordered_map<std::string_view, std::size_t> index;
  for (const Finding& finding : findings) {
    const auto [it, is_new] = index.try_emplace(finding.check, suites.size());
    if (is_new) {
      suites.push_back({finding.check, {}});
    }
    Suite& suite = suites[it->second];
    suite.findings.push_back(&finding);
    const Standing standing = StandingOf(finding);
    suite.failures += standing == Standing::kFailed ? 1 : 0;
    suite.errors += standing == Standing::kUnknown ? 1 : 0;
    suite.skipped += standing == Standing::kWarned || standing == Standing::kNotApplicable ? 1 : 0;
  }
  return suites;
}

/// expected, actual, reason and hint as lines. Also in the body because GitLab has ignored the
/// message attribute (gitlab-foss issue 53668).
std::string Body(const Finding& finding) {
  std::string text;
  AppendGroup(text, {&finding, {&finding.subject}}, {.verbose = true, .width = 0});
  return EscapeXml(text);
}

void AppendCase(std::string& out, const Finding& finding) {
  const std::string_view rule = std::string_view(finding.rule).substr(finding.rule.find('/') + 1);
  out += "    <testcase classname=\"dlc-check." + Xml(finding.check) + "\" name=\"" + Xml(rule) +
         " " + Xml(SubjectText(finding.subject)) + "\" time=\"0\"";
  const std::string what = Xml(WhatHappened(finding));
  const std::string code = Xml(finding.reason.code);
  switch (StandingOf(finding)) {
    case Standing::kPassed:
      out += "/>\n";
      return;
    case Standing::kFailed:
      out += ">\n      <failure type=\"" + code + "\" message=\"" + what + "\">" + Body(finding) +
             "</failure>\n";
      break;
    case Standing::kUnknown:
      out += ">\n      <error type=\"" + code + "\" message=\"" + what + "\">" + Body(finding) +
             "</error>\n";
      break;
    case Standing::kWarned:
      out += ">\n      <skipped message=\"warning: " + what + "\"/>\n      <system-out>" +
             Body(finding) + "</system-out>\n";
      break;
    case Standing::kNotApplicable:
      out += ">\n      <skipped message=\"not applicable: " + what + "\"/>\n";
      break;
  }
  out += "    </testcase>\n";
}

std::string Tests(std::size_t tests, int failures, int errors) {
  return " tests=\"" + std::to_string(tests) + "\" failures=\"" + std::to_string(failures) +
         "\" errors=\"" + std::to_string(errors) + "\"";
}

void AppendSuite(std::string& out, const Suite& suite) {
  out += "  <testsuite name=\"" + Xml(suite.name) + "\"" +
         Tests(suite.findings.size(), suite.failures, suite.errors) + " skipped=\"" +
         std::to_string(suite.skipped) + "\" time=\"0\">\n";
  for (const Finding* finding : suite.findings) {
    AppendCase(out, *finding);
  }
  out += "  </testsuite>\n";
}

std::string TimeAttribute(const RunFacts& run) {
  const auto seconds = RunSeconds(run);
  return seconds ? " time=\"" + std::to_string(*seconds) + "\"" : "";
}

/// Without the zone: the common schema (windyroad JUnit.xsd) forbids one. It is UTC.
std::string TimestampAttribute(const RunFacts& run) {
  return UnixSeconds(run.started_at)
             ? " timestamp=\"" + run.started_at.substr(0, run.started_at.size() - 1) + "\""
             : "";
}

void AppendVerdict(std::string& out, const Report& report) {
  const RunFacts& run = report.observations.run;
  const bool passed = report.outcome == Outcome::kPassed;
  out += "  <testsuite name=\"preflight\"" + Tests(1, passed ? 0 : 1, 0) + " skipped=\"0\"" +
         TimeAttribute(run) + TimestampAttribute(run) + ">\n    <properties>\n";
  const auto property = [&](std::string_view name, const std::string& value) {
    out += "      <property name=\"" + std::string(name) + "\" value=\"" + Xml(value) + "\"/>\n";
  };
  for (const RunField& field : RunFields(report)) {
    std::string joined;
    for (const std::string& value : field.values) {
      joined += (joined.empty() ? "" : " ") + value;
    }
    property(field.label, joined);
  }
  property("evidence", report.signature);
  const std::string outcome = OutcomeName(report.outcome);
  const std::string counts = CountsLine(CountFindings(report.findings));
  const std::string why = Xml(WhyNotPassedLine(report));
  out += "    </properties>\n    <testcase classname=\"dlc-check\" name=\"preflight.verdict\"" +
         TimeAttribute(run) + ">\n";
  if (!passed) {
    out += "      <failure type=\"" + outcome + "\" message=\"" + outcome + ": " + why + "\">" +
           outcome + ": " + counts + "\n" + why + "</failure>\n";
  }
  out += "      <system-out>" + outcome + ": " + counts + "\nevidence: " + Xml(report.signature) +
         "\n";
  for (const std::string& text : NotEstablished(report.findings)) {
    out += "does not establish: " + Xml(text) + "\n";
  }
  out += "</system-out>\n    </testcase>\n  </testsuite>\n";
}

}  // namespace

std::string RenderJUnit(const Report& report) {
  const FindingCounts counts = CountFindings(report.findings);
  const int verdict_failures = report.outcome == Outcome::kPassed ? 0 : 1;
  std::string out =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"dlc-check\"" +
      Tests(report.findings.size() + 1, counts.failed + verdict_failures, counts.unknown) +
      TimeAttribute(report.observations.run) + ">\n";
  for (const Suite& suite : SuitesOf(report.findings)) {
    AppendSuite(out, suite);
  }
  AppendVerdict(out, report);
  out += "</testsuites>\n";
  return out;
}

}  // namespace dlc
