#include "reports/evidence/contents.h"

#include <nlohmann/json.hpp>

#include "probes/observations/strict_json.h"
#include "reports/evidence/consistency.h"
#include "reports/evidence/envelope.h"
#include "reports/evidence/preflight_schema.h"

namespace dlc {
namespace {

/// The steps that need no key and no policy reader, first failure wins.
Result<EvidenceContents> ReadStatement(const std::string& payload) {
  const auto statement = ParseStrictJson(payload, {kMaxEvidenceBytes, JsonLimits{}.max_depth});
  if (!statement) {
    return statement.error();
  }
  if (const auto types = consistency::CheckTypes(*statement); !types) {
    return types.error();
  }
  if (const auto matches = MatchPreflightSchema(payload); !matches) {
    return matches.error();
  }
  auto contents = consistency::ReadContents(*statement);
  if (!contents) {
    return contents;
  }
  if (const auto follows = consistency::CheckVerdicts(contents->findings); !follows) {
    return follows.error();
  }
  if (const auto follows = consistency::CheckOutcome(*contents); !follows) {
    return follows.error();
  }
  if (const auto fits = consistency::CheckPolicyDigest(*statement, *contents); !fits) {
    return fits.error();
  }
  if (const auto fits = consistency::CheckSummaries(*statement, *contents, nullptr, false); !fits) {
    return fits.error();
  }
  return contents;
}

}  // namespace

Result<EvidenceContents> ReadEvidence(std::string_view bytes) {
  if (bytes.size() > kMaxEvidenceBytes) {
    return Error{ErrorCode::kInvalidInput,
                 "evidence of " + std::to_string(bytes.size()) + " bytes is over the limit of " +
                     std::to_string(kMaxEvidenceBytes),
                 ""};
  }
  const auto file = ParseEvidenceFile(bytes);
  if (!file) {
    return file.error();
  }
  if (file->payload_type != kPayloadType) {
    return Error{ErrorCode::kInvalidInput, "payloadType is '" + file->payload_type + "'", ""};
  }
  auto contents = ReadStatement(file->payload);
  if (contents) {
    contents->signature = file->form == EvidenceForm::kStatement ? "unsigned" : "not verified";
  }
  return contents;
}

}  // namespace dlc
