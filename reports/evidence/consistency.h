#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "reports/evidence/contents.h"

/// Does a statement bear itself out? Each function is one step of `report verify`; each Error names
/// the place. Private to this folder.
namespace dlc::consistency {

/// _type and predicateType.
Result<void> CheckTypes(const nlohmann::ordered_json& statement);

/// Reads what the statement says. Precondition: it matches the schema. The comparisons inside the
/// findings are replayed here (ParseFindings).
Result<EvidenceContents> ReadContents(const nlohmann::ordered_json& statement);

/// Each verdict follows from its assertions.
Result<void> CheckVerdicts(const std::vector<Finding>& findings);

/// The result is what Aggregate makes of the findings.
Result<void> CheckOutcome(const EvidenceContents& contents);

/// The digests of the policy are those of its text.
Result<void> CheckPolicyDigest(const nlohmann::ordered_json& statement,
                               const EvidenceContents& contents);

/// Every summary says what observations and findings say. `policy_digests` null: not known, and a
/// subject that depends on them is taken as it is. Not `same_tool`: another version may word or add
/// things differently, so only what every version writes is compared.
Result<void> CheckSummaries(const nlohmann::ordered_json& statement,
                            const EvidenceContents& contents,
                            const std::vector<Digest>* policy_digests, bool same_tool);

}  // namespace dlc::consistency
