#include "reports/evidence/signer.h"

#include <openssl/crypto.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "probes/input/read_file.h"
#include "reports/evidence/pkey.h"

namespace dlc {
namespace {

constexpr std::size_t kMaxKeyFileBytes = 64U << 10U;
constexpr std::string_view kEnvironment = "env:";

class PemSigner : public Signer {
 public:
  PemSigner(openssl::Pkey pkey, PublicKey key) : pkey_(std::move(pkey)), key_(std::move(key)) {}

  Result<std::string> Sign(std::string_view pae) override {
    const openssl::DigestContext context(EVP_MD_CTX_new());
    std::size_t size = 0;
    const unsigned char* message = openssl::Unsigned(pae);
    if (EVP_DigestSignInit(context.get(), nullptr, openssl::MessageDigest(key_.type), nullptr,
                           pkey_.get()) != 1 ||
        EVP_DigestSign(context.get(), nullptr, &size, message, pae.size()) != 1) {
      return Failed();
    }
    std::string signature(size, '\0');
    if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                       message, pae.size()) != 1) {
      return Failed();
    }
    signature.resize(size);
    return signature;
  }

  const PublicKey& Key() const override { return key_; }

 private:
  static Error Failed() {
    return Error{ErrorCode::kInternal, "signing failed: " + openssl::TakeError(), ""};
  }

  openssl::Pkey pkey_;
  PublicKey key_;
};

/// State of OpenSSL's passphrase callback, which runs only for an encrypted key.
struct PassphraseRequest {
  const AskPassphrase& ask;
  const std::string& name;
  bool asked = false;
  Error error;
  bool failed = false;
};

int OnPassphrase(char* buffer, int size, int /*writing*/, void* user) {
  auto& request = *static_cast<PassphraseRequest*>(user);
  request.asked = true;
  Result<std::string> phrase =
      request.ask ? request.ask(request.name)
                  : Error{ErrorCode::kInvalidInput, "key '" + request.name + "' is encrypted",
                          std::string("set ") + kPassphraseVariable + " to its passphrase"};
  if (phrase && phrase->size() > static_cast<std::size_t>(size)) {
    phrase = Error{ErrorCode::kInvalidInput, "the passphrase is too long", ""};
  }
  if (!phrase) {
    request.failed = true;
    request.error = phrase.error();
    return -1;
  }
  std::copy(phrase->begin(), phrase->end(), buffer);  // OpenSSL takes the length, not a NUL
  const int length = static_cast<int>(phrase->size());
  OPENSSL_cleanse(phrase->data(), phrase->size());
  return length;
}

Error NotPrivateKey(const std::string& name, const std::string& why, const std::string& hint) {
  return Error{ErrorCode::kInvalidInput, "'" + name + "' is not a usable private key: " + why,
               hint};
}

/// Formats that people have and OpenSSL cannot read, by PEM label.
Error ExplainUnreadable(std::string_view pem, const std::string& name, const std::string& reason) {
  const auto holds = [&](std::string_view label) {
    return pem.find(label) != std::string_view::npos;
  };
  if (holds("ENCRYPTED SIGSTORE PRIVATE KEY") || holds("ENCRYPTED COSIGN PRIVATE KEY")) {
    return NotPrivateKey(name, "it is in cosign's own encrypted form",
                         "make a key with `dlc-check keygen` (cosign can import it: cosign "
                         "import-key-pair --key dlc-check.key), or run with --no-sign and sign "
                         "with `cosign attest-blob --statement evidence.statement.json`");
  }
  if (holds("OPENSSH PRIVATE KEY")) {
    return NotPrivateKey(name, "it is in OpenSSH's own form",
                         "make a key with `dlc-check keygen`; ECDSA keys can be converted: "
                         "ssh-keygen -p -m PKCS8 -f KEY");
  }
  if (holds("-----BEGIN PUBLIC KEY-----")) {
    return NotPrivateKey(name, "it is a public key", "pass dlc-check.key, not dlc-check.pub");
  }
  if (!holds("PRIVATE KEY-----")) {
    return NotPrivateKey(name, "no PEM private key in it",
                         "make one with `dlc-check keygen --out-dir DIR`");
  }
  return NotPrivateKey(name, reason, "");
}

/// Only EC PARAMETERS may stand beside the key (`openssl ecparam -genkey` writes it).
openssl::Pkey ReadPrivateKey(std::string_view pem, PassphraseRequest& request) {
  const openssl::Bio bio = openssl::ReadFrom(pem);
  return openssl::Pkey(PEM_read_bio_PrivateKey(bio.get(), nullptr, OnPassphrase, &request));
}

std::string ReadableByOthers(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || (status.st_mode & 0077U) == 0) {
    return "";
  }
  return "key file '" + path + "' can be read by other users: chmod 600 " + path;
}

const char* Environment(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment
  return std::getenv(name);
}

}  // namespace

Result<std::unique_ptr<Signer>> ParseSigningKey(std::string_view pem, const std::string& name,
                                                const AskPassphrase& ask) {
  PassphraseRequest request{ask, name, false, {}, false};
  openssl::Pkey pkey = ReadPrivateKey(pem, request);
  if (request.failed) {
    ERR_clear_error();
    return request.error;
  }
  if (pkey == nullptr) {
    const std::string reason = openssl::TakeError();
    if (request.asked) {
      return NotPrivateKey(name, "the passphrase does not open it (" + reason + ")", "");
    }
    return ExplainUnreadable(pem, name, reason);
  }
  auto key = openssl::PublicHalf(pkey.get(), name);
  if (!key) {
    return std::move(key).error();
  }
  return std::unique_ptr<Signer>(
      std::make_unique<PemSigner>(std::move(pkey), std::move(key).value()));
}

Result<SigningKey> LoadSigningKey(const std::string& where, const AskPassphrase& ask) {
  SigningKey loaded;
  std::string pem;
  if (where.starts_with(kEnvironment)) {
    const std::string variable = where.substr(kEnvironment.size());
    const char* text = Environment(variable.c_str());
    if (text == nullptr || *text == '\0') {
      return Error{ErrorCode::kInvalidInput,
                   "environment variable '" + variable + "' for the signing key is not set",
                   "put the PEM text of the private key there"};
    }
    pem = text;
  } else {
    auto bytes = ReadFileBytes(where, kMaxKeyFileBytes);
    if (!bytes) {
      return std::move(bytes).error();
    }
    pem = std::move(bytes).value();
    loaded.warning = ReadableByOthers(where);
  }
  AskPassphrase source = ask;
  if (const char* phrase = Environment(kPassphraseVariable); phrase != nullptr) {
    source = [phrase](const std::string&) { return Result<std::string>(std::string(phrase)); };
  }
  auto signer = ParseSigningKey(pem, where, source);
  OPENSSL_cleanse(pem.data(), pem.size());
  if (!signer) {
    return std::move(signer).error();
  }
  loaded.signer = std::move(signer).value();
  return loaded;
}

}  // namespace dlc
