#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/evidence/contents.h"
#include "reports/evidence/public_key.h"

namespace dlc {

/// What the policy in the evidence makes of the observations in the evidence.
struct Rejudged {
  std::vector<Finding> findings;
  std::vector<Digest> policy_digests;  ///< Policy::image.digests
};
using Rejudge = std::function<Result<Rejudged>(const Observations&, const PolicySource&)>;

struct VerifyOptions {
  std::vector<PublicKey> keys;           ///< any one of them may have signed; at least one
  std::vector<Digest> expected_digests;  ///< each must be a subject; empty: not compared
  std::optional<std::chrono::seconds> max_age;
  std::chrono::system_clock::time_point now;
  std::string tool_version;  ///< of this program: decides how strictly judging again is compared
  std::string tool_commit;   ///< may be empty
  /// Reads the policy and judges (injected, so that evidence does not know YAML). Empty: not judged
  /// again, and a note says so.
  Rejudge rejudge;
};

/// Clocks of signer and verifier may differ by this much before a time counts as in the future.
inline constexpr std::chrono::minutes kClockSkew{5};

enum class Trust : std::uint8_t {
  kNotTrustworthy,  ///< exit code 4
  kTooOld,          ///< genuine, but finished before now - max_age: exit code 3
  kGenuine,         ///< the outcome decides: PASSED 0, FAILED 1, INCOMPLETE 3
};

struct VerifyStep {
  std::string name;  ///< "signature", "schema", ...: stable
  bool passed = false;
  std::string text;  ///< what was seen, or why it failed
  std::string hint;
};

struct VerifyResult {
  Trust trust = Trust::kNotTrustworthy;
  std::vector<VerifyStep> steps;   ///< in order; the last one failed unless trust is kGenuine
  std::vector<std::string> notes;  ///< what does not change the answer and should be known
  std::string key_fingerprint;     ///< of the key that verified the signature
  Digest statement_digest;         ///< sha256 of the signed bytes: the identity of the report
  EvidenceContents contents;       ///< meaningful unless trust is kNotTrustworthy
};

/// Bound, envelope, payload type, signature, then everything else from the very bytes that were
/// signed. A key or a name inside the evidence is never trusted.
VerifyResult VerifyEvidence(std::string_view bytes, const VerifyOptions& options);

}  // namespace dlc
