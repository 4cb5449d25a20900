#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "reports/finding_text.h"
#include "reports/plain_text.h"
#include "reports/render.h"
#include "reports/summary.h"
#include "reports/text_layout.h"

namespace dlc {
namespace {

constexpr int kShownGroupsPerRule = 5;
constexpr std::size_t kShownNotEstablished = 5;
constexpr int kDetailIndent = 4;

class TextReport {
 public:
  TextReport(const Report& report, const TextOptions& options)
      : report_(report), options_(options), counts_(CountFindings(report.findings)) {}

  std::string Render() {
    Header();
    Problems(Standing::kFailed);
    Problems(Standing::kUnknown);
    Problems(Standing::kWarned);
    NotApplicable();
    Passed();
    Conclusion();
    return std::move(out_);
  }

 private:
  void Header() {
    const RunFacts& run = report_.observations.run;
    out_ += "dlc-check";
    if (!run.tool_version.empty()) {
      out_ += " " + PlainText(run.tool_version);
    }
    out_ += '\n';
    for (const RunField& field : RunFields(report_)) {
      std::string_view label = field.label;
      for (const std::string& value : field.values) {
        AppendField(out_, label, value, options_.width);
        label = "";
      }
    }
    AppendField(out_, "evidence", report_.signature, options_.width);
  }

  void Section(Standing standing, const std::string& title) {
    out_ += '\n';
    AppendHeading(out_, standing, title, options_);
  }

  void Problems(Standing standing) {
    // A rule whose reason differs from pod to pod makes as many groups as pods.
    std::unordered_map<std::string_view, int> groups_of_rule;
    std::map<std::string_view, std::size_t> folded;
    for (const FindingGroup& group : GroupFindings(report_.findings, standing)) {
      if (!options_.verbose && ++groups_of_rule[group.first->rule] > kShownGroupsPerRule) {
        folded[group.first->rule] += group.subjects.size();
        continue;
      }
      out_ += '\n';
      AppendGroup(out_, group, options_);
    }
    for (const auto& [rule, count] : folded) {
      Section(standing,
              "and " + std::to_string(count) + " more of " + PlainText(rule) + "; -v shows all");
    }
  }

  void NotApplicable() {
    const auto is_off = [](const Finding& f) {
      return f.verdict == Verdict::kNotApplicable && f.reason.code == "switched-off";
    };
    const auto& all = report_.findings;
    const auto off = std::count_if(all.begin(), all.end(), is_off);
    const int total = counts_.not_applicable;
    if (total == 0) {
      return;
    }
    std::string title = std::to_string(total) + " not applicable";
    if (off > 0) {
      title += ", " + std::to_string(off) + " of them switched off by the policy";
    }
    Section(Standing::kNotApplicable, title + (options_.verbose ? "" : "; -v shows them"));
    EachOf(Standing::kNotApplicable,
           [](const Finding& f) -> const std::string& { return f.reason.message; });
  }

  void Passed() {
    const auto counts = CountPerCheck(report_.findings, Standing::kPassed);
    if (counts.empty()) {
      return;
    }
    Section(Standing::kPassed, std::to_string(counts_.passed) + " passed");
    if (options_.verbose) {
      EachOf(Standing::kPassed, [](const Finding& f) -> const std::string& { return f.actual; });
      return;
    }
    int widest = 0;
    for (const CheckCount& row : counts) {
      widest = std::max(widest, DisplayWidth(PlainText(row.check)));
    }
    for (const CheckCount& row : counts) {
      out_ += "  " + PadToWidth(PlainText(row.check), widest);
      const std::string count = std::to_string(row.count);
      out_.append(count.size() < 7 ? 7 - count.size() : 1, ' ');
      out_ += count + '\n';
    }
  }

  /// "  rule  subject: detail", one line a finding; verbose only.
  template <class Detail>
  void EachOf(Standing standing, Detail detail) {
    if (!options_.verbose) {
      return;
    }
    for (const Finding& finding : report_.findings) {
      if (StandingOf(finding) != standing) {
        continue;
      }
      out_ += "  ";
      std::vector<std::string> words = {PlainText(finding.rule)};
      const std::string& more = detail(finding);
      words.push_back(PlainText(SubjectText(finding.subject)) + (more.empty() ? "" : ":"));
      for (std::string& word : Words(PlainText(more))) {
        words.push_back(std::move(word));
      }
      AppendWrapped(out_, words, kDetailIndent, options_.width);
      out_ += '\n';
    }
  }

  void Conclusion() {
    const Standing standing = report_.outcome == Outcome::kPassed   ? Standing::kPassed
                              : report_.outcome == Outcome::kFailed ? Standing::kFailed
                                                                    : Standing::kUnknown;
    out_ += '\n';
    out_ += ColoredWord(standing, OutcomeName(report_.outcome), options_.color);
    out_ += ": " + CountsLine(counts_) + '\n';
    if (const std::string why = WhyNotPassedLine(report_); !why.empty()) {
      AppendField(out_, "because", why, options_.width);
    }
    NotEstablishedList();
    out_ += "evidence: " + PlainText(report_.signature) + '\n';
  }

  void NotEstablishedList() {
    const std::vector<std::string> texts = NotEstablished(report_.findings);
    if (texts.empty()) {
      return;
    }
    out_ += "This run does not establish:\n";
    const std::size_t shown =
        options_.verbose ? texts.size() : std::min(texts.size(), kShownNotEstablished);
    for (std::size_t i = 0; i < shown; ++i) {
      out_ += "  - ";
      AppendWrapped(out_, Words(PlainText(texts[i])), 4, options_.width);
      out_ += '\n';
    }
    if (texts.size() > shown) {
      out_ += "  and " + std::to_string(texts.size() - shown) + " more; -v shows all\n";
    }
  }

  const Report& report_;
  const TextOptions& options_;
  const FindingCounts counts_;
  std::string out_;
};

}  // namespace

std::string RenderText(const Report& report, const TextOptions& options) {
  return TextReport(report, options).Render();
}

}  // namespace dlc
