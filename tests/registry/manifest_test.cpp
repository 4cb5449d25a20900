#include "probes/control/registry/manifest.h"

#include <doctest/doctest.h>

#include <string>

namespace dlc {
namespace {

const std::string kA = std::string(64, 'a');
const std::string kB = std::string(64, 'b');

std::string Entry(const std::string& hex, const std::string& more) {
  return R"({"digest": "sha256:)" + hex + "\"" + more + "}";
}
std::string Platform(const std::string& os, const std::string& architecture) {
  return R"(, "platform": {"os": ")" + os + R"(", "architecture": ")" + architecture + "\"}";
}
std::string Index(const std::string& entries) {
  return R"({"schemaVersion": 2, "manifests": [)" + entries + "]}";
}
std::string Manifest(const std::string& config_type, const std::string& more = "") {
  return R"({"schemaVersion": 2, "config": {"mediaType": ")" + config_type +
         R"(", "digest": "sha256:)" + kA + R"("}, "layers": [])" + more + "}";
}

TEST_CASE("manifest: an index is told by its members, with or without a mediaType") {
  const auto index = ParseManifest(Index(Entry(kA, Platform("linux", "amd64"))), "m");
  REQUIRE(index.has_value());
  CHECK(index->is_index);
  CHECK(index->media_type.empty());
  REQUIRE(index->members.size() == 1);
  CHECK(index->members[0].digest.hex == kA);
  CHECK(index->members[0].architecture == "amd64");
  CHECK(index->members[0].runnable);
}

TEST_CASE("manifest: attestations and artifacts in an index are not runnable") {
  for (const std::string& more :
       {Platform("unknown", "unknown"),
        Platform("linux", "amd64") + R"(, "artifactType": "application/x")",
        Platform("linux", "amd64") +
            R"(, "annotations": {"vnd.docker.reference.type": "attestation-manifest"})"}) {
    CAPTURE(more);
    const auto index = ParseManifest(Index(Entry(kA, more)), "m");
    REQUIRE(index.has_value());
    CHECK_FALSE(index->members[0].runnable);
    CHECK(index->members[0].config_digest.not_looked_at());
    CHECK(FindLinuxAmd64(index->members) == -1);
  }
}

TEST_CASE("manifest: linux/amd64 is found at any place, without platforms the only member is it") {
  const auto find = [](const std::string& entries) {
    const auto index = ParseManifest(Index(entries), "m");
    REQUIRE(index.has_value());
    return FindLinuxAmd64(index->members);
  };
  const std::string arm = Entry(kA, Platform("linux", "arm64"));
  const std::string amd = Entry(kB, Platform("linux", "amd64"));
  const std::string windows = Entry(kB, Platform("windows", "amd64"));
  CHECK(find(arm + "," + amd) == 1);
  CHECK(find(amd + "," + arm) == 0);
  CHECK(find(arm + "," + windows) == -1);
  CHECK(find(arm) == -1);
  CHECK(find(Entry(kA, "")) == 0);
  CHECK(find(Entry(kA, "") + "," + Entry(kB, "")) == -1);
  CHECK(find(Entry(kA, "") + "," + arm) == -1);
  CHECK(find("") == -1);
}

TEST_CASE("manifest: by its config's type a manifest is an image or an artifact") {
  const auto artifact_type = [](const std::string& text) {
    const auto manifest = ParseManifest(text, "m");
    REQUIRE(manifest.has_value());
    CHECK(manifest->config_digest.hex == kA);
    return manifest->artifact_type;
  };
  CHECK(artifact_type(Manifest("application/vnd.oci.image.config.v1+json")).empty());
  CHECK(artifact_type(Manifest("application/vnd.docker.container.image.v1+json")).empty());
  CHECK(artifact_type(Manifest("application/vnd.oci.empty.v1+json")) ==
        "application/vnd.oci.empty.v1+json");
  CHECK(artifact_type(Manifest("application/vnd.oci.image.config.v1+json",
                               R"(, "artifactType": "application/x")")) == "application/x");
}

TEST_CASE("manifest: what is none, is two, or is of another age is refused") {
  struct Row {
    std::string text;
    ErrorCode code;
    const char* message;
  };
  const Row rows[] = {
      {"", ErrorCode::kUnavailable, "parse error"},
      {"[]", ErrorCode::kUnavailable, "not a JSON object"},
      {"{}", ErrorCode::kUnavailable, "neither 'manifests' nor 'config'"},
      {R"({"manifests": [], "layers": []})", ErrorCode::kUnavailable, "both"},
      {R"({"manifests": {}})", ErrorCode::kUnavailable, "not a list"},
      {R"({"manifests": [1]})", ErrorCode::kUnavailable, "member 0"},
      {R"({"config": "x"})", ErrorCode::kUnavailable, "config: '' is not a digest"},
      {R"({"manifests": [], "mediaType": "application/vnd.oci.image.manifest.v1+json"})",
       ErrorCode::kUnavailable, "contradicts"},
      {R"({"schemaVersion": 1, "manifests": []})", ErrorCode::kUnsupported, "schema 1"},
      {Index(Entry(kA, R"(, "mediaType": "application/vnd.oci.image.index.v1+json")")),
       ErrorCode::kUnsupported, "index inside an index"},
      {Index(Entry(kA, R"(, "digest": "sha256:)" + kB + "\"")), ErrorCode::kUnavailable,
       "duplicate key"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const auto manifest = ParseManifest(row.text, "app:v1");
    REQUIRE_FALSE(manifest.has_value());
    CHECK(manifest.error().code == row.code);
    CHECK(manifest.error().message.starts_with("app:v1"));
    CHECK(manifest.error().message.find(row.message) != std::string::npos);
  }
}

TEST_CASE("image config: labels, environment and entrypoint, null where docker writes null") {
  const auto config = ParseImageConfig(
      R"({"os": "linux", "architecture": "amd64", "created": "1970-01-01T00:00:00Z", "config":
          {"Labels": {"framework": "ray"}, "Env": ["A=1=2", "B=", "C"], "Entrypoint": ["/e", "x"]}})",
      Digest{kA});
  REQUIRE(config.has_value());
  CHECK(config->digest.hex == kA);
  CHECK(config->labels == std::map<std::string, std::string>{{"framework", "ray"}});
  CHECK(config->env == std::map<std::string, std::string>{{"A", "1=2"}, {"B", ""}, {"C", ""}});
  CHECK(config->entrypoint == std::vector<std::string>{"/e", "x"});
  const auto bare = ParseImageConfig(
      R"({"os": "linux", "architecture": "arm64",
          "config": {"Labels": null, "Env": null, "Entrypoint": null}})",
      Digest{kA});
  REQUIRE(bare.has_value());
  CHECK(bare->labels.empty());
  CHECK(bare->env.empty());
  CHECK(bare->entrypoint.empty());
  CHECK_FALSE(ParseImageConfig("{}", Digest{kA}).has_value());
  CHECK_FALSE(ParseImageConfig("nonsense", Digest{kA}).has_value());
}

TEST_CASE("layout index: tags are an annotation, and digests are checked before any path is made") {
  const auto entries = ParseLayoutIndex(
      Index(Entry(kA, R"(, "annotations": {"org.opencontainers.image.ref.name": "v1"})") + "," +
            Entry(kB, "")),
      "index.json");
  REQUIRE(entries.has_value());
  CHECK(*entries == std::vector<LayoutEntry>{{"v1", "", Digest{kA}}, {"", "", Digest{kB}}});
  for (const char* text :
       {"", "{}", R"({"manifests": [{"digest": "sha256:../../etc"}]})", R"({"manifests": [{}]})"}) {
    const auto bad = ParseLayoutIndex(text, "index.json");
    REQUIRE_FALSE(bad.has_value());
    CHECK(bad.error().code == ErrorCode::kInvalidInput);
  }
}

TEST_CASE("layout version: 1.0.0 with or without blanks, nothing else") {
  CHECK(CheckLayoutVersion(R"({"imageLayoutVersion": "1.0.0"})", "f").has_value());
  CHECK(CheckLayoutVersion(R"({"imageLayoutVersion":"1.0.0"})", "f").has_value());
  CHECK(CheckLayoutVersion(R"({"imageLayoutVersion":"1.1.0"})", "f").error().code ==
        ErrorCode::kUnsupported);
  CHECK(CheckLayoutVersion("{}", "f").error().code == ErrorCode::kUnsupported);
  CHECK(CheckLayoutVersion("x", "f").error().code == ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace dlc
