#include <openssl/pem.h>
#include <openssl/pkcs12.h>

#include <utility>

#include "reports/evidence/new_files.h"
#include "reports/evidence/pkey.h"
#include "reports/evidence/signer.h"

namespace dlc {
namespace {

constexpr const char* kPrivateName = "dlc-check.key";
constexpr const char* kPublicName = "dlc-check.pub";
/// OWASP's figure for PBKDF2-HMAC-SHA256 (2023); OpenSSL's default is 2048.
constexpr int kIterations = 600'000;

Error Failed(const std::string& doing) {
  return Error{ErrorCode::kInternal, "cannot " + doing + ": " + openssl::TakeError(), ""};
}

openssl::Pkey Generate(KeyType type) {
  // What the macro EVP_EC_gen does, without its cast that drops a const.
  return openssl::Pkey(type == KeyType::kEd25519
                           ? EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")
                           : EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
}

Result<std::string> PrivatePem(EVP_PKEY* pkey, const std::string& passphrase) {
  const openssl::Bio bio(BIO_new(BIO_s_mem()));
  const openssl::Pkcs8Info info(EVP_PKEY2PKCS8(pkey));
  if (bio == nullptr || info == nullptr) {
    return Failed("encode the private key");
  }
  int written = 0;
  if (passphrase.empty()) {
    written = PEM_write_bio_PKCS8_PRIV_KEY_INFO(bio.get(), info.get());
  } else {
    const openssl::Pkcs8Encrypted sealed(PKCS8_encrypt(-1, EVP_aes_256_cbc(), passphrase.data(),
                                                       static_cast<int>(passphrase.size()), nullptr,
                                                       0, kIterations, info.get()));
    written = sealed == nullptr ? 0 : PEM_write_bio_PKCS8(bio.get(), sealed.get());
  }
  if (written != 1) {
    return Failed("encode the private key");
  }
  return openssl::BytesOf(bio);
}

}  // namespace

Result<KeyFiles> GenerateKeyFiles(const std::string& directory, KeyType type,
                                  const std::string& passphrase) {
  const openssl::Pkey pkey = Generate(type);
  if (pkey == nullptr) {
    return Failed("make a key");
  }
  auto key = openssl::PublicHalf(pkey.get(), kPrivateName);
  if (!key) {
    return std::move(key).error();
  }
  auto pem = PrivatePem(pkey.get(), passphrase);
  if (!pem) {
    return std::move(pem).error();
  }
  const auto written = WriteNewFiles(
      directory, {{kPrivateName, *pem, 0600}, {kPublicName, PublicKeyPem(*key), 0644}});
  if (!written) {
    return written.error();
  }
  return KeyFiles{directory + "/" + kPrivateName, directory + "/" + kPublicName, key->fingerprint};
}

}  // namespace dlc
