#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "probes/observations/digest.h"
#include "probes/observations/result.h"

namespace dlc {

/// The two that every verifier of Sigstore bundles handles alike. RSA is refused as needless; P-384
/// and P-521 because verifiers disagree on their hash (cosign pull request 5019).
enum class KeyType : std::uint8_t { kP256, kEd25519 };
const char* KeyTypeName(KeyType type);  ///< "ECDSA P-256", "Ed25519"

struct PublicKey {
  KeyType type = KeyType::kP256;
  std::string spki_der;  ///< SubjectPublicKeyInfo, uncompressed point
  /// As `ssh-keygen -l` prints it: "SHA256:<base64 without padding>". The only non-empty key id
  /// that go-securesystemslib (cosign, sigstore-go) accepts.
  std::string fingerprint;

  bool operator==(const PublicKey&) const = default;
};

/// PEM "BEGIN PUBLIC KEY", exactly one. `name` is for messages. kInvalidInput with a hint for
/// anything else (private keys, certificates, DER, OpenSSH), kUnsupported for other key types.
Result<PublicKey> ParsePublicKey(std::string_view pem, const std::string& name);
/// Same, from a file.
Result<PublicKey> LoadPublicKey(const std::string& path);
std::string PublicKeyPem(const PublicKey& key);

/// ECDSA: DER signature over SHA-256 of the message. Ed25519: 64 bytes over the message.
bool SignatureVerifies(const PublicKey& key, std::string_view message, std::string_view signature);

/// sha256 of the bytes.
Digest DigestOfBytes(std::string_view bytes);

}  // namespace dlc
