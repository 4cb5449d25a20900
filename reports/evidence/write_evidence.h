#pragma once

#include <string>
#include <vector>

#include "reports/evidence/new_files.h"
#include "reports/evidence/signer.h"
#include "reports/report.h"

namespace dlc {

inline constexpr const char* kBundleFileName = "evidence.sigstore.json";
inline constexpr const char* kEnvelopeFileName = "evidence.dsse.json";
inline constexpr const char* kStatementFileName = "evidence.statement.json";

/// The bytes of one run's evidence. Bundle and envelope hold exactly the statement's bytes; both
/// are empty when unsigned.
struct Evidence {
  std::string statement;
  std::string envelope;
  std::string bundle;
  std::string key_fingerprint;
};

/// `policy_digests`: Policy::image.digests. `signer` may be null: unsigned. What is made has been
/// read back and held against itself, and the signature verified, before it is returned.
/// kInvalidInput (the policy is not UTF-8, too large), the signer's errors, or kInternal.
Result<Evidence> MakeEvidence(const Report& report, const std::vector<Digest>& policy_digests,
                              Signer* signer);

/// The files of `evidence`, bundle first; unsigned: only the statement.
std::vector<NewFile> EvidenceFiles(const Evidence& evidence);

/// Writes evidence.sigstore.json, evidence.dsse.json, evidence.statement.json (0644) into
/// `directory`, all or none; unsigned: only the statement. Refuses a directory that holds any of
/// the three. Returns the paths.
Result<std::vector<std::string>> WriteEvidence(const std::string& directory,
                                               const Evidence& evidence);

}  // namespace dlc
