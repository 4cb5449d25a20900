#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "reports/finding_text.h"
#include "reports/plain_text.h"
#include "reports/render.h"
#include "reports/summary.h"

namespace dlc {
namespace {

// GitHub refuses a comment of more than 65,536 characters. Each part has its share of the 60,000.
constexpr std::size_t kTableBytes = 18'000;
constexpr std::size_t kDetailsBytes = 22'000;
constexpr std::size_t kListBytes = 4'000;
constexpr std::size_t kCellBytes = 300;
constexpr std::size_t kBlockBytes = 4'000;

/// At most `bytes`, ending at a whole code point; says how much is gone.
std::string Cut(std::string text, std::size_t bytes) {
  if (text.size() <= bytes) {
    return text;
  }
  std::size_t end = bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  const std::size_t gone = text.size() - end;
  text.resize(end);
  return text + "... (" + std::to_string(gone) + " more bytes)";
}

std::size_t LongestTicks(std::string_view text) {
  std::size_t longest = 0;
  std::size_t run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return longest;
}

/// A code span: no markup, HTML, mention, issue number or link in it takes effect. A table would
/// still split it at a pipe, and no escape of one is safe after a backslash.
std::string Code(std::string_view untrusted) {
  std::string text;
  for (const char c : Cut(PlainText(untrusted), kCellBytes)) {
    c == '|' ? text += "\\x7c" : text += c;
  }
  if (text.find_first_not_of(' ') == std::string::npos) {
    return "";
  }
  const std::string fence(LongestTicks(text) + 1, '`');
  const bool touches = text.front() == '`' || text.back() == '`';
  return fence + (touches ? " " : "") + text + (touches ? " " : "") + fence;
}

/// Lines as they are. Precondition: neutralised, ends with a newline.
std::string Fenced(const std::string& lines) {
  const std::string fence(std::max<std::size_t>(3, LongestTicks(lines) + 1), '`');
  return fence + "text\n" + lines + fence + "\n";
}

std::string Folded(const std::string& summary, const std::string& body) {
  return "\n<details><summary>" + summary + "</summary>\n\n" + body + "\n</details>\n";
}

std::string SubjectCell(const FindingGroup& group) {
  const std::size_t more = group.subjects.size() - 1;
  return Code(SubjectText(*group.subjects.front())) +
         (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

std::string Row(const FindingGroup& group) {
  const Finding& finding = *group.first;
  const std::string& found = finding.verdict == Verdict::kFail && !finding.actual.empty()
                                 ? finding.actual
                                 : WhatHappened(finding);
  return "| **" + std::string(StandingWord(StandingOf(finding))) + "** | " + Code(finding.rule) +
         " | " + SubjectCell(group) + " | " + Code(finding.expected) + " | " + Code(found) + " |\n";
}

/// Worst first.
std::vector<FindingGroup> Problems(const Report& report) {
  std::vector<FindingGroup> groups;
  for (const Standing standing : {Standing::kFailed, Standing::kUnknown, Standing::kWarned}) {
    for (FindingGroup& group : GroupFindings(report.findings, standing)) {
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

/// As many parts as fit into `bytes`, at least one; `left_out` counts the others.
template <class Item, class Part>
std::string Fill(const std::vector<Item>& items, std::size_t bytes, Part part,
                 std::size_t& left_out) {
  std::string out;
  std::size_t used = 0;
  for (const Item& item : items) {
    std::string next = part(item);
    if (used > 0 && out.size() + next.size() > bytes) {
      break;
    }
    out += next;
    ++used;
  }
  left_out = items.size() - used;
  return out;
}

void AppendProblems(std::string& out, const Report& report) {
  const std::vector<FindingGroup> groups = Problems(report);
  if (groups.empty()) {
    return;
  }
  std::size_t left_out = 0;
  out += "\n| | rule | on | expected | found |\n|---|---|---|---|---|\n";
  out += Fill(groups, kTableBytes, Row, left_out);
  if (left_out > 0) {
    out += "\nand " + std::to_string(left_out) + " more kinds of finding; the report has all.\n";
  }
  const auto block = [](const FindingGroup& group) {
    std::string lines;
    AppendGroup(lines, group, {}, "");
    if (lines.size() > kBlockBytes) {
      lines = Cut(std::move(lines), kBlockBytes) + "\n";
    }
    return Fenced(lines);
  };
  std::string details = Fill(groups, kDetailsBytes, block, left_out);
  if (left_out > 0) {
    details += "\nand " + std::to_string(left_out) + " more; the report has all.\n";
  }
  out += Folded("Details", details);
}

void AppendPassed(std::string& out, const Report& report, int passed) {
  const auto counts = CountPerCheck(report.findings, Standing::kPassed);
  if (counts.empty()) {
    return;
  }
  std::size_t left_out = 0;
  const auto row = [](const CheckCount& c) {
    return "- " + Code(c.check) + ": " + std::to_string(c.count) + "\n";
  };
  std::string rows = Fill(counts, kListBytes, row, left_out);
  rows += left_out > 0 ? "- and " + std::to_string(left_out) + " more checks\n" : "";
  out += Folded("Passed: " + std::to_string(passed), rows);
}

void AppendBounds(std::string& out, const Report& report) {
  const auto texts = NotEstablished(report.findings);
  if (texts.empty()) {
    return;
  }
  std::size_t left_out = 0;
  const auto row = [](const std::string& text) { return "- " + Code(text) + "\n"; };
  std::string rows = Fill(texts, kListBytes, row, left_out);
  rows += left_out > 0 ? "- and " + std::to_string(left_out) + " more\n" : "";
  out += Folded("This run does not establish", rows);
}

}  // namespace

std::string RenderMarkdown(const Report& report) {
  const FindingCounts counts = CountFindings(report.findings);
  std::string out = "## dlc-check: " + std::string(OutcomeName(report.outcome)) + "\n\n";
  out += CountsLine(counts) + "\n";
  const WhyNot why = WhyNotPassed(report);
  if (!why.what.empty()) {
    out += "\nNot PASSED: " + why.what;
    if (why.first != nullptr) {
      out += ", the first is " + Code(why.first->rule) + " on " +
             Code(SubjectText(why.first->subject));
    }
    out += "\n";
  }
  AppendProblems(out, report);
  out += "\n| looked at | |\n|---|---|\n";
  for (const RunField& field : RunFields(report)) {
    std::size_t left_out = 0;
    const auto value = [](const std::string& v) { return " " + Code(v); };
    out += "| " + std::string(field.label) + " |" +
           Fill(field.values, kListBytes / 10, value, left_out) +
           (left_out > 0 ? " and " + std::to_string(left_out) + " more" : "") + " |\n";
  }
  out += "| evidence | " + Code(report.signature) + " |\n";
  AppendPassed(out, report, counts.passed);
  AppendBounds(out, report);
  return out;
}

}  // namespace dlc
