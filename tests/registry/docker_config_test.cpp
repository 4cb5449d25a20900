#include "probes/control/registry/docker_config.h"

#include <doctest/doctest.h>

#include <string>

#include "probes/control/http/base64.h"

namespace dlc {
namespace {

DockerConfig Parsed(const std::string& json) {
  auto config = ParseDockerConfig(json, "config.json");
  REQUIRE(config.has_value());
  return *config;
}

TEST_CASE("docker config: base64 user and password, where the password may hold colons") {
  const auto config = Parsed(R"({"auths": {"registry.example:5000": {"auth": "dXNlcjpwYTpzcw=="}},
                                 "HttpHeaders": {"X": "y"}, "psFormat": "z"})");
  CHECK(AuthFor(config, "registry.example:5000", "any") == Credential{"user", "pa:ss", ""});
  CHECK_FALSE(AuthFor(config, "registry.example", "any").has_value());
  CHECK_FALSE(AuthFor(config, "registry.example:5001", "any").has_value());
}

TEST_CASE("docker config: the other ways to write an entry") {
  const auto config = Parsed(R"({"auths": {
      "a": {"username": "u", "password": "p"},
      "b": {"identitytoken": "t", "auth": "MDAwOg=="},
      "c": {},
      "d": {"auth": "dTpwAAA="}}})");
  CHECK(AuthFor(config, "a", "x") == Credential{"u", "p", ""});
  CHECK(AuthFor(config, "b", "x") == Credential{"000", "", "t"});
  CHECK_FALSE(AuthFor(config, "c", "x").has_value());
  CHECK(AuthFor(config, "d", "x") == Credential{"u", "p", ""});
}

TEST_CASE("docker config: keys that name a registry") {
  struct Row {
    const char* key;
    const char* registry;
    bool fits;
  };
  for (const Row& row :
       {Row{"https://index.docker.io/v1/", "docker.io", true}, Row{"docker.io", "docker.io", true},
        Row{"registry-1.docker.io", "docker.io", true},
        Row{"https://r.example/v2/", "r.example", true}, Row{"http://r.example", "r.example", true},
        Row{"r.example/", "r.example", true}, Row{"r.example.evil.com", "r.example", false},
        Row{"r.example", "r.example.evil.com", false},
        Row{"https://r.example:443", "r.example", false}}) {
    CAPTURE(row.key);
    DockerConfig config;
    config.auths[row.key] = {"u", "p", ""};
    CHECK(AuthFor(config, row.registry, "a/b").has_value() == row.fits);
  }
}

TEST_CASE("docker config: the key with the longest fitting path wins") {
  DockerConfig config;
  config.auths["r.example"] = {"host", "", ""};
  config.auths["r.example/team"] = {"team", "", ""};
  config.auths["r.example/team/app"] = {"app", "", ""};
  CHECK(AuthFor(config, "r.example", "team/app")->username == "app");
  CHECK(AuthFor(config, "r.example", "team/app2")->username == "team");
  CHECK(AuthFor(config, "r.example", "teammate")->username == "host");
}

TEST_CASE("docker config: a credHelper wins over the credsStore") {
  const auto config = Parsed(R"({"credsStore": "desktop",
      "credHelpers": {"a.example": "ecr-login", "https://index.docker.io/v1/": "hub"}})");
  CHECK(HelperFor(config, "a.example") == "ecr-login");
  CHECK(HelperFor(config, "b.example") == "desktop");
  CHECK(HelperFor(config, "docker.io") == "hub");
  CHECK(HelperFor(Parsed("{}"), "a.example").empty());
  CHECK(DockerServerName("docker.io") == "https://index.docker.io/v1/");
  CHECK(DockerServerName("a.example:5000") == "a.example:5000");
}

TEST_CASE("docker config: what is malformed is refused by file and key") {
  struct Row {
    const char* json;
    const char* message;
  };
  for (const Row& row :
       {Row{"[]", "not a JSON object"}, Row{"{", "parse error"},
        Row{R"({"auths": 1})", "auths is not an object"},
        Row{R"({"auths": {"h": 1}})", "auths['h'] is not an object"},
        Row{R"({"auths": {"h": {"auth": 1}}})", "auths['h'].auth is not text"},
        Row{R"({"auths": {"h": {"auth": "@"}}})", "auths['h'].auth is not base64"},
        Row{R"({"auths": {"h": {"auth": "dXNlcg=="}}})", "auths['h'].auth is not base64"},
        Row{R"({"auths": {}, "auths": {}})", "duplicate key 'auths'"},
        Row{R"({"credsStore": 1})", "credsStore is not text"},
        Row{R"({"credsStore": "../x"})", "credsStore is not a helper's name"},
        Row{R"({"credHelpers": {"h": 1}})", "credHelpers.h is not text"},
        Row{R"({"credHelpers": {"h": "a/b"}})", "credHelpers['h'] is not a helper's name"}}) {
    CAPTURE(row.json);
    const auto config = ParseDockerConfig(row.json, "/home/u/config.json");
    REQUIRE_FALSE(config.has_value());
    CHECK(config.error().code == ErrorCode::kInvalidInput);
    CHECK(config.error().message.starts_with("docker config '/home/u/config.json': "));
    CHECK(config.error().message.find(row.message) != std::string::npos);
  }
}

TEST_CASE("base64: RFC 4648's vectors both ways, and nothing else") {
  const char* const vectors[][2] = {{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"fooba", "Zm9vYmE="},
                                    {"foobar", "Zm9vYmFy"}};
  for (const auto& row : vectors) {
    CHECK(Base64Encode(row[0]) == row[1]);
    CHECK(Base64Decode(row[1]) == row[0]);
  }
  for (const char* text : {"Zg=", "Zg", "Z===", " Zg==", "Zg==\n", "Z!==", "Zg==Zg=="}) {
    CAPTURE(text);
    CHECK_FALSE(Base64Decode(text).has_value());
  }
}

}  // namespace
}  // namespace dlc
