#include <doctest/doctest.h>
#include <openssl/core_names.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <cstdlib>
#include <string>

#include "probes/input/read_file.h"
#include "reports/evidence/new_files.h"
#include "reports/evidence/openssl_handles.h"
#include "reports/evidence/public_key.h"
#include "reports/evidence/signer.h"
#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

// Public halves of two keys made with ssh-keygen, and what `ssh-keygen -l` says of them.
constexpr const char* kP256Pem = R"(-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE3dV4HX3Ohkg2VWsYyR6D6ep+sjsw
ObnCivzrapnkNJ8O5ZiDydW/J/9Oz23k0mnp2UTCFDrKUbmSYtTccIJJ7g==
-----END PUBLIC KEY-----
)";
constexpr const char* kP256CompressedPem = R"(-----BEGIN PUBLIC KEY-----
MDkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDIgAC3dV4HX3Ohkg2VWsYyR6D6ep+sjsw
ObnCivzrapnkNJ8=
-----END PUBLIC KEY-----
)";
constexpr const char* kP256Fingerprint = "SHA256:9CAscijVdWPWXR+YGx1dBLei5i/q8lIzU/pxIdvd7Ys";
constexpr const char* kEd25519Pem = R"(-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA+klcWYtRjOwAA67lBYetIrG4wMJ2nPQPiovPR9z51O8=
-----END PUBLIC KEY-----
)";
constexpr const char* kEd25519Fingerprint = "SHA256:o/A4nVljOdWXpqAVlw7csTYo8fM+BVhco71gGzreQ2A";

bool Holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

openssl::Pkey Ec(const char* curve) {
  return openssl::Pkey(EVP_EC_gen(curve));
}
openssl::Pkey Rsa() {
  return openssl::Pkey(EVP_RSA_gen(2048));
}

std::string PrivatePem(EVP_PKEY* pkey, bool traditional, const std::string& passphrase) {
  const openssl::Bio bio(BIO_new(BIO_s_mem()));
  const EVP_CIPHER* cipher = passphrase.empty() ? nullptr : EVP_aes_256_cbc();
  const auto* phrase = openssl::Unsigned(passphrase);
  const int size = static_cast<int>(passphrase.size());
  const int written = traditional ? PEM_write_bio_PrivateKey_traditional(
                                        bio.get(), pkey, cipher, phrase, size, nullptr, nullptr)
                                  : PEM_write_bio_PrivateKey(bio.get(), pkey, cipher, phrase, size,
                                                             nullptr, nullptr);
  REQUIRE(written == 1);
  return openssl::BytesOf(bio);
}

std::string PublicPem(EVP_PKEY* pkey) {
  const openssl::Bio bio(BIO_new(BIO_s_mem()));
  REQUIRE(PEM_write_bio_PUBKEY(bio.get(), pkey) == 1);
  return openssl::BytesOf(bio);
}

AskPassphrase Answer(const std::string& phrase, int& asked) {
  return [phrase, &asked](const std::string&) {
    ++asked;
    return Result<std::string>(phrase);
  };
}

void CheckSigns(Signer& signer) {
  const auto signature = signer.Sign("message");
  REQUIRE(signature.has_value());
  CHECK(SignatureVerifies(signer.Key(), "message", *signature));
  CHECK_FALSE(SignatureVerifies(signer.Key(), "Message", *signature));
  CHECK_FALSE(SignatureVerifies(signer.Key(), "message", *signature + "x"));
  CHECK_FALSE(SignatureVerifies(signer.Key(), "message", ""));
}

TEST_CASE("public key: the fingerprint is the one that ssh-keygen prints") {
  CHECK(ParsePublicKey(kP256Pem, "k")->fingerprint == kP256Fingerprint);
  CHECK(ParsePublicKey(kEd25519Pem, "k")->fingerprint == kEd25519Fingerprint);
  CHECK(ParsePublicKey(kP256Pem, "k")->type == KeyType::kP256);
  CHECK(ParsePublicKey(kEd25519Pem, "k")->type == KeyType::kEd25519);
}

TEST_CASE("public key: a compressed point is the same key") {
  CHECK(*ParsePublicKey(kP256CompressedPem, "k") == *ParsePublicKey(kP256Pem, "k"));
}

TEST_CASE("public key: PEM out is PEM in") {
  CHECK(PublicKeyPem(*ParsePublicKey(kP256Pem, "k")) == kP256Pem);
  CHECK(PublicKeyPem(*ParsePublicKey(kEd25519Pem, "k")) == kEd25519Pem);
}

TEST_CASE("public key: RSA and other curves are refused with the reason") {
  struct Row {
    openssl::Pkey pkey;
    const char* message;
  };
  Row rows[] = {{Rsa(), "is RSA"},
                {Ec("P-384"), "secp384r1"},
                {Ec("P-521"), "secp521r1"},
                {Ec("secp256k1"), "secp256k1"},
                {openssl::Pkey(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED448")), "ED448"}};
  for (const Row& row : rows) {
    const auto key = ParsePublicKey(PublicPem(row.pkey.get()), "their.pub");
    REQUIRE_FALSE(key.has_value());
    CHECK(key.error().code == ErrorCode::kUnsupported);
    CHECK_MESSAGE(Holds(key.error().message, row.message), key.error().message);
    CHECK(Holds(key.error().message, "their.pub"));
    const auto signer = ParseSigningKey(PrivatePem(row.pkey.get(), false, ""), "k", nullptr);
    REQUIRE_FALSE(signer.has_value());
    CHECK(signer.error().code == ErrorCode::kUnsupported);
  }
}

TEST_CASE("public key: what is no public key is named for what it is") {
  const std::string private_pem = PrivatePem(Ec("P-256").get(), false, "");
  struct Row {
    std::string text;
    const char* message;
  };
  const Row rows[] = {{private_pem, "private key"},
                      {private_pem + kP256Pem, "more than one"},
                      {std::string(kP256Pem) + kEd25519Pem, "more than one"},
                      {"-----BEGIN CERTIFICATE-----\n", "certificate"},
                      {"ssh-ed25519 AAAA me@host", "OpenSSH"},
                      {std::string("\x30\x59\x30\x13", 4), "DER"},
                      {"", "no 'BEGIN PUBLIC KEY'"},
                      {"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", ""},
                      {std::string(kP256Pem).substr(0, 90), ""}};
  for (const Row& row : rows) {
    const auto key = ParsePublicKey(row.text, "k");
    REQUIRE_FALSE(key.has_value());
    CHECK(key.error().code == ErrorCode::kInvalidInput);
    CHECK_MESSAGE(Holds(key.error().message, row.message), key.error().message);
  }
}

TEST_CASE("signing key: PKCS#8 and SEC1, plain and encrypted, P-256 and Ed25519") {
  const openssl::Pkey p256 = Ec("P-256");
  const openssl::Pkey ed25519(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  struct Row {
    EVP_PKEY* pkey;
    bool traditional;
    const char* passphrase;
    KeyType type;
  };
  const Row rows[] = {{p256.get(), false, "", KeyType::kP256},
                      {p256.get(), true, "", KeyType::kP256},
                      {p256.get(), false, "open sesame", KeyType::kP256},
                      {p256.get(), true, "open sesame", KeyType::kP256},
                      {ed25519.get(), false, "", KeyType::kEd25519},
                      {ed25519.get(), false, "open sesame", KeyType::kEd25519}};
  for (const Row& row : rows) {
    int asked = 0;
    const auto signer = ParseSigningKey(PrivatePem(row.pkey, row.traditional, row.passphrase), "k",
                                        Answer("open sesame", asked));
    REQUIRE_MESSAGE(signer.has_value(), signer.error().message);
    CHECK(asked == (*row.passphrase == '\0' ? 0 : 1));
    CHECK((*signer)->Key().type == row.type);
    CheckSigns(**signer);
  }
}

TEST_CASE("signing key: a wrong, missing or refused passphrase is said so") {
  const std::string pem = PrivatePem(Ec("P-256").get(), false, "right");
  int asked = 0;
  const auto wrong = ParseSigningKey(pem, "k", Answer("wrong", asked));
  REQUIRE_FALSE(wrong.has_value());
  CHECK(asked == 1);
  CHECK_MESSAGE(Holds(wrong.error().message, "passphrase"), wrong.error().message);
  const auto missing = ParseSigningKey(pem, "k", nullptr);
  REQUIRE_FALSE(missing.has_value());
  CHECK(Holds(missing.error().message, "encrypted"));
  CHECK(Holds(missing.error().hint, kPassphraseVariable));
  const auto refused = ParseSigningKey(pem, "k", [](const std::string&) {
    return Result<std::string>(Error{ErrorCode::kInterrupted, "no", ""});
  });
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kInterrupted);
}

TEST_CASE("signing key: forms that OpenSSL cannot read come with advice") {
  struct Row {
    const char* text;
    const char* message;
  };
  const Row rows[] = {
      {"-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nAAAA\n"
       "-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n",
       "cosign"},
      {"-----BEGIN ENCRYPTED COSIGN PRIVATE KEY-----\nAAAA\n"
       "-----END ENCRYPTED COSIGN PRIVATE KEY-----\n",
       "cosign"},
      {"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n", "OpenSSH"},
      {kP256Pem, "public key"},
      {"hello", "no PEM private key"},
      {"", "no PEM private key"}};
  for (const Row& row : rows) {
    const auto signer = ParseSigningKey(row.text, "k", nullptr);
    REQUIRE_FALSE(signer.has_value());
    CHECK_MESSAGE(Holds(signer.error().message, row.message), signer.error().message);
    CHECK_FALSE(signer.error().hint.empty());
  }
}

TEST_CASE("keygen: key and public half fit, modes are 0600 and 0644, nothing is overwritten") {
  for (const KeyType type : {KeyType::kP256, KeyType::kEd25519}) {
    const TemporaryDirectory scratch;
    const std::string directory = scratch / "new/keys";
    const auto files = GenerateKeyFiles(directory, type, "");
    REQUIRE_MESSAGE(files.has_value(), files.error().message);
    struct stat status {};
    REQUIRE(stat(files->private_path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777U) == 0600U);
    REQUIRE(stat(files->public_path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777U) == 0644U);
    const auto loaded = LoadSigningKey(files->private_path, nullptr);
    REQUIRE_MESSAGE(loaded.has_value(), loaded.error().message);
    CHECK(loaded->warning.empty());
    CheckSigns(*loaded->signer);
    const auto key = LoadPublicKey(files->public_path);
    REQUIRE(key.has_value());
    CHECK(*key == loaded->signer->Key());
    CHECK(key->fingerprint == files->fingerprint);
    CHECK(key->type == type);
    const auto before = ReadFileBytes(files->private_path, 10'000);
    const auto again = GenerateKeyFiles(directory, type, "");
    REQUIRE_FALSE(again.has_value());
    CHECK(again.error().code == ErrorCode::kInvalidInput);
    CHECK(*ReadFileBytes(files->private_path, 10'000) == *before);
  }
}

TEST_CASE("keygen: an existing public key alone stops it, and no private key is left behind") {
  const TemporaryDirectory scratch;
  REQUIRE(WriteNewFiles(scratch.Path(), {{"dlc-check.pub", "mine", 0644}}).has_value());
  CHECK_FALSE(GenerateKeyFiles(scratch.Path(), KeyType::kP256, "").has_value());
  CHECK(scratch.Count() == 1);
  CHECK(*ReadFileBytes(scratch / "dlc-check.pub", 100) == "mine");
}

TEST_CASE("keygen: a passphrase encrypts the key") {
  const TemporaryDirectory scratch;
  const auto files = GenerateKeyFiles(scratch.Path(), KeyType::kEd25519, "open sesame");
  REQUIRE_MESSAGE(files.has_value(), files.error().message);
  CHECK(Holds(*ReadFileBytes(files->private_path, 10'000), "BEGIN ENCRYPTED PRIVATE KEY"));
  CHECK_FALSE(LoadSigningKey(files->private_path, nullptr).has_value());
  int asked = 0;
  CHECK(LoadSigningKey(files->private_path, Answer("open sesame", asked)).has_value());
  CHECK(asked == 1);
  REQUIRE(setenv(kPassphraseVariable, "open sesame", 1) == 0);
  CHECK(LoadSigningKey(files->private_path, Answer("not asked", asked)).has_value());
  CHECK(asked == 1);
  REQUIRE(unsetenv(kPassphraseVariable) == 0);
}

TEST_CASE("signing key: a key that others can read is warned of") {
  const TemporaryDirectory scratch;
  const auto files = GenerateKeyFiles(scratch.Path(), KeyType::kP256, "");
  REQUIRE(files.has_value());
  REQUIRE(chmod(files->private_path.c_str(), 0640) == 0);
  const auto loaded = LoadSigningKey(files->private_path, nullptr);
  REQUIRE(loaded.has_value());
  CHECK(Holds(loaded->warning, "chmod 600"));
}

TEST_CASE("signing key: from an environment variable") {
  const std::string pem = PrivatePem(Ec("P-256").get(), false, "");
  REQUIRE(setenv("DLC_TEST_SIGNING_KEY", pem.c_str(), 1) == 0);
  const auto loaded = LoadSigningKey("env:DLC_TEST_SIGNING_KEY", nullptr);
  REQUIRE_MESSAGE(loaded.has_value(), loaded.error().message);
  CheckSigns(*loaded->signer);
  REQUIRE(unsetenv("DLC_TEST_SIGNING_KEY") == 0);
  const auto missing = LoadSigningKey("env:DLC_TEST_SIGNING_KEY", nullptr);
  REQUIRE_FALSE(missing.has_value());
  CHECK(Holds(missing.error().message, "DLC_TEST_SIGNING_KEY"));
}

TEST_CASE("signing key: a file that is missing, a directory or huge is an error, not a crash") {
  const TemporaryDirectory scratch;
  CHECK(LoadSigningKey(scratch / "none", nullptr).error().code == ErrorCode::kNotFound);
  CHECK(LoadSigningKey(scratch.Path(), nullptr).error().code == ErrorCode::kInvalidInput);
  CHECK(LoadPublicKey("/dev/zero").error().code == ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace dlc
