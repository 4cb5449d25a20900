#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checks/check.h"
#include "checks/finding.h"
#include "checks/policy.h"
#include "probes/observations/observations.h"

namespace dlc {

/// The policy as it was given: its bytes travel in the evidence and are read again by `judge` and
/// `report verify`.
struct PolicySource {
  std::string origin;  ///< "file", "inline" (the bytes are a Config with a policy part), "built-in"
  std::string name;    ///< file name as the user gave it
  std::string text;
};

/// One verdict on one set of observations. Every renderer and the evidence are functions of it;
/// none computes a verdict.
struct Report {
  Observations observations;
  PolicySource policy_source;
  std::string policy_name;
  std::vector<Finding> findings;  ///< catalogue order
  Outcome outcome = Outcome::kIncomplete;
  /// Whether (and by which key) the evidence is signed: "unsigned", or the key's fingerprint
  /// "SHA256:..".
  std::string signature = "unsigned";
};

/// Where a finding stands in a report, worst first. A failure or unknown that is not required is a
/// warning, never a pass.
enum class Standing : std::uint8_t { kFailed, kUnknown, kWarned, kNotApplicable, kPassed };
Standing StandingOf(const Finding& finding);

/// How many findings of each standing.
struct FindingCounts {
  int passed = 0;
  int failed = 0;
  int unknown = 0;
  int warned = 0;
  int not_applicable = 0;

  bool operator==(const FindingCounts&) const = default;
};
FindingCounts CountFindings(const std::vector<Finding>& findings);

/// Judges and aggregates: the only way a Report comes to be.
Report MakeReport(Observations observations, const Policy& policy, PolicySource source);

}  // namespace dlc
