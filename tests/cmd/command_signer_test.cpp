#include "cmd/dlc-check/command_signer.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "reports/evidence/write_evidence.h"
#include "tests/evidence/sample_report.h"
#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

/// A key on disk, `openssl` as the signing command, and a temporary directory of our own.
struct Fixture {
  Fixture() {
    REQUIRE(setenv("TMPDIR", temporary.Path().c_str(), 1) == 0);
    const auto made = GenerateKeyFiles(keys.Path(), KeyType::kP256, "");
    REQUIRE(made.has_value());
    files = *made;
  }
  ~Fixture() { unsetenv("TMPDIR"); }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  std::string OpenSsl() const {
    return "openssl pkeyutl -sign -inkey " + files.private_path + " -pkeyopt digest:sha256";
  }
  Result<std::string> Sign(const std::string& command) const {
    auto signer = MakeCommandSigner({command, *LoadPublicKey(files.public_path)});
    REQUIRE(signer.has_value());
    auto signature = (*signer)->Sign("message");
    CHECK(temporary.Count() == 0);
    return signature;
  }

  TemporaryDirectory keys;
  TemporaryDirectory temporary;
  KeyFiles files;
};

TEST_CASE("sign command: digest on stdin or in the file, answer in DER or base64") {
  const Fixture fixture;
  const PublicKey key = *LoadPublicKey(fixture.files.public_path);
  const std::string from_file = fixture.OpenSsl() + " -in \"$DLC_CHECK_DIGEST_FILE\"";
  for (const std::string& command : {fixture.OpenSsl() + " -in /dev/stdin", from_file,
                                     from_file + " | base64 -w0", from_file + " | base64 -w 20"}) {
    CAPTURE(command);
    const auto signature = fixture.Sign(command);
    REQUIRE_MESSAGE(signature.has_value(), signature.error().message);
    CHECK(SignatureVerifies(key, "message", *signature));
  }
}

TEST_CASE("sign command: evidence signed by a command verifies") {
  const Fixture fixture;
  auto signer = MakeCommandSigner({fixture.OpenSsl() + " -in \"$DLC_CHECK_DIGEST_FILE\"",
                                   *LoadPublicKey(fixture.files.public_path)});
  const Report report =
      sample::ReportOf(sample::Seen(), sample::PolicyDemanding(sample::kIndexHex, 8));
  const auto evidence = MakeEvidence(report, sample::PolicyDigests(report), signer->get());
  REQUIRE_MESSAGE(evidence.has_value(), evidence.error().message);
  VerifyOptions options;
  options.keys = {*LoadPublicKey(fixture.files.public_path)};
  options.now = sample::After(std::chrono::hours(1));
  options.tool_version = sample::kToolVersion;
  options.rejudge = sample::Judge;
  CHECK(VerifyEvidence(evidence->bundle, options).trust == Trust::kGenuine);
}

TEST_CASE("sign command: what is no signature of the key is refused") {
  const TemporaryDirectory other;  // before the fixture: not in its temporary directory
  const Fixture fixture;
  const auto theirs = GenerateKeyFiles(other.Path(), KeyType::kP256, "");
  const std::string file = " -in \"$DLC_CHECK_DIGEST_FILE\"";
  for (const std::string& command :
       {std::string("true"), std::string("echo hello"),
        "openssl pkeyutl -sign -inkey " + theirs->private_path + " -pkeyopt digest:sha256" + file,
        // Signs the digest of the digest: what happens without MessageType DIGEST.
        "openssl dgst -sha256 -sign " + fixture.files.private_path + " \"$DLC_CHECK_DIGEST_FILE\"",
        fixture.OpenSsl() + file + " | head -c 40"}) {
    CAPTURE(command);
    const auto refused = fixture.Sign(command);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == ErrorCode::kInvalidInput);
    CHECK(refused.error().message.find("no signature of key") != std::string::npos);
  }
}

TEST_CASE("sign command: a failing command is told with its last words") {
  const Fixture fixture;
  const auto failed = fixture.Sign("echo 'AccessDeniedException: no kms:Sign' >&2; exit 7");
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().code == ErrorCode::kUnavailable);
  CHECK_MESSAGE(failed.error().message.find("exit code 7") != std::string::npos,
                failed.error().message);
  CHECK(failed.error().message.find("AccessDeniedException") != std::string::npos);
  CHECK(fixture.Sign("kill -9 $$").error().message.find("signal 9") != std::string::npos);
  CHECK_FALSE(fixture.Sign("cat /dev/zero").has_value());
}

TEST_CASE("sign command: one that hangs, or an interrupted run, ends") {
  const Fixture fixture;
  SignCommand command{"sleep 600", *LoadPublicKey(fixture.files.public_path)};
  command.timeout = std::chrono::milliseconds(200);
  CHECK((*MakeCommandSigner(command))->Sign("message").error().code == ErrorCode::kTimedOut);
  const std::atomic<bool> interrupted = true;
  command.timeout = std::chrono::minutes(1);
  command.interrupted = &interrupted;
  CHECK((*MakeCommandSigner(command))->Sign("message").error().code == ErrorCode::kInterrupted);
  CHECK(fixture.temporary.Count() == 0);
}

TEST_CASE("sign command: no place for the digest file is an error") {
  const Fixture fixture;
  REQUIRE(setenv("TMPDIR", (fixture.temporary / "none").c_str(), 1) == 0);
  const auto failed = fixture.Sign("true");
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().code == ErrorCode::kUnavailable);
}

TEST_CASE("sign command: Ed25519 is refused, it does not sign digests") {
  const TemporaryDirectory scratch;
  const auto files = GenerateKeyFiles(scratch.Path(), KeyType::kEd25519, "");
  const auto refused = MakeCommandSigner({"true", *LoadPublicKey(files->public_path)});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace dlc
