#include "reports/evidence/envelope.h"

#include <doctest/doctest.h>

#include <string>

#include "reports/evidence/base64.h"

namespace dlc {
namespace {

TEST_CASE("base64: the vectors of RFC 4648") {
  const char* rows[][2] = {{"", ""},
                           {"f", "Zg=="},
                           {"fo", "Zm8="},
                           {"foo", "Zm9v"},
                           {"foob", "Zm9vYg=="},
                           {"fooba", "Zm9vYmE="},
                           {"foobar", "Zm9vYmFy"}};
  for (const auto& row : rows) {
    CHECK(EncodeBase64(row[0]) == row[1]);
    const auto back = DecodeBase64(row[1]);
    REQUIRE(back.has_value());
    CHECK(*back == row[0]);
  }
}

TEST_CASE("base64: every byte value, and the URL alphabet, come back") {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    bytes += static_cast<char>(i);
  }
  const std::string text = EncodeBase64(bytes);
  CHECK(*DecodeBase64(text) == bytes);
  CHECK(*DecodeBase64("-_-_") == *DecodeBase64("+/+/"));
}

TEST_CASE("base64: one value has one text") {
  for (const char* text : {"Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm9v\n",
                           "Z g=", "=Zg=", "Zg==Zg==", "Zm9v!m9v", "===="}) {
    CAPTURE(text);
    CHECK_FALSE(DecodeBase64(text).has_value());
  }
}

TEST_CASE("dsse: the pre-authentication encoding is the specification's example") {
  CHECK(PreAuthenticationEncoding("http://example.com/HelloWorld", "hello world") ==
        "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
  CHECK(PreAuthenticationEncoding("", "") == "DSSEv1 0  0 ");
}

TEST_CASE("dsse: lengths in the pre-authentication encoding are bytes, not characters") {
  CHECK(PreAuthenticationEncoding("t", "\xC3\xA4") == "DSSEv1 1 t 2 \xC3\xA4");
}

TEST_CASE("envelope and bundle: what is written is read back") {
  const EnvelopeSignature signature{"SHA256:abc", "\x30\x01\xFF"};
  const std::string payload = "{\n}\n";
  for (const bool bundle : {true, false}) {
    const auto read =
        ParseEnvelope(bundle ? BundleJson(payload, signature) : EnvelopeJson(payload, signature));
    REQUIRE_MESSAGE(read.has_value(), read.error().message);
    CHECK(read->form == (bundle ? EvidenceForm::kBundle : EvidenceForm::kEnvelope));
    CHECK(read->payload_type == kPayloadType);
    CHECK(read->payload == payload);
    REQUIRE(read->signatures.size() == 1);
    CHECK(read->signatures[0].key_id == signature.key_id);
    CHECK(read->signatures[0].bytes == signature.bytes);
  }
}

TEST_CASE("envelope: a bare statement is refused as not signed, and read only on request") {
  const std::string statement = R"({"_type":"https://in-toto.io/Statement/v1"})";
  const auto refused = ParseEnvelope(statement);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.starts_with("not signed"));
  const auto read = ParseEvidenceFile(statement);
  REQUIRE(read.has_value());
  CHECK(read->form == EvidenceForm::kStatement);
  CHECK(read->payload == statement);
  CHECK(read->signatures.empty());
}

constexpr const char* kGoodBundle =
    R"({"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json",)"
    R"("verificationMaterial":{"publicKey":{"hint":"k"}},)"
    R"("dsseEnvelope":{"payloadType":"t","payload":"e30=","signatures":[{"keyid":"k","sig":"Zg=="}]}})";

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

TEST_CASE("bundle: the untouched text of the next test is good") {
  CHECK(ParseEnvelope(kGoodBundle).has_value());
  CHECK(ParseEnvelope(Replaced(kGoodBundle, R"("keyid":"k",)", "")).has_value());
  CHECK(ParseEnvelope(Replaced(kGoodBundle, R"("hint":"k")", "")).has_value());
  CHECK(ParseEnvelope(Replaced(kGoodBundle, R"({"publicKey")", R"({"tlogEntries":[],"publicKey")"))
            .has_value());
}

TEST_CASE("bundle: anything beyond the specification is refused") {
  struct Row {
    const char* name;
    std::string text;
  };
  const std::string good = kGoodBundle;
  const Row rows[] = {
      {"truncated", good.substr(0, good.size() - 1)},
      {"trailing text", good + "x"},
      {"older version", Replaced(good, "v0.3", "v0.2")},
      {"own key in the bundle", Replaced(good, R"({"mediaType")", R"({"x":1,"mediaType")")},
      {"own key in the material", Replaced(good, R"({"publicKey")", R"({"x":1,"publicKey")")},
      {"own key beside the hint", Replaced(good, R"({"hint")", R"({"x":1,"hint")")},
      {"own key in the envelope", Replaced(good, R"({"payloadType")", R"({"x":1,"payloadType")")},
      {"own key in the signature", Replaced(good, R"({"keyid")", R"({"x":1,"keyid")")},
      {"hint is not the key id", Replaced(good, R"("hint":"k")", R"("hint":"other")")},
      {"hint is a number", Replaced(good, R"("hint":"k")", R"("hint":1)")},
      {"no material", Replaced(good, R"("verificationMaterial":{"publicKey":{"hint":"k"}},)", "")},
      {"no media type",
       Replaced(good, R"("mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json",)", "")},
      {"no signature", Replaced(good, R"({"keyid":"k","sig":"Zg=="})", "")},
      {"two signatures", Replaced(good, R"("sig":"Zg=="})", R"("sig":"Zg=="},{"sig":"Zg=="})")},
      {"signature is a text", Replaced(good, R"({"keyid":"k","sig":"Zg=="})", R"("Zg==")")},
      {"signature without padding", Replaced(good, "Zg==", "Zg")},
      {"payload without padding", Replaced(good, "e30=", "e30")},
      {"payload is an object", Replaced(good, R"("e30=")", "{}")},
      {"no payload type", Replaced(good, R"("payloadType":"t",)", "")},
      {"duplicate key",
       Replaced(good, R"("payloadType":"t")", R"("payloadType":"t","payloadType":"t")")},
      {"bundle and envelope in one",
       Replaced(good, R"({"mediaType")", R"({"payloadType":"t","mediaType")")},
      {"empty object", "{}"},
      {"a list", "[]"},
      {"null", "null"},
      {"byte order mark", "\xEF\xBB\xBF" + good},
      {"deep nesting", std::string(100'000, '[')},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const auto read = ParseEnvelope(row.text);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().code == ErrorCode::kInvalidInput);
    CHECK_FALSE(read.error().message.empty());
  }
}

TEST_CASE("envelope: many signatures are read, absurdly many refused") {
  std::string list = R"({"sig":"Zg=="})";
  const auto with = [&](const std::string& signatures) {
    return ParseEnvelope(R"({"payloadType":"t","payload":"e30=","signatures":[)" + signatures +
                         "]}");
  };
  CHECK(with(list + "," + list)->signatures.size() == 2);
  for (int i = 0; i < 20; ++i) {
    list += R"(,{"sig":"Zg=="})";
  }
  CHECK_FALSE(with(list).has_value());
}

}  // namespace
}  // namespace dlc
