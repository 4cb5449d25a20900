#include "reports/evidence/envelope.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "probes/observations/strict_json.h"
#include "reports/evidence/base64.h"

namespace dlc {
namespace {

using Json = nlohmann::ordered_json;

constexpr JsonLimits kLimits{kMaxEvidenceBytes, JsonLimits{}.max_depth};
constexpr std::size_t kMaxSignatures = 16;

Error Malformed(const std::string& why, const std::string& hint = "") {
  return Error{ErrorCode::kInvalidInput, why, hint};
}

Json EnvelopeOf(std::string_view payload, const EnvelopeSignature& signature) {
  Json entry = Json::object();
  entry["keyid"] = signature.key_id;
  entry["sig"] = EncodeBase64(signature.bytes);
  Json envelope = Json::object();
  envelope["payloadType"] = kPayloadType;
  envelope["payload"] = EncodeBase64(payload);
  envelope["signatures"] = Json::array({std::move(entry)});
  return envelope;
}

/// The first key that is not one of `known`, or nullptr.
const std::string* UnknownKey(const Json& object, std::initializer_list<std::string_view> known) {
  for (auto it = object.begin(); it != object.end(); ++it) {
    if (std::find(known.begin(), known.end(), it.key()) == known.end()) {
      return &it.key();
    }
  }
  return nullptr;
}

/// Text at `key`; an absent one is "" where `required` is false.
Result<std::string> Text(const Json& object, const char* key, bool required) {
  const auto it = object.find(key);
  if (it == object.end() && !required) {
    return std::string();
  }
  if (it == object.end() || !it->is_string()) {
    return Malformed(std::string("no text '") + key + "' in the envelope");
  }
  return it->get<std::string>();
}

Result<std::string> Bytes(const Json& object, const char* key) {
  auto text = Text(object, key, true);
  if (!text) {
    return text;
  }
  auto bytes = DecodeBase64(*text);
  if (!bytes) {
    return Malformed(std::string("'") + key + "' is " + bytes.error().message);
  }
  return bytes;
}

Result<EnvelopeSignature> ReadSignature(const Json& json) {
  if (!json.is_object()) {
    return Malformed("a signature is not an object");
  }
  if (const std::string* key = UnknownKey(json, {"keyid", "sig"})) {
    return Malformed("unknown key '" + *key + "' in a signature");
  }
  auto key_id = Text(json, "keyid", false);
  auto bytes = Bytes(json, "sig");
  if (!key_id || !bytes) {
    return key_id ? bytes.error() : key_id.error();
  }
  return EnvelopeSignature{*key_id, *bytes};
}

Result<Envelope> ReadEnvelope(const Json& json) {
  if (!json.is_object()) {
    return Malformed("the envelope is not an object");
  }
  if (const std::string* key = UnknownKey(json, {"payloadType", "payload", "signatures"})) {
    return Malformed("unknown key '" + *key + "' in the envelope");
  }
  auto type = Text(json, "payloadType", true);
  auto payload = Bytes(json, "payload");
  if (!type || !payload) {
    return type ? payload.error() : type.error();
  }
  const auto list = json.find("signatures");
  if (list == json.end() || !list->is_array() || list->empty()) {
    return Malformed("the envelope has no signature");
  }
  if (list->size() > kMaxSignatures) {
    return Malformed("the envelope has " + std::to_string(list->size()) + " signatures");
  }
  Envelope envelope;
  envelope.payload_type = std::move(type).value();
  envelope.payload = std::move(payload).value();
  for (const Json& item : *list) {
    auto signature = ReadSignature(item);
    if (!signature) {
      return std::move(signature).error();
    }
    envelope.signatures.push_back(std::move(signature).value());
  }
  return envelope;
}

/// The hint must be the key id where both are there (sigstore_bundle.proto). Log entries and
/// timestamps are not looked at: the given keys decide.
Result<void> CheckMaterial(const Json& bundle, const Envelope& envelope) {
  const auto material = bundle.find("verificationMaterial");
  if (material == bundle.end() || !material->is_object()) {
    return Malformed("no 'verificationMaterial' in the bundle");
  }
  if (const std::string* key =
          UnknownKey(*material, {"publicKey", "certificate", "x509CertificateChain", "tlogEntries",
                                 "timestampVerificationData"})) {
    return Malformed("unknown key '" + *key + "' in the bundle's verificationMaterial");
  }
  const auto key = material->find("publicKey");
  if (key == material->end()) {
    return {};
  }
  if (!key->is_object() || UnknownKey(*key, {"hint"}) != nullptr) {
    return Malformed("'publicKey' in the bundle is not an object with a hint");
  }
  const auto hint = Text(*key, "hint", false);
  if (!hint) {
    return hint.error();
  }
  const std::string& key_id = envelope.signatures.front().key_id;
  if (!hint->empty() && !key_id.empty() && *hint != key_id) {
    return Malformed("the bundle's key hint '" + *hint + "' is not its key id '" + key_id + "'");
  }
  return {};
}

Result<Envelope> ReadBundle(const Json& json) {
  if (const std::string* key =
          UnknownKey(json, {"mediaType", "verificationMaterial", "dsseEnvelope"})) {
    return Malformed("unknown key '" + *key + "' in the bundle");
  }
  const auto media_type = Text(json, "mediaType", true);
  if (!media_type || (*media_type != kBundleMediaType &&
                      *media_type != "application/vnd.dev.sigstore.bundle+json;version=0.3")) {
    return Malformed("not a Sigstore bundle of version 0.3: mediaType is '" +
                     (media_type ? *media_type : std::string()) + "'");
  }
  auto envelope = ReadEnvelope(json.at("dsseEnvelope"));
  if (!envelope) {
    return envelope;
  }
  if (envelope->signatures.size() != 1) {
    return Malformed("a bundle has exactly one signature, this one has " +
                     std::to_string(envelope->signatures.size()));
  }
  if (const auto checked = CheckMaterial(json, *envelope); !checked) {
    return checked.error();
  }
  envelope->form = EvidenceForm::kBundle;
  return envelope;
}

Result<EvidenceForm> FormOf(const Json& json) {
  const bool bundle = json.is_object() && json.contains("dsseEnvelope");
  const bool envelope = json.is_object() && json.contains("payloadType");
  const bool statement = json.is_object() && json.contains("_type");
  if (static_cast<int>(bundle) + static_cast<int>(envelope) + static_cast<int>(statement) != 1) {
    return Malformed("neither a Sigstore bundle, nor a DSSE envelope, nor an in-toto statement",
                     "pass the evidence.sigstore.json of a run");
  }
  return bundle     ? EvidenceForm::kBundle
         : envelope ? EvidenceForm::kEnvelope
                    : EvidenceForm::kStatement;
}

}  // namespace

std::string PreAuthenticationEncoding(std::string_view payload_type, std::string_view payload) {
  std::string pae = "DSSEv1 " + std::to_string(payload_type.size()) + " ";
  pae.append(payload_type).append(" ").append(std::to_string(payload.size())).append(" ");
  return pae.append(payload);
}

std::string EnvelopeJson(std::string_view payload, const EnvelopeSignature& signature) {
  return EnvelopeOf(payload, signature).dump(2) + "\n";
}

std::string BundleJson(std::string_view payload, const EnvelopeSignature& signature) {
  Json bundle = Json::object();
  bundle["mediaType"] = kBundleMediaType;
  bundle["verificationMaterial"]["publicKey"]["hint"] = signature.key_id;
  bundle["dsseEnvelope"] = EnvelopeOf(payload, signature);
  return bundle.dump(2) + "\n";
}

Result<Envelope> ParseEvidenceFile(std::string_view bytes) {
  const auto json = ParseStrictJson(bytes, kLimits);
  if (!json) {
    return json.error();
  }
  const auto form = FormOf(*json);
  if (!form) {
    return form.error();
  }
  switch (*form) {
    case EvidenceForm::kBundle:
      return ReadBundle(*json);
    case EvidenceForm::kEnvelope:
      return ReadEnvelope(*json);
    case EvidenceForm::kStatement:
      break;
  }
  return Envelope{EvidenceForm::kStatement, std::string(kPayloadType), std::string(bytes), {}};
}

Result<Envelope> ParseEnvelope(std::string_view bytes) {
  auto envelope = ParseEvidenceFile(bytes);
  if (envelope && envelope->form == EvidenceForm::kStatement) {
    return Malformed("not signed: this is the bare statement, which anyone can write",
                     "pass evidence.sigstore.json or evidence.dsse.json; a run without a key has "
                     "neither and cannot be verified");
  }
  return envelope;
}

}  // namespace dlc
