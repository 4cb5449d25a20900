#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/report.h"

namespace dlc {

/// What several renderers tell in the same words. Texts are as they came: each renderer neutralises
/// them in its own way.

/// "image", "cluster", "policy", ...: one line about what was looked at, and its values.
struct RunField {
  std::string_view label;
  std::vector<std::string> values;  ///< one per line, at least one
};
std::vector<RunField> RunFields(const Report& report);

/// Findings of one standing that differ in nothing but their subject's name.
struct FindingGroup {
  const Finding* first = nullptr;
  std::vector<const Subject*> subjects;  ///< never empty; in catalogue order
};
/// In order of first appearance.
std::vector<FindingGroup> GroupFindings(const std::vector<Finding>& findings, Standing standing);

/// How many findings of a standing each check has, in order of first appearance.
struct CheckCount {
  std::string check;
  int count = 0;
};
std::vector<CheckCount> CountPerCheck(const std::vector<Finding>& findings, Standing standing);

/// Why the outcome is not PASSED: `what` is of our own words ("2 required findings failed");
/// `first` is the finding to look at, if one is to blame. Both empty for PASSED.
struct WhyNot {
  std::string what;
  const Finding* first = nullptr;
};
WhyNot WhyNotPassed(const Report& report);
/// The same in one line: "2 required findings failed, the first is RULE on pod x".
std::string WhyNotPassedLine(const Report& report);

/// "1 failed, 0 unknown, 2 warned, 3 not applicable, 40 passed".
std::string CountsLine(const FindingCounts& counts);

/// "pod worker-0"; the kind alone when there is no name.
std::string SubjectText(const Subject& subject);

/// One line about a finding: the reason if it has one of its own, else expected and found.
std::string WhatHappened(const Finding& finding);
/// False when the reason's message says no more than expected and actual do.
bool ReasonSaysMore(const Finding& finding);

/// Every does_not_establish once; those of passes first, since they bound what was shown.
std::vector<std::string> NotEstablished(const std::vector<Finding>& findings);

/// Of "2026-01-02T03:04:05Z"; nullopt for any other form.
std::optional<std::int64_t> UnixSeconds(std::string_view rfc3339);
/// From the run's start to its finish; nullopt when one is not known or they are out of order.
std::optional<std::int64_t> RunSeconds(const RunFacts& run);

}  // namespace dlc
