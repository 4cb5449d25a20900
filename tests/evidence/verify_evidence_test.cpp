#include "reports/evidence/verify_evidence.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "reports/evidence/envelope.h"
#include "reports/evidence/write_evidence.h"
#include "reports/findings_json.h"
#include "tests/evidence/sample_report.h"
#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

std::unique_ptr<Signer> FreshSigner(KeyType type) {
  const TemporaryDirectory scratch;
  const auto files = GenerateKeyFiles(scratch.Path(), type, "");
  return std::move(LoadSigningKey(files->private_path, nullptr)->signer);
}

Signer& TheSigner() {
  static const std::unique_ptr<Signer> kSigner = FreshSigner(KeyType::kP256);
  return *kSigner;
}

VerifyOptions Options() {
  VerifyOptions options;
  options.keys = {TheSigner().Key()};
  options.now = sample::After(1h);
  options.tool_version = sample::kToolVersion;
  options.tool_commit = "0123456789abcdef0123456789abcdef01234567";
  options.rejudge = sample::Judge;
  return options;
}

Report PassedReport() {
  return sample::ReportOf(sample::Seen(), sample::PolicyDemanding(sample::kIndexHex, 8));
}

Evidence EvidenceOf(const Report& report, Signer& signer = TheSigner()) {
  auto evidence = MakeEvidence(report, sample::PolicyDigests(report), &signer);
  REQUIRE_MESSAGE(evidence.has_value(), evidence.error().message);
  return std::move(evidence).value();
}

/// What someone who holds the key, or has it misused, could sign.
std::string Resigned(const std::string& payload, std::string_view payload_type = kPayloadType) {
  const auto signature = TheSigner().Sign(PreAuthenticationEncoding(payload_type, payload));
  std::string bundle = BundleJson(payload, {TheSigner().Key().fingerprint, *signature});
  const auto at = bundle.find(kPayloadType);
  return bundle.replace(at, kPayloadType.size(), payload_type);
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

/// The step that refused, and its text.
const VerifyStep& LastStep(const VerifyResult& result) {
  REQUIRE_FALSE(result.steps.empty());
  return result.steps.back();
}

void CheckRefused(const std::string& bytes, const std::string& step, const std::string& text = "",
                  const VerifyOptions& options = Options()) {
  const VerifyResult result = VerifyEvidence(bytes, options);
  CHECK(result.trust == Trust::kNotTrustworthy);
  CHECK_MESSAGE(LastStep(result).name == step, LastStep(result).text);
  CHECK_FALSE(LastStep(result).passed);
  CHECK_MESSAGE(LastStep(result).text.find(text) != std::string::npos, LastStep(result).text);
}

std::string WhyNot(const VerifyResult& result) {
  return result.steps.empty() ? "" : result.steps.back().name + ": " + result.steps.back().text;
}

TEST_CASE("verify: genuine evidence, both key types, both forms, each outcome") {
  struct Row {
    int workers_demanded;
    bool interrupted;
    Outcome outcome;
  };
  for (const Row& row : {Row{8, false, Outcome::kPassed}, Row{9, false, Outcome::kFailed},
                         Row{8, true, Outcome::kIncomplete}}) {
    for (const KeyType type : {KeyType::kP256, KeyType::kEd25519}) {
      Observations observations = sample::Seen();
      observations.run.interrupted = row.interrupted;
      const auto signer = FreshSigner(type);
      const Evidence evidence = EvidenceOf(
          sample::ReportOf(observations,
                           sample::PolicyDemanding(sample::kIndexHex, row.workers_demanded)),
          *signer);
      VerifyOptions options = Options();
      options.keys = {TheSigner().Key(), signer->Key()};
      options.expected_digests = {Digest{sample::kIndexHex}};
      options.max_age = 24h;
      for (const std::string& file : {evidence.bundle, evidence.envelope}) {
        const VerifyResult result = VerifyEvidence(file, options);
        REQUIRE_MESSAGE(result.trust == Trust::kGenuine, WhyNot(result));
        CHECK(result.contents.outcome == row.outcome);
        CHECK(result.key_fingerprint == signer->Key().fingerprint);
        CHECK(result.statement_digest == DigestOfBytes(evidence.statement));
        CHECK(result.contents.signature == signer->Key().fingerprint);
        CHECK(result.steps.size() == 14);
        CHECK_MESSAGE(result.notes.empty(), result.notes.front());
      }
    }
  }
}

TEST_CASE("verify: the fallback subjects verify too") {
  Observations observations = sample::Seen();
  observations.served_image = NotLookedAt{"not asked for", ""};
  for (const std::string& policy :
       {std::string("workers: 8\n"), sample::PolicyDemanding(sample::kIndexHex, 8)}) {
    const VerifyResult result =
        VerifyEvidence(EvidenceOf(sample::ReportOf(observations, policy)).bundle, Options());
    CHECK_MESSAGE(result.trust == Trust::kGenuine, WhyNot(result));
  }
}

TEST_CASE("verify: a flipped bit anywhere in the file is refused") {
  const std::string good = EvidenceOf(PassedReport()).bundle;
  REQUIRE(VerifyEvidence(good, Options()).trust == Trust::kGenuine);
  const std::size_t payload = good.find("\"payload\": \"") + 12;
  const std::size_t payload_end = good.find('"', payload);
  REQUIRE(payload_end > payload + 1000);
  for (std::size_t i = 0; i < good.size(); ++i) {
    // Every byte around the payload, and a sample of it.
    if (i > payload + 8 && i < payload_end - 8 && i % 131 != 0) {
      continue;
    }
    std::string damaged = good;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    // Line ends and indentation are not part of what is said.
    if (std::isspace(static_cast<unsigned char>(good[i])) != 0 &&
        std::isspace(static_cast<unsigned char>(damaged[i])) != 0) {
      continue;
    }
    const VerifyResult result = VerifyEvidence(damaged, Options());
    CHECK_MESSAGE(result.trust == Trust::kNotTrustworthy, "byte ", i);
  }
}

TEST_CASE("verify: what is wrong with the file is found before its payload is looked at") {
  const Evidence evidence = EvidenceOf(PassedReport());
  const auto other = FreshSigner(KeyType::kP256);
  CheckRefused("", "size", "empty");
  CheckRefused(std::string(kMaxEvidenceBytes + 1, ' '), "size", "limit");
  CheckRefused(evidence.bundle.substr(0, evidence.bundle.size() / 2), "envelope");
  CheckRefused(std::string(1'000'000, '['), "envelope");
  CheckRefused(evidence.statement, "envelope", "not signed");
  CheckRefused(Replaced(evidence.bundle, "\"sig\"", "\"sig\": \"AAAA\", \"sig\""), "envelope",
               "duplicate");
  CheckRefused(Replaced(evidence.bundle, "{\n  \"mediaType\"", "{\n  \"key\": 1, \"mediaType\""),
               "envelope", "unknown key");
  CheckRefused(Resigned(evidence.statement, "application/vnd.in-toto.preflight+json"),
               "payload-type");
  CheckRefused(EvidenceOf(PassedReport(), *other).bundle, "signature", "not given");
  VerifyOptions no_key = Options();
  no_key.keys.clear();
  CheckRefused(evidence.bundle, "signature", "no public key", no_key);
}

TEST_CASE("verify: another key's signature under the given key's id is refused") {
  const Evidence evidence = EvidenceOf(PassedReport());
  const auto other = FreshSigner(KeyType::kP256);
  const auto signature = other->Sign(PreAuthenticationEncoding(kPayloadType, evidence.statement));
  for (const std::string& key_id :
       {TheSigner().Key().fingerprint, std::string(), std::string("some other form of key id")}) {
    CheckRefused(BundleJson(evidence.statement, {key_id, *signature}), "signature",
                 "not one of the given keys");
  }
}

TEST_CASE("verify: a signature over the bare payload, or over another type, is refused") {
  const Evidence evidence = EvidenceOf(PassedReport());
  const std::string& id = TheSigner().Key().fingerprint;
  CheckRefused(BundleJson(evidence.statement, {id, *TheSigner().Sign(evidence.statement)}),
               "signature");
  CheckRefused(BundleJson(evidence.statement, {id, *TheSigner().Sign(PreAuthenticationEncoding(
                                                       "text/plain", evidence.statement))}),
               "signature");
}

TEST_CASE("verify: key ids that are absent, or of another form, do not stop a good signature") {
  const Evidence evidence = EvidenceOf(PassedReport());
  const auto signature =
      TheSigner().Sign(PreAuthenticationEncoding(kPayloadType, evidence.statement));
  for (const char* key_id : {"", "0a1b2c"}) {
    const VerifyResult result =
        VerifyEvidence(BundleJson(evidence.statement, {key_id, *signature}), Options());
    CHECK_MESSAGE(result.trust == Trust::kGenuine, WhyNot(result));
  }
}

TEST_CASE("verify: two signatures are too many for a bundle, one good of two will do in DSSE") {
  const Evidence evidence = EvidenceOf(PassedReport());
  const auto other = FreshSigner(KeyType::kEd25519);
  Json bundle = Json::parse(evidence.bundle);
  Json foreign = Json::parse(EvidenceOf(PassedReport(), *other).envelope)["signatures"][0];
  bundle["dsseEnvelope"]["signatures"].insert(bundle["dsseEnvelope"]["signatures"].begin(),
                                              foreign);
  CheckRefused(bundle.dump(), "envelope", "exactly one signature");
  CHECK(VerifyEvidence(bundle["dsseEnvelope"].dump(), Options()).trust == Trust::kGenuine);
  bundle["dsseEnvelope"]["signatures"].erase(1);
  CheckRefused(bundle["dsseEnvelope"].dump(), "signature");
}

TEST_CASE("verify: a payload that is well signed and not strict JSON is refused") {
  const std::string good = EvidenceOf(PassedReport()).statement;
  CheckRefused(Resigned(Replaced(good, "\"result\": \"PASSED\"",
                                 "\"result\": \"FAILED\", \"result\": \"PASSED\"")),
               "payload", "duplicate key 'result'");
  CheckRefused(Resigned("\xEF\xBB\xBF" + good), "payload");
  CheckRefused(Resigned(good + "{}"), "payload");
  CheckRefused(Resigned(good.substr(0, good.size() - 3)), "payload");
  CheckRefused(Resigned(Replaced(good, "qwen2-tiny", "qwen2-\xFF")), "payload");
  CheckRefused(Resigned(Replaced(good, "\"workers\": 8", "\"workers\": 1e400")), "payload");
  CheckRefused(Resigned(std::string(100'000, '[')), "payload", "nested");
  CheckRefused(Resigned(""), "payload");
}

TEST_CASE("verify: a statement of another kind or shape is refused") {
  const std::string good = EvidenceOf(PassedReport()).statement;
  CheckRefused(Resigned("null"), "types");
  CheckRefused(Resigned(R"({"_type":1})"), "types");
  CheckRefused(Resigned(Replaced(good, "Statement/v1", "Statement/v0.1")), "types", "_type");
  CheckRefused(Resigned(Replaced(good, "preflight:v1", "preflight:v2")), "types", "predicateType");
  CheckRefused(Resigned(Replaced(good, "\"_type\"", "\"more\": 1, \"_type\"")), "schema");
  CheckRefused(Resigned(Replaced(good, "\"PASSED\"", "\"OK\"")), "schema", "result");
}

TEST_CASE("verify: the subject must be what is expected, index or manifest") {
  const std::string bundle = EvidenceOf(PassedReport()).bundle;
  VerifyOptions options = Options();
  for (const char* hex : {sample::kIndexHex, sample::kManifestHex}) {
    options.expected_digests = {Digest{hex}};
    CHECK(VerifyEvidence(bundle, options).trust == Trust::kGenuine);
  }
  options.expected_digests = {Digest{sample::kIndexHex}, Digest{std::string(64, '3')}};
  CheckRefused(bundle, "subject", "not sha256:3333", options);
  options.expected_digests = {DigestOfBytes("config")};
  CheckRefused(bundle, "subject", "", options);
  options.expected_digests.clear();
  const VerifyResult result = VerifyEvidence(bundle, options);
  CHECK(result.trust == Trust::kGenuine);
  REQUIRE(result.notes.size() == 1);
  CHECK(result.notes[0].find("--digest") != std::string::npos);
}

/// Signs the edited statement of a run that passed, and of one that failed.
std::string EditedPassed(const std::function<void(Json&)>& edit) {
  Json statement = Json::parse(EvidenceOf(PassedReport()).statement);
  edit(statement);
  return Resigned(statement.dump(2) + "\n");
}

std::string EditedFailed(const std::function<void(Json&)>& edit) {
  const Report report =
      sample::ReportOf(sample::Seen(), sample::PolicyDemanding(sample::kIndexHex, 9));
  Json statement = Json::parse(EvidenceOf(report).statement);
  edit(statement["predicate"]);
  return Resigned(statement.dump(2) + "\n");
}

VerifyOptions Expecting() {
  VerifyOptions options = Options();
  options.expected_digests = {Digest{sample::kIndexHex}};
  return options;
}

TEST_CASE("verify: an edit that is signed again contradicts something else in the statement") {
  CHECK(VerifyEvidence(EditedPassed([](Json&) {}), Expecting()).trust == Trust::kGenuine);
  CHECK(VerifyEvidence(EditedFailed([](Json&) {}), Expecting()).trust == Trust::kGenuine);
  struct Row {
    const char* name;
    const char* step;
    std::function<void(Json&)> edit;
  };
  const Row rows[] = {
      {"result", "schema", [](Json& p) { p["result"] = "PASSED"; }},
      {"result, made INCOMPLETE", "outcome", [](Json& p) { p["result"] = "INCOMPLETE"; }},
      {"verdict alone", "schema", [](Json& p) { p["checks"][1]["verdict"] = "pass"; }},
      {"limit", "assertions", [](Json& p) { p["checks"][1]["assertions"][0]["limit"] = 8; }},
      {"observed", "assertions", [](Json& p) { p["checks"][1]["assertions"][0]["observed"] = 9; }},
      {"operator", "assertions", [](Json& p) { p["checks"][1]["assertions"][0]["op"] = "le"; }},
      {"holds", "schema", [](Json& p) { p["checks"][1]["assertions"][0]["holds"] = true; }},
      {"limit of the other way", "assertions",
       [](Json& p) { p["checks"][0]["assertions"][0]["limit"] = Json::array({"sha256:0"}); }},
      {"missing finding", "outcome", [](Json& p) { p["checks"].erase(1); }},
      {"severity", "outcome", [](Json& p) { p["checks"][1]["severity"] = "warn"; }},
      {"unknown finding key", "assertions", [](Json& p) { p["checks"][1]["more"] = 1; }},
      {"policy text", "policy", [](Json& p) { p["policy"]["text"] = "workers: 8\n"; }},
      {"policy digest", "policy",
       [](Json& p) { p["policy"]["digest"]["sha256"] = std::string(64, '0'); }},
      {"policy text and digest", "policy",
       [](Json& p) {
         p["policy"]["text"] = "workers: 8\n";
         p["policy"]["digest"]["sha256"] = DigestOfBytes("workers: 8\n").hex;
       }},
      {"observation", "judged-again",
       [](Json& p) { p["observations"]["run"]["workload"]["workers"] = 9; }},
      {"observation that no check reads", "judged-again",
       [](Json& p) { p["observations"]["run"]["workload"]["model"] = "other"; }},
      {"unknown observation", "assertions", [](Json& p) { p["observations"]["more"] = 1; }},
      {"test lists", "schema", [](Json& p) { std::swap(p["failedTests"], p["erroredTests"]); }},
      {"one more passed test", "judged-again",
       [](Json& p) { p["passedTests"].push_back("sample-efa/devices everywhere"); }},
      {"run id", "judged-again", [](Json& p) { p["run"]["id"] = "fedcba9876543210"; }},
      {"tool version in the summary", "judged-again", [](Json& p) { p["tool"]["version"] = "9"; }},
      {"finished later than observed", "judged-again",
       [](Json& p) { p["run"]["finishedAt"] = "2026-03-01T12:30:00Z"; }},
      {"image reference", "judged-again",
       [](Json& p) { p["image"]["reference"] = "registry.example/other"; }},
      {"configuration", "judged-again", [](Json& p) { p["configuration"] = Json::array(); }},
      {"limitations", "judged-again", [](Json& p) { p["limitations"].erase(1); }},
      {"does not establish", "judged-again",
       [](Json& p) { p["checks"][0]["doesNotEstablish"] = Json::array({"nothing much"}); }},
      {"own key in the predicate", "judged-again", [](Json& p) { p["more"] = 1; }},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    CheckRefused(EditedFailed(row.edit), row.step, "", Expecting());
  }
}

TEST_CASE("verify: a swapped subject contradicts the observations") {
  const std::string other(64, '3');
  VerifyOptions options = Options();
  options.expected_digests = {Digest{other}};
  CheckRefused(EditedPassed([&](Json& s) { s["subject"][0]["digest"]["sha256"] = other; }),
               "judged-again", "subject", options);
  CheckRefused(EditedPassed([&](Json& s) { s["subject"][0]["name"] = "registry.example/x"; }),
               "judged-again", "subject", Expecting());
}

/// The whole of the findings and summaries forged, so that only judging again can tell.
std::string ForgedPass() {
  const Report failed =
      sample::ReportOf(sample::Seen(), sample::PolicyDemanding(sample::kIndexHex, 9));
  Report forged = failed;
  forged.findings = sample::Judge(failed.observations,
                                  {"file", "", sample::PolicyDemanding(sample::kIndexHex, 8)})
                        ->findings;
  forged.outcome = Outcome::kPassed;
  return EvidenceOf(forged).bundle;
}

TEST_CASE("verify: findings forged in full do not survive judging the observations again") {
  CheckRefused(ForgedPass(), "judged-again", "sample-workers/count", Expecting());
}

TEST_CASE("verify: without a judge a full forgery passes, so the note must be there") {
  VerifyOptions options = Expecting();
  options.rejudge = nullptr;
  const VerifyResult result = VerifyEvidence(ForgedPass(), options);
  CHECK(result.trust == Trust::kGenuine);
  REQUIRE(result.notes.size() == 1);
  CHECK(result.notes[0].find("not judged again") != std::string::npos);
}

TEST_CASE("verify: another version that judges differently is a note with what it comes to") {
  const Report report =
      sample::ReportOf(sample::Seen(), sample::PolicyDemanding(sample::kIndexHex, 8));
  const std::string bundle = EvidenceOf(report).bundle;
  VerifyOptions options = Expecting();
  options.rejudge = [](const Observations& seen, const PolicySource&) {
    return sample::Judge(seen, {"file", "", sample::PolicyDemanding(sample::kIndexHex, 9)});
  };
  CheckRefused(bundle, "judged-again", "", options);
  options.tool_version = "0.2.0";
  const VerifyResult result = VerifyEvidence(bundle, options);
  CHECK_MESSAGE(result.trust == Trust::kGenuine, WhyNot(result));
  CHECK(result.contents.outcome == Outcome::kPassed);
  REQUIRE(result.notes.size() == 1);
  CHECK(result.notes[0].find("FAILED") != std::string::npos);
  // The same version from another commit is another program.
  options.tool_version = sample::kToolVersion;
  options.tool_commit = "fedcba";
  CHECK(VerifyEvidence(bundle, options).trust == Trust::kGenuine);
  options.tool_commit.clear();
  CheckRefused(bundle, "judged-again", "", options);
}

TEST_CASE("verify: another version still refuses summaries that its findings contradict") {
  VerifyOptions options = Expecting();
  options.tool_version = "0.2.0";
  CheckRefused(EditedFailed([](Json& p) { p["run"]["finishedAt"] = "2026-03-01T12:30:00Z"; }),
               "judged-again", "", options);
  CheckRefused(EditedFailed([](Json& p) { p["passedTests"].push_back("x"); }), "judged-again", "",
               options);
  const VerifyResult result =
      VerifyEvidence(EditedFailed([](Json& p) { p["cluster"] = Json::object(); }), options);
  CHECK_MESSAGE(result.trust == Trust::kGenuine, WhyNot(result));
}

TEST_CASE("verify: a policy that this version cannot read is an error, of another version a note") {
  const std::string bundle = EvidenceOf(PassedReport()).bundle;
  VerifyOptions options = Expecting();
  options.rejudge = [](const Observations&, const PolicySource&) {
    return Result<Rejudged>(Error{ErrorCode::kInvalidInput, "unknown key 'x'", ""});
  };
  CheckRefused(bundle, "judged-again", "unknown key 'x'", options);
  options.tool_version = "0.2.0";
  const VerifyResult result = VerifyEvidence(bundle, options);
  CHECK(result.trust == Trust::kGenuine);
  CHECK(result.notes.size() == 1);
}

TEST_CASE("verify: age at the limit, just beyond, and from the future") {
  const std::string bundle = EvidenceOf(PassedReport()).bundle;
  VerifyOptions options = Expecting();
  options.max_age = 24h;
  options.now = sample::After(24h);
  CHECK(VerifyEvidence(bundle, options).trust == Trust::kGenuine);
  options.now = sample::After(24h + 1s);
  const VerifyResult old = VerifyEvidence(bundle, options);
  CHECK(old.trust == Trust::kTooOld);
  CHECK(LastStep(old).name == "freshness");
  CHECK(LastStep(old).text.find("24 hours allowed") != std::string::npos);
  CHECK(old.contents.outcome == Outcome::kPassed);
  options.max_age.reset();
  CHECK(VerifyEvidence(bundle, options).trust == Trust::kGenuine);
  options.now = sample::After(-5min);
  CHECK(VerifyEvidence(bundle, options).trust == Trust::kGenuine);
  options.now = sample::After(-5min - 1s);
  CheckRefused(bundle, "freshness", "future", options);
}

TEST_CASE("verify: times that cannot be are refused") {
  for (const char* time : {"2026-02-30T12:04:00Z", "2026-13-01T12:04:00Z", "2026-03-01T24:04:00Z",
                           "2026-03-01T11:59:59Z"}) {
    Report report = PassedReport();
    report.observations.run.finished_at = time;
    CheckRefused(EvidenceOf(report).bundle, "freshness", "no possible time", Expecting());
  }
}

TEST_CASE("verify: a key that the evidence brings along is not used") {
  const auto other = FreshSigner(KeyType::kP256);
  Json bundle = Json::parse(EvidenceOf(PassedReport(), *other).bundle);
  bundle["verificationMaterial"]["publicKey"]["rawBytes"] = "AAAA";
  CheckRefused(bundle.dump(), "envelope", "hint");
}

}  // namespace
}  // namespace dlc
