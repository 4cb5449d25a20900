#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "checks/check.h"
#include "probes/observations/observations.h"
#include "reports/report.h"

namespace dlc {

inline constexpr std::string_view kStatementType = "https://in-toto.io/Statement/v1";
/// What `--type` of cosign must be given. A URN until the project owns a domain to publish under.
inline constexpr std::string_view kPredicateType = "urn:dlc-check:preflight:v1";
/// Of the predicate; the major number is the one in kPredicateType.
inline constexpr std::string_view kPredicateSchemaVersion = "1.0.0";

/// Subject names when no registry was seen: the digest is then the policy's one demand, or the
/// sha256 of the observations document in one line.
inline constexpr std::string_view kPolicySubject = "dlc-check-policy-image";
inline constexpr std::string_view kObservationsSubject = "dlc-check-observations";

/// All that a statement is a function of.
struct StatementParts {
  const Observations& observations;
  const PolicySource& policy;
  const std::vector<Finding>& findings;
  Outcome outcome;
  const std::vector<Digest>& policy_digests;  ///< Policy::image.digests
};

/// False: the subject depends on the policy.
bool SubjectIsServedImage(const Observations& observations);

/// in-toto Statement v1. A verifier builds it again from the parts that it read, and compares:
/// every summary (result, lists of tests, run, image, ..) must say what the parts say.
nlohmann::ordered_json BuildStatement(const StatementParts& parts);

}  // namespace dlc
