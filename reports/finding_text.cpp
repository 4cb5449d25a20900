#include "reports/finding_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "reports/plain_text.h"
#include "reports/text_layout.h"

namespace dlc {
namespace {

constexpr int kLabelIndent = 2;
constexpr int kValueIndent = 13;  // the longest label is "blocked by"

void AppendLabel(std::string& out, std::string_view label) {
  out.append(kLabelIndent, ' ');
  out += PadToWidth(label, kValueIndent - kLabelIndent);
}

const char* ColorOf(Standing standing) {
  switch (standing) {
    case Standing::kFailed:
      return "\x1b[1;31m";
    case Standing::kUnknown:
      return "\x1b[1;35m";
    case Standing::kWarned:
      return "\x1b[1;33m";
    case Standing::kPassed:
      return "\x1b[1;32m";
    case Standing::kNotApplicable:
      break;
  }
  return "\x1b[2m";
}

/// The kind once, then the names: "pod a, b, c and 7995 more; -v shows all".
std::vector<std::string> SubjectWords(const FindingGroup& group, bool verbose,
                                      std::string_view how_to_see_all) {
  const std::size_t shown =
      verbose ? group.subjects.size() : std::min(group.subjects.size(), kNamedSubjects);
  const std::size_t more = group.subjects.size() - shown;
  std::vector<std::string> words;
  words.push_back(PlainText(group.first->subject.kind));
  for (std::size_t i = 0; i < shown; ++i) {
    const std::string name = PlainText(group.subjects[i]->name);
    if (!name.empty()) {
      words.push_back(name + (i + 1 < shown ? "," : ""));
    }
  }
  if (more > 0) {
    words.push_back("and " + std::to_string(more) + " more" + std::string(how_to_see_all));
  }
  return words;
}

}  // namespace

std::string_view StandingWord(Standing standing) {
  switch (standing) {
    case Standing::kFailed:
      return "FAILED";
    case Standing::kUnknown:
      return "UNKNOWN";
    case Standing::kWarned:
      return "WARN";
    case Standing::kPassed:
      return "PASS";
    case Standing::kNotApplicable:
      break;
  }
  return "N/A";
}

std::string ColoredWord(Standing standing, std::string_view word, bool color) {
  return color ? ColorOf(standing) + std::string(word) + "\x1b[0m" : std::string(word);
}

void AppendHeading(std::string& out, Standing standing, std::string_view title,
                   const TextOptions& options) {
  const std::string_view word = StandingWord(standing);
  out += ColoredWord(standing, word, options.color);
  out.append(kValueIndent - word.size(), ' ');
  AppendWrapped(out, Words(title), kValueIndent, options.width);
  out += '\n';
}

void AppendField(std::string& out, std::string_view label, std::string_view value, int width) {
  AppendLabel(out, label);
  AppendWrapped(out, Words(PlainText(value)), kValueIndent, width);
  out += '\n';
}

void AppendGroup(std::string& out, const FindingGroup& group, const TextOptions& options,
                 std::string_view how_to_see_all) {
  const Finding& finding = *group.first;
  const Standing standing = StandingOf(finding);
  std::string title = PlainText(finding.rule);
  if (standing == Standing::kWarned) {
    title +=
        finding.verdict == Verdict::kFail ? " (fails; not required)" : " (unknown; not required)";
  }
  AppendHeading(out, standing, title, options);
  AppendLabel(out, "subject");
  AppendWrapped(out, SubjectWords(group, options.verbose, how_to_see_all), kValueIndent,
                options.width);
  out += '\n';
  const auto field = [&](std::string_view label, const std::string& value) {
    if (!value.empty()) {
      AppendField(out, label, value, options.width);
    }
  };
  field("expected", finding.expected);
  field("actual", finding.actual);
  const bool both = !finding.reason.code.empty() && ReasonSaysMore(finding);
  field("reason", finding.reason.code + (both ? ": " : "") +
                      (ReasonSaysMore(finding) ? finding.reason.message : ""));
  if (finding.reason.message.find(finding.reason.blocked_by) == std::string::npos) {
    field("blocked by", finding.reason.blocked_by);
  }
  field("hint", finding.hint);
  for (const std::string& note : finding.notes) {
    field("note", note);
  }
}

}  // namespace dlc
