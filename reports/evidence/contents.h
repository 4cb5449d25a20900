#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checks/finding.h"
#include "probes/observations/observations.h"
#include "reports/report.h"

namespace dlc {

struct EvidenceSubject {
  std::string name;
  Digest digest;

  std::string ToString() const { return name + "@" + digest.ToString(); }
  bool operator==(const EvidenceSubject&) const = default;
};

/// What an evidence file says.
struct EvidenceContents {
  std::vector<EvidenceSubject> subjects;
  Observations observations;
  PolicySource policy;
  std::vector<Finding> findings;
  Outcome outcome = Outcome::kIncomplete;
  /// "unsigned" (a bare statement) or "not verified": ReadEvidence has no key. Never a fingerprint.
  std::string signature;
};

/// Reads a bundle, an envelope or a bare statement WITHOUT verifying a signature: whoever shows the
/// result must say so. What it says is held against itself as in VerifyEvidence, except that
/// nothing is judged again. kInvalidInput.
Result<EvidenceContents> ReadEvidence(std::string_view bytes);

}  // namespace dlc
