#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/result.h"

namespace dlc {

/// The only payload type that cosign takes.
inline constexpr std::string_view kPayloadType = "application/vnd.in-toto+json";
inline constexpr std::string_view kBundleMediaType =
    "application/vnd.dev.sigstore.bundle.v0.3+json";
/// Of an evidence file, when written and when read. The observations of one Ray cluster are about
/// 2 kB a pod, so this is room for thousands of pods; and the parsed document, some ten times as
/// large, still fits the memory of a CI pod. The bound is applied before anything is parsed.
inline constexpr std::size_t kMaxEvidenceBytes = 64U << 20U;

enum class EvidenceForm : std::uint8_t { kBundle, kEnvelope, kStatement };

struct EnvelopeSignature {
  std::string key_id;  ///< unauthenticated: it may narrow the choice of keys, never widen it
  std::string bytes;
};

/// A DSSE envelope, alone or inside a Sigstore bundle, decoded.
struct Envelope {
  EvidenceForm form = EvidenceForm::kEnvelope;
  std::string payload_type;
  std::string payload;  ///< the signed bytes
  std::vector<EnvelopeSignature> signatures;
};

/// DSSE v1 pre-authentication encoding: what is signed. Lengths are in bytes.
std::string PreAuthenticationEncoding(std::string_view payload_type, std::string_view payload);

/// https://github.com/secure-systems-lab/dsse/blob/master/envelope.md; ends with a newline.
std::string EnvelopeJson(std::string_view payload, const EnvelopeSignature& signature);
/// Sigstore bundle v0.3 with a public key hint equal to the key id; ends with a newline.
std::string BundleJson(std::string_view payload, const EnvelopeSignature& signature);

/// Strict on everything that is ours to write; no key beyond the two specifications. A bundle has
/// exactly one signature. A bare statement is refused as not signed. kInvalidInput.
Result<Envelope> ParseEnvelope(std::string_view bytes);

/// Same, but a bare statement is taken too: form kStatement, its bytes as the payload, no
/// signature. For readers that do not verify.
Result<Envelope> ParseEvidenceFile(std::string_view bytes);

}  // namespace dlc
