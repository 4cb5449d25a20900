#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "probes/observations/result.h"
#include "reports/evidence/public_key.h"

namespace dlc {

/// Something that holds, or can reach, a private key.
class Signer {
 public:
  Signer() = default;
  virtual ~Signer() = default;
  Signer(const Signer&) = delete;
  Signer& operator=(const Signer&) = delete;

  /// Signature in the form of SignatureVerifies over the DSSE pre-authentication encoding. The
  /// caller verifies it against Key() before use.
  virtual Result<std::string> Sign(std::string_view pae) = 0;
  virtual const PublicKey& Key() const = 0;
};

/// Environment variable with the passphrase of an encrypted key.
inline constexpr const char* kPassphraseVariable = "DLC_CHECK_KEY_PASSPHRASE";

/// Asked only for an encrypted key, once, with the key's name. May be empty (no terminal).
using AskPassphrase = std::function<Result<std::string>(const std::string& key_name)>;

/// Private key in PEM form: PKCS#8 or SEC1, plain or encrypted. `name` is for messages.
/// kInvalidInput with advice for what OpenSSL cannot read (cosign's and OpenSSH's own formats, a
/// public key, a wrong passphrase), kUnsupported for other key types.
Result<std::unique_ptr<Signer>> ParseSigningKey(std::string_view pem, const std::string& name,
                                                const AskPassphrase& ask);

struct SigningKey {
  std::unique_ptr<Signer> signer;
  std::string warning;  ///< the key file can be read by others; empty if not
};

/// `where` is a path, or "env:NAME" for PEM text in an environment variable. The passphrase comes
/// from DLC_CHECK_KEY_PASSPHRASE if set, else from `ask`.
Result<SigningKey> LoadSigningKey(const std::string& where, const AskPassphrase& ask);

struct KeyFiles {
  std::string private_path;  ///< dlc-check.key, mode 0600, PKCS#8
  std::string public_path;   ///< dlc-check.pub, SubjectPublicKeyInfo
  std::string fingerprint;
};

/// Makes a key pair in `directory`; refuses to overwrite. A non-empty passphrase encrypts the
/// private key (PBES2: PBKDF2-HMAC-SHA256, AES-256-CBC), readable by openssl.
Result<KeyFiles> GenerateKeyFiles(const std::string& directory, KeyType type,
                                  const std::string& passphrase);

}  // namespace dlc
