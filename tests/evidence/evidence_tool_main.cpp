// Drives the evidence library for tests/cli/evidence_test.py, with a judge of its own:
//   evidence_tool keygen DIR p256|ed25519 [PASSPHRASE]
//   evidence_tool make DIR KEY|- MANIFEST passed|failed|incomplete   (- signs nothing)
//   evidence_tool verify FILE PUB [HEX]                              exit 0, 1, 3 or 4 as `report
//   verify` evidence_tool schema
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "probes/input/read_file.h"
#include "reports/evidence/envelope.h"
#include "reports/evidence/preflight_schema.h"
#include "reports/evidence/verify_evidence.h"
#include "reports/evidence/write_evidence.h"
#include "tests/evidence/sample_report.h"

namespace dlc {
namespace {

[[noreturn]] void Stop(const Error& error) {
  std::fprintf(stderr, "evidence_tool: %s\n", error.message.c_str());
  if (!error.hint.empty()) {
    std::fprintf(stderr, "hint: %s\n", error.hint.c_str());
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
  std::exit(2);
}

template <class T>
T OrStop(Result<T> result) {
  if (!result) {
    Stop(result.error());
  }
  return std::move(result).value();
}

int Keygen(const std::vector<std::string>& args) {
  const KeyType type = args.at(2) == "ed25519" ? KeyType::kEd25519 : KeyType::kP256;
  const auto files =
      OrStop(GenerateKeyFiles(args.at(1), type, args.size() > 3 ? args[3] : std::string()));
  std::printf("%s\n", files.fingerprint.c_str());
  return 0;
}

int Make(const std::vector<std::string>& args) {
  const std::string manifest = OrStop(ReadFileBytes(args.at(3), 1U << 20U));
  const std::string hex = DigestOfBytes(manifest).hex;
  Observations observations = sample::Seen(hex);
  observations.run.interrupted = args.at(4) == "incomplete";
  const Report report =
      sample::ReportOf(observations, sample::PolicyDemanding(hex, args.at(4) == "failed" ? 9 : 8));
  SigningKey key;
  if (args.at(2) != "-") {
    key = OrStop(LoadSigningKey(args.at(2), nullptr));
  }
  const auto evidence =
      OrStop(MakeEvidence(report, sample::PolicyDigests(report), key.signer.get()));
  for (const std::string& path : OrStop(WriteEvidence(args.at(1), evidence))) {
    std::printf("%s\n", path.c_str());
  }
  return 0;
}

int ExitCode(const VerifyResult& result) {
  if (result.trust != Trust::kGenuine) {
    return result.trust == Trust::kTooOld ? 3 : 4;
  }
  return result.contents.outcome == Outcome::kPassed   ? 0
         : result.contents.outcome == Outcome::kFailed ? 1
                                                       : 3;
}

int Verify(const std::vector<std::string>& args) {
  VerifyOptions options;
  options.keys = {OrStop(LoadPublicKey(args.at(2)))};
  if (args.size() > 3) {
    options.expected_digests = {OrStop(Digest::Parse("sha256:" + args[3]))};
  }
  options.now = std::chrono::system_clock::now();
  options.tool_version = sample::kToolVersion;
  options.rejudge = sample::Judge;
  const VerifyResult result =
      VerifyEvidence(OrStop(ReadFileBytes(args.at(1), kMaxEvidenceBytes)), options);
  for (const VerifyStep& step : result.steps) {
    std::printf("%s %s: %s\n", step.passed ? "ok  " : "FAIL", step.name.c_str(), step.text.c_str());
  }
  return ExitCode(result);
}

int Main(const std::vector<std::string>& args) {
  const std::string command = args.empty() ? "" : args[0];
  if (command == "keygen") {
    return Keygen(args);
  }
  if (command == "make") {
    return Make(args);
  }
  if (command == "verify") {
    return Verify(args);
  }
  if (command == "schema") {
    std::fwrite(PreflightSchema().data(), 1, PreflightSchema().size(), stdout);
    return 0;
  }
  Stop({ErrorCode::kInvalidInput, "unknown command '" + command + "'", ""});
}

}  // namespace
}  // namespace dlc

int main(int argc, char** argv) {
  return dlc::Main({argv + 1, argv + argc});
}
