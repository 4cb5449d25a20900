#include "reports/report.h"

#include <utility>

namespace dlc {

Standing StandingOf(const Finding& finding) {
  switch (finding.verdict) {
    case Verdict::kPass:
      return Standing::kPassed;
    case Verdict::kNotApplicable:
      return Standing::kNotApplicable;
    case Verdict::kFail:
      return finding.severity == Severity::kRequired ? Standing::kFailed : Standing::kWarned;
    case Verdict::kUnknown:
      break;
  }
  return finding.severity == Severity::kRequired ? Standing::kUnknown : Standing::kWarned;
}

FindingCounts CountFindings(const std::vector<Finding>& findings) {
  FindingCounts counts;
  for (const Finding& finding : findings) {
    switch (StandingOf(finding)) {
      case Standing::kFailed:
        ++counts.failed;
        break;
      case Standing::kUnknown:
        ++counts.unknown;
        break;
      case Standing::kWarned:
        ++counts.warned;
        break;
      case Standing::kNotApplicable:
        ++counts.not_applicable;
        break;
      case Standing::kPassed:
        ++counts.passed;
        break;
    }
  }
  return counts;
}

Report MakeReport(Observations observations, const Policy& policy, PolicySource source) {
  Report report;
  report.findings = JudgeAll(observations, policy);
  report.outcome = Aggregate(report.findings, observations.run.interrupted);
  report.observations = std::move(observations);
  report.policy_source = std::move(source);
  report.policy_name = policy.name;
  return report;
}

}  // namespace dlc
