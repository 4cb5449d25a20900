#include "reports/evidence/write_evidence.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>

#include "probes/input/read_file.h"
#include "probes/observations/json.h"
#include "reports/evidence/contents.h"
#include "reports/evidence/envelope.h"
#include "reports/evidence/new_files.h"
#include "reports/evidence/preflight_schema.h"
#include "reports/findings_json.h"
#include "tests/evidence/sample_report.h"
#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

using Json = nlohmann::ordered_json;

std::unique_ptr<Signer> FreshSigner(KeyType type = KeyType::kP256) {
  const TemporaryDirectory scratch;
  const auto files = GenerateKeyFiles(scratch.Path(), type, "");
  return std::move(LoadSigningKey(files->private_path, nullptr)->signer);
}

Report PassedReport() {
  return sample::ReportOf(sample::Seen(), sample::PolicyDemanding(sample::kIndexHex, 8));
}

Json StatementOf(const Report& report) {
  const auto evidence = MakeEvidence(report, sample::PolicyDigests(report), nullptr);
  REQUIRE_MESSAGE(evidence.has_value(), evidence.error().message);
  return Json::parse(evidence->statement);
}

/// A signer that fails, or answers with what it is told.
class TestSigner : public Signer {
 public:
  TestSigner(PublicKey key, Result<std::string> answer)
      : key_(std::move(key)), answer_(std::move(answer)) {}
  Result<std::string> Sign(std::string_view /*pae*/) override { return answer_; }
  const PublicKey& Key() const override { return key_; }

 private:
  PublicKey key_;
  Result<std::string> answer_;
};

TEST_CASE("statement: subjects are the index and its linux/amd64 manifest, without the tag") {
  const Json statement = StatementOf(PassedReport());
  CHECK(statement["subject"].dump() ==
        R"([{"name":"registry.example/ray-train","digest":{"sha256":")" +
            std::string(sample::kIndexHex) +
            R"("}},{"name":"registry.example/ray-train","digest":{"sha256":")" +
            std::string(sample::kManifestHex) + R"("}}])");
  CHECK(statement["predicate"]["image"]["platformDigest"]["sha256"] == sample::kManifestHex);
}

TEST_CASE("statement: a plain manifest is the one subject") {
  Observations observations = sample::Seen();
  observations.served_image.value().is_index = false;
  observations.served_image.value().members.clear();
  const Json statement =
      StatementOf(sample::ReportOf(observations, sample::PolicyDemanding(sample::kIndexHex, 8)));
  CHECK(statement["subject"].size() == 1);
  CHECK(statement["subject"][0]["digest"]["sha256"] == sample::kIndexHex);
}

TEST_CASE("statement: with no registry seen the subject is the policy's digest, and it says so") {
  Observations observations = sample::Seen();
  observations.served_image = NotLookedAt{"not asked for", ""};
  const Json statement =
      StatementOf(sample::ReportOf(observations, sample::PolicyDemanding(sample::kIndexHex, 8)));
  REQUIRE(statement["subject"].size() == 1);
  CHECK(statement["subject"][0]["name"] == "dlc-check-policy-image");
  CHECK(statement["subject"][0]["digest"]["sha256"] == sample::kIndexHex);
  CHECK(statement["predicate"]["limitations"].dump().find("digest that the policy demands") !=
        std::string::npos);
  CHECK(statement["predicate"]["image"]["seen"] == false);
}

TEST_CASE("statement: with neither registry nor one policy digest the subject is what was seen") {
  Observations observations = sample::Seen();
  observations.served_image = Error{ErrorCode::kUnavailable, "registry does not answer", ""};
  const std::string other(64, '3');
  for (const std::string& policy :
       {std::string("workers: 8\n"),
        sample::PolicyDemanding(sample::kIndexHex, 8) + "digest: sha256:" + other + "\n"}) {
    const Report report = sample::ReportOf(observations, policy);
    const Json statement = StatementOf(report);
    REQUIRE(statement["subject"].size() == 1);
    CHECK(statement["subject"][0]["name"] == "dlc-check-observations");
    CHECK(statement["subject"][0]["digest"]["sha256"] ==
          DigestOfBytes(statement["predicate"]["observations"].dump()).hex);
    CHECK(statement["predicate"]["image"]["why"] == "registry does not answer");
  }
}

TEST_CASE("statement: each finding stands in the list of its verdict and severity") {
  Observations observations = sample::Seen();
  observations.run.workload.workers = 4;
  const Json predicate = StatementOf(
      sample::ReportOf(observations, sample::PolicyDemanding(sample::kIndexHex, 8)))["predicate"];
  CHECK(predicate["result"] == "FAILED");
  CHECK(predicate["passedTests"].dump() ==
        R"(["sample-image/digest image registry.example/train"])");
  CHECK(predicate["failedTests"].dump() == R"(["sample-workers/count run 0123456789abcdef"])");
  CHECK(predicate["warnedTests"].dump() == R"(["sample-pods/listed cluster train"])");
  CHECK(predicate["erroredTests"].empty());
  CHECK(predicate["skippedTests"].size() == 1);
}

TEST_CASE("statement: observations, findings and policy travel whole") {
  const Report report = PassedReport();
  const Json predicate = StatementOf(report)["predicate"];
  CHECK(predicate["checks"].dump() == FindingsToJson(report.findings, -1));
  CHECK(predicate["observations"].dump() == ObservationsToJson(report.observations, -1));
  CHECK(predicate["policy"]["text"] == report.policy_source.text);
  CHECK(predicate["policy"]["digest"]["sha256"] == DigestOfBytes(report.policy_source.text).hex);
  CHECK(predicate["configuration"][0]["annotations"]["role"] == "policy");
  CHECK(predicate["run"]["finishedAt"] == sample::kFinishedAt);
  CHECK(predicate["tool"]["digest"]["sha256"] == DigestOfBytes("tool").hex);
}

TEST_CASE("statement: the same report gives the same bytes") {
  const Report report = PassedReport();
  const auto digests = sample::PolicyDigests(report);
  CHECK(MakeEvidence(report, digests, nullptr)->statement ==
        MakeEvidence(report, digests, nullptr)->statement);
}

TEST_CASE("evidence: envelope and bundle hold the statement's bytes and the key's fingerprint") {
  for (const KeyType type : {KeyType::kP256, KeyType::kEd25519}) {
    const auto signer = FreshSigner(type);
    const Report report = PassedReport();
    const auto evidence = MakeEvidence(report, sample::PolicyDigests(report), signer.get());
    REQUIRE_MESSAGE(evidence.has_value(), evidence.error().message);
    CHECK(evidence->statement.ends_with("}\n"));
    for (const std::string& file : {evidence->bundle, evidence->envelope}) {
      const auto envelope = ParseEnvelope(file);
      REQUIRE(envelope.has_value());
      CHECK(envelope->payload == evidence->statement);
      CHECK(envelope->signatures[0].key_id == signer->Key().fingerprint);
    }
    CHECK(Json::parse(evidence->bundle)["verificationMaterial"]["publicKey"]["hint"] ==
          signer->Key().fingerprint);
    CHECK(evidence->key_fingerprint == signer->Key().fingerprint);
  }
}

TEST_CASE("evidence: a signer that fails, or answers with another key's signature, yields none") {
  const Report report = PassedReport();
  const auto digests = sample::PolicyDigests(report);
  const auto key = FreshSigner()->Key();
  TestSigner silent(key, Error{ErrorCode::kTimedOut, "no answer", ""});
  CHECK(MakeEvidence(report, digests, &silent).error().code == ErrorCode::kTimedOut);
  TestSigner wrong(key, *FreshSigner()->Sign("something else"));
  const auto refused = MakeEvidence(report, digests, &wrong);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("no signature of key") != std::string::npos);
}

TEST_CASE("evidence: a report that contradicts itself is not written") {
  const auto message = [](const Report& report) {
    const auto evidence = MakeEvidence(report, sample::PolicyDigests(report), nullptr);
    REQUIRE_FALSE(evidence.has_value());
    CHECK(evidence.error().code == ErrorCode::kInternal);
    return evidence.error().message;
  };
  Report report = PassedReport();
  report.outcome = Outcome::kFailed;
  CHECK(message(report).find("would not verify") != std::string::npos);
  report = PassedReport();
  report.findings[1].verdict = Verdict::kFail;
  CHECK_FALSE(message(report).empty());
  report = PassedReport();
  report.findings[1].does_not_establish.clear();
  CHECK_FALSE(message(report).empty());
  report = PassedReport();
  report.observations.run.finished_at.clear();
  CHECK(message(report).find("finishedAt") != std::string::npos);
}

TEST_CASE("evidence: a policy that is not UTF-8 cannot travel") {
  Report report = PassedReport();
  const auto digests = sample::PolicyDigests(report);
  report.policy_source.text += "\xFF";
  const auto evidence = MakeEvidence(report, digests, nullptr);
  REQUIRE_FALSE(evidence.has_value());
  CHECK(evidence.error().message.find("UTF-8") != std::string::npos);
}

TEST_CASE("evidence: bytes that are not UTF-8 in what was seen do not stop it") {
  Observations observations = sample::Seen();
  observations.run.invocation.emplace_back("bad\xFF");
  observations.ray.nodes.value()[0].node_name = "host\xC3";
  CHECK(StatementOf(sample::ReportOf(
            observations,
            sample::PolicyDemanding(sample::kIndexHex, 8)))["predicate"]["run"]["invocation"]
            .back() == "bad\xEF\xBF\xBD");
}

TEST_CASE("write: three files of mode 0644, or the statement alone when unsigned") {
  const Report report = PassedReport();
  const auto signer = FreshSigner();
  const auto digests = sample::PolicyDigests(report);
  const mode_t before = umask(077);
  const TemporaryDirectory scratch;
  const auto evidence = MakeEvidence(report, digests, signer.get());
  const auto paths = WriteEvidence(scratch / "run", *evidence);
  umask(before);
  REQUIRE_MESSAGE(paths.has_value(), paths.error().message);
  REQUIRE(paths->size() == 3);
  for (const std::string& path : *paths) {
    struct stat status {};
    REQUIRE(stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777U) == 0644U);
  }
  CHECK(*ReadFileBytes(scratch / "run/evidence.statement.json", 1 << 20) == evidence->statement);
  CHECK(*ReadFileBytes(scratch / "run/evidence.sigstore.json", 1 << 20) == evidence->bundle);
  CHECK(*ReadFileBytes(scratch / "run/evidence.dsse.json", 1 << 20) == evidence->envelope);
  const auto unsigned_paths =
      WriteEvidence(scratch / "unsigned", *MakeEvidence(report, digests, nullptr));
  REQUIRE(unsigned_paths.has_value());
  CHECK(unsigned_paths->size() == 1);
}

TEST_CASE("write: another run's evidence is never overwritten nor mixed with") {
  const Report report = PassedReport();
  const auto evidence = MakeEvidence(report, sample::PolicyDigests(report), nullptr);
  for (const char* name : {kBundleFileName, kEnvelopeFileName, kStatementFileName}) {
    const TemporaryDirectory scratch;
    REQUIRE(WriteNewFiles(scratch.Path(), {{name, "theirs", 0644}}).has_value());
    const auto refused = WriteEvidence(scratch.Path(), *evidence);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().hint.find("--out") != std::string::npos);
    CHECK(scratch.Count() == 1);
    CHECK(*ReadFileBytes(scratch / name, 100) == "theirs");
  }
}

TEST_CASE("write: when the disk takes no more, nothing is left behind") {
  const TemporaryDirectory scratch;
  const Report report = PassedReport();
  const auto signer = FreshSigner();
  const auto evidence = MakeEvidence(report, sample::PolicyDigests(report), signer.get());
  // A file size limit that the bundle fits and nothing else would need to meet: EFBIG stands for
  // ENOSPC, which needs a file system of its own.
  struct rlimit before {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const bool ignored = signal(SIGXFSZ, SIG_IGN) != SIG_ERR;
  REQUIRE(ignored);
  for (const std::size_t limit : {std::size_t{100}, evidence->statement.size() + 10}) {
    CAPTURE(limit);
    const struct rlimit low { limit, before.rlim_max };
    REQUIRE(setrlimit(RLIMIT_FSIZE, &low) == 0);
    const auto refused = WriteEvidence(scratch.Path(), *evidence);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == ErrorCode::kUnavailable);
    CHECK(scratch.Count() == 0);
  }
}

TEST_CASE("write files: the second name is taken, so the first is taken back") {
  const TemporaryDirectory scratch;
  REQUIRE(WriteNewFiles(scratch.Path(), {{"b", "theirs", 0644}}).has_value());
  const auto refused = WriteNewFiles(scratch.Path(), {{"a", "1", 0644}, {"b", "2", 0644}});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kInvalidInput);
  CHECK(scratch.Count() == 1);
  CHECK(*ReadFileBytes(scratch / "b", 100) == "theirs");
}

TEST_CASE("write files: a directory that is a file is an error") {
  const TemporaryDirectory scratch;
  REQUIRE(WriteNewFiles(scratch.Path(), {{"f", "", 0644}}).has_value());
  CHECK_FALSE(WriteNewFiles(scratch / "f", {{"a", "1", 0644}}).has_value());
}

TEST_CASE("read: all three forms give the report back, and say that nothing was verified") {
  const Report report = PassedReport();
  const auto signer = FreshSigner();
  const auto evidence = MakeEvidence(report, sample::PolicyDigests(report), signer.get());
  for (const std::string& file : {evidence->bundle, evidence->envelope, evidence->statement}) {
    const auto read = ReadEvidence(file);
    REQUIRE_MESSAGE(read.has_value(), read.error().message);
    CHECK(read->observations == report.observations);
    CHECK(read->findings == report.findings);
    CHECK(read->outcome == Outcome::kPassed);
    CHECK(read->policy.text == report.policy_source.text);
    CHECK(read->policy.origin == "file");
    CHECK(read->subjects.size() == 2);
    CHECK(read->signature == (file == evidence->statement ? "unsigned" : "not verified"));
  }
  CHECK_FALSE(ReadEvidence("").has_value());
  CHECK_FALSE(ReadEvidence(ObservationsToJson(report.observations, -1)).has_value());
}

TEST_CASE("schema: what is embedded is the file") {
  CHECK(PreflightSchema() == *ReadFileBytes(DLC_SCHEMA_FILE, 1 << 20));
  CHECK(Json::parse(PreflightSchema())["$schema"] == "http://json-schema.org/draft-07/schema#");
}

TEST_CASE("schema: each of its rules bites") {
  Observations observations = sample::Seen();
  observations.run.workload.workers = 4;
  const Json failed =
      StatementOf(sample::ReportOf(observations, sample::PolicyDemanding(sample::kIndexHex, 8)));
  REQUIRE(MatchPreflightSchema(failed.dump()).has_value());
  struct Row {
    const char* pointer;
    Json value;
  };
  // A null value removes the key.
  const Row rows[] = {
      {"/_type", "https://in-toto.io/Statement/v0.1"},
      {"/predicateType", "urn:other"},
      {"/subject", Json::array()},
      {"/subject", nullptr},
      {"/more", 1},
      {"/subject/0/more", 1},
      {"/subject/0/name", ""},
      {"/subject/0/digest/sha512", "00"},
      {"/subject/0/digest/sha256", std::string(64, 'A')},
      {"/subject/0/digest/sha256", std::string(63, 'a')},
      {"/subject/0/digest/sha256", "sha256:" + std::string(64, 'a')},
      {"/predicate", Json::array()},
      {"/predicate/schemaVersion", "2.0.0"},
      {"/predicate/result", "OK"},
      {"/predicate/result", "PASSED"},
      {"/predicate/result", nullptr},
      {"/predicate/failedTests", Json::array()},
      {"/predicate/limitations", Json::array()},
      {"/predicate/run/finishedAt", "2026-03-01T12:04:00+01:00"},
      {"/predicate/run/finishedAt", "yesterday"},
      {"/predicate/run/finishedAt", 1},
      {"/predicate/tool/version", nullptr},
      {"/predicate/policy/origin", "rumour"},
      {"/predicate/policy/text", nullptr},
      {"/predicate/observations/apiVersion", "v2"},
      {"/predicate/configuration/0/digest", nullptr},
      {"/predicate/checks/0/verdict", "ok"},
      {"/predicate/checks/0/severity", "high"},
      {"/predicate/checks/0/more", nullptr},  // control row: nothing removed, must match
      {"/predicate/checks/0/hint", nullptr},
      {"/predicate/checks/0/assertions", Json::array()},
      {"/predicate/checks/0/assertions/0/holds", false},
      {"/predicate/checks/0/assertions/0/op", "about"},
      {"/predicate/checks/0/assertions/0/limit", Json::object()},
      {"/predicate/checks/0/establishes", Json::array()},
      {"/predicate/checks/0/doesNotEstablish", Json::array()},
      {"/predicate/checks/0/reason/code", "threshold-not-met"},
      {"/predicate/checks/1/assertions/0/holds", true},
      {"/predicate/checks/1/reason/code", ""},
      {"/predicate/checks/2/assertions", failed["predicate"]["checks"][0]["assertions"]},
      {"/predicate/checks/2/establishes", Json::array({"something"})},
      {"/predicate/checks/3/reason/code", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.pointer));
    CAPTURE(row.value.dump());
    Json edited = failed;
    const Json::json_pointer pointer(row.pointer);
    const bool control = row.value.is_null() && !edited.contains(pointer);
    if (row.value.is_null()) {
      edited.at(pointer.parent_pointer()).erase(pointer.back());
    } else {
      edited[pointer] = row.value;
    }
    const auto matches = MatchPreflightSchema(edited.dump());
    CHECK(matches.has_value() == control);
    if (!control && !matches) {
      CHECK(matches.error().code == ErrorCode::kInvalidInput);
    }
  }
}

TEST_CASE("schema: an unknown key in the predicate is for a later version, not an error") {
  Json statement = StatementOf(PassedReport());
  statement["predicate"]["cluster"] = Json::object();
  CHECK(MatchPreflightSchema(statement.dump()).has_value());
}

}  // namespace
}  // namespace dlc
