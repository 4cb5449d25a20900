#include "reports/evidence/public_key.h"

#include <openssl/core_names.h>
#include <openssl/pem.h>

#include <array>
#include <cstdlib>

#include "probes/input/read_file.h"
#include "reports/evidence/base64.h"
#include "reports/evidence/pkey.h"

namespace dlc {
namespace {

constexpr std::size_t kMaxKeyFileBytes = 64U << 10U;
constexpr std::size_t kP256PointBytes = 65;
constexpr std::size_t kEd25519KeyBytes = 32;
constexpr std::string_view kBegin = "-----BEGIN ";

/// RFC 4251, section 5: length as four bytes, big endian, then the bytes.
std::string SshString(std::string_view bytes) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) {
    out += static_cast<char>(bytes.size() >> static_cast<unsigned>(shift) & 0xFFU);
  }
  return out.append(bytes);
}

/// RFC 5656, section 3.1 and RFC 8709, section 4.
std::string Fingerprint(KeyType type, const std::string& spki_der) {
  const bool ed25519 = type == KeyType::kEd25519;
  const std::size_t size = ed25519 ? kEd25519KeyBytes : kP256PointBytes;
  const std::string raw = spki_der.substr(spki_der.size() - size);
  const std::string blob =
      ed25519 ? SshString("ssh-ed25519") + SshString(raw)
              : SshString("ecdsa-sha2-nistp256") + SshString("nistp256") + SshString(raw);
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned size_out = 0;
  if (EVP_Digest(blob.data(), blob.size(), hash.data(), &size_out, EVP_sha256(), nullptr) != 1) {
    std::abort();
  }
  std::string text = EncodeBase64({reinterpret_cast<const char*>(hash.data()), size_out});
  while (text.ends_with('=')) {
    text.pop_back();
  }
  return "SHA256:" + text;
}

Error WrongKeyType(const std::string& name, const std::string& what, const std::string& why) {
  return Error{ErrorCode::kUnsupported, "key '" + name + "' is " + what + ": " + why,
               "use ECDSA P-256 or Ed25519; `dlc-check keygen` makes either"};
}

Result<KeyType> TypeOf(EVP_PKEY* pkey, const std::string& name) {
  const int id = EVP_PKEY_get_base_id(pkey);
  if (id == EVP_PKEY_ED25519) {
    return KeyType::kEd25519;
  }
  if (id == EVP_PKEY_RSA || id == EVP_PKEY_RSA_PSS) {
    return WrongKeyType(name, "RSA", "evidence is signed with elliptic curves only");
  }
  if (id != EVP_PKEY_EC) {
    const char* type = EVP_PKEY_get0_type_name(pkey);
    return WrongKeyType(name, type == nullptr ? "of an unknown type" : type, "not supported");
  }
  std::array<char, 80> group{};
  if (EVP_PKEY_get_group_name(pkey, group.data(), group.size(), nullptr) != 1) {
    ERR_clear_error();
    return WrongKeyType(name, "on a curve without a name", "verifiers know named curves only");
  }
  if (std::string_view(group.data()) != "prime256v1") {
    return WrongKeyType(name, std::string("on curve ") + group.data(),
                        "verifiers disagree on the hash for curves other than P-256");
  }
  return KeyType::kP256;
}

Error NotPublicKey(const std::string& name, const std::string& why, const std::string& hint) {
  return Error{ErrorCode::kInvalidInput, "'" + name + "' is not a public key in PEM form: " + why,
               hint};
}

/// What people pass instead, told apart by the PEM label.
Error ExplainNotPublicKey(std::string_view text, const std::string& name) {
  if (text.find("PRIVATE KEY-----") != std::string_view::npos) {
    return NotPublicKey(name, "it holds a private key",
                        "pass the public half: openssl pkey -in KEY -pubout -out dlc-check.pub");
  }
  if (text.find("-----BEGIN CERTIFICATE-----") != std::string_view::npos) {
    return NotPublicKey(name, "it is a certificate",
                        "take its key: openssl x509 -in CERT -pubkey -noout");
  }
  if (text.starts_with("ssh-") || text.starts_with("ecdsa-sha2-")) {
    return NotPublicKey(name, "it is an OpenSSH key",
                        "convert it: ssh-keygen -e -m PKCS8 -f KEY.pub (ECDSA keys)");
  }
  if (text.starts_with('\x30')) {
    return NotPublicKey(name, "it is DER", "convert it: openssl pkey -pubin -inform DER -in KEY");
  }
  return NotPublicKey(name, "no 'BEGIN PUBLIC KEY' in it",
                      "pass the file dlc-check.pub that `dlc-check keygen` wrote");
}

}  // namespace

namespace openssl {

Result<PublicKey> PublicHalf(EVP_PKEY* pkey, const std::string& name) {
  auto type = TypeOf(pkey, name);
  if (!type) {
    return std::move(type).error();
  }
  if (*type == KeyType::kP256) {
    EVP_PKEY_set_utf8_string_param(pkey, OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT,
                                   "uncompressed");
  }
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(pkey, &der);
  const std::size_t least = *type == KeyType::kP256 ? kP256PointBytes : kEd25519KeyBytes;
  if (size < static_cast<int>(least)) {
    OPENSSL_free(der);
    return Error{ErrorCode::kInternal, "key '" + name + "' cannot be encoded: " + TakeError(), ""};
  }
  PublicKey key;
  key.type = *type;
  key.spki_der.assign(reinterpret_cast<const char*>(der), static_cast<std::size_t>(size));
  OPENSSL_free(der);
  key.fingerprint = Fingerprint(key.type, key.spki_der);
  return key;
}

const EVP_MD* MessageDigest(KeyType type) {
  return type == KeyType::kEd25519 ? nullptr : EVP_sha256();
}

}  // namespace openssl

const char* KeyTypeName(KeyType type) {
  return type == KeyType::kEd25519 ? "Ed25519" : "ECDSA P-256";
}

Result<PublicKey> ParsePublicKey(std::string_view pem, const std::string& name) {
  const auto first = pem.find("-----BEGIN PUBLIC KEY-----");
  if (first == std::string_view::npos) {
    return ExplainNotPublicKey(pem, name);
  }
  if (pem.find(kBegin) != first || pem.find(kBegin, first + 1) != std::string_view::npos) {
    return NotPublicKey(name, "it holds more than one PEM block", "one file for each key");
  }
  const openssl::Bio bio = openssl::ReadFrom(pem);
  const openssl::Pkey pkey(PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr));
  if (pkey == nullptr) {
    return NotPublicKey(name, openssl::TakeError(), "");
  }
  return openssl::PublicHalf(pkey.get(), name);
}

Result<PublicKey> LoadPublicKey(const std::string& path) {
  auto bytes = ReadFileBytes(path, kMaxKeyFileBytes);
  if (!bytes) {
    return std::move(bytes).error();
  }
  return ParsePublicKey(*bytes, path);
}

std::string PublicKeyPem(const PublicKey& key) {
  const openssl::Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio(bio.get(), PEM_STRING_PUBLIC, "", openssl::Unsigned(key.spki_der),
                static_cast<long>(key.spki_der.size()));
  return openssl::BytesOf(bio);
}

bool SignatureVerifies(const PublicKey& key, std::string_view message, std::string_view signature) {
  const unsigned char* der = openssl::Unsigned(key.spki_der);
  const openssl::Pkey pkey(d2i_PUBKEY(nullptr, &der, static_cast<long>(key.spki_der.size())));
  const openssl::DigestContext context(EVP_MD_CTX_new());
  const bool valid = pkey != nullptr &&
                     EVP_DigestVerifyInit(context.get(), nullptr, openssl::MessageDigest(key.type),
                                          nullptr, pkey.get()) == 1 &&
                     EVP_DigestVerify(context.get(), openssl::Unsigned(signature), signature.size(),
                                      openssl::Unsigned(message), message.size()) == 1;
  ERR_clear_error();
  return valid;
}

Digest DigestOfBytes(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned size = 0;
  // An empty digest would compare equal to another: no way on without sha256.
  if (EVP_Digest(bytes.data(), bytes.size(), hash.data(), &size, EVP_sha256(), nullptr) != 1) {
    std::abort();
  }
  return {HexText({hash.data(), size})};
}

}  // namespace dlc
