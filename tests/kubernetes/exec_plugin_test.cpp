#include "probes/control/kubernetes/exec_plugin.h"

#include <doctest/doctest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/kubernetes/scratch.h"

namespace dlc {
namespace {

constexpr const char* kV1 = "client.authentication.k8s.io/v1";

ExecPlugin Plugin(const std::string& command = "plugin") {
  ExecPlugin plugin;
  plugin.command = command;
  plugin.api_version = kV1;
  plugin.where = "config: line 7: user 'u'";
  return plugin;
}

std::string Answer(const std::string& status, const std::string& version = kV1) {
  return R"({"kind": "ExecCredential", "apiVersion": ")" + version + R"(", "status": )" + status +
         "}";
}

Deadline Soon() {
  return Deadline::After(std::chrono::seconds(20));
}

TEST_CASE("exec plugin: times of RFC 3339") {
  using std::chrono::seconds;
  const auto at = [](const char* text) {
    const auto time = ParseRfc3339(text);
    REQUIRE(time.has_value());
    return std::chrono::duration_cast<seconds>(time->time_since_epoch()).count();
  };
  CHECK(at("1970-01-01T00:00:10Z") == 10);
  CHECK(at("1970-01-01T01:00:00+01:00") == 0);
  CHECK(at("1969-12-31T22:30:00.123456-01:30") == 0);
  CHECK(at("2026-12-02T00:00:00Z") == 1796169600);
  for (const char* text : {"", "2026-12-02", "2026-12-02T00:00:00", "2026-13-02T00:00:00Z",
                           "2026-12-02 00:00:00Z", "2026-12-02T00:00:00+1:00", "x"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseRfc3339(text).has_value());
  }
}

TEST_CASE("exec plugin: it is told its version, that nobody answers, and its cluster") {
  ExecPlugin plugin = Plugin();
  plugin.cluster_json = R"({"server":"https://h"})";
  const auto info = nlohmann::json::parse(ExecInfo(plugin));
  CHECK(info["apiVersion"] == kV1);
  CHECK(info["kind"] == "ExecCredential");
  CHECK(info["spec"]["interactive"] == false);
  CHECK(info["spec"]["cluster"]["server"] == "https://h");
  CHECK_FALSE(nlohmann::json::parse(ExecInfo(Plugin()))["spec"].contains("cluster"));
}

TEST_CASE("exec plugin: a token, a certificate, a time") {
  const auto token = ParseExecCredential(
      Answer(R"({"token": "abc", "expirationTimestamp": "1970-01-01T00:00:10Z"})"), Plugin());
  REQUIRE(token.has_value());
  CHECK(token->token == "abc");
  CHECK(token->expires == std::chrono::system_clock::from_time_t(10));
  const auto pair = ParseExecCredential(
      Answer(R"({"clientCertificateData": "c", "clientKeyData": "k"})"), Plugin());
  REQUIRE(pair.has_value());
  CHECK(pair->identity == TlsIdentity{"c", "k"});
  CHECK_FALSE(pair->expires.has_value());
}

TEST_CASE("exec plugin: an answer that is none is named and not shown") {
  for (const auto& [answer, needle] :
       {std::pair{std::string("s3cret"), "no JSON"},
        {std::string(R"({"kind": "Secret", "status": {"token": "s3cret"}})"), "no ExecCredential"},
        {Answer(R"({"token": "s3cret"})", "client.authentication.k8s.io/v1beta1"), "v1beta1"},
        {Answer("{}"), "neither a token nor"},
        {Answer("null"), "neither a token nor"},
        {Answer(R"({"clientKeyData": "s3cret"})"), "alone"},
        {Answer(R"({"token": "s3cret\r\nX: y"})"), "blanks"},
        {Answer(R"({"token": "s3cret", "expirationTimestamp": "soon"})"), "no time"}}) {
    CAPTURE(answer);
    const auto parsed = ParseExecCredential(answer, Plugin());
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code == ErrorCode::kPermissionDenied);
    CHECK(Has(parsed.error().message, needle));
    CHECK(Has(parsed.error().message, "config: line 7: user 'u'"));
    CHECK_FALSE(Has(parsed.error().message, "s3cret"));
  }
}

TEST_CASE("exec plugin: arguments and environment arrive") {
  const KubeScratch scratch;
  ExecPlugin plugin = Plugin(scratch.Script("p", R"(
case "$KUBERNETES_EXEC_INFO" in *'"apiVersion":"client.authentication.k8s.io/v1"'*) ;; *) exit 9;; esac
printf '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"%s-%s"}}' "$1" "$AWS_PROFILE"
)"));
  plugin.args = {"get"};
  plugin.env = {{"AWS_PROFILE", "dev"}};
  const auto credential = RunExecPlugin(plugin, Soon(), nullptr);
  REQUIRE(credential.has_value());
  CHECK(credential->token == "get-dev");
}

TEST_CASE("exec plugin: no such program gives the install hint") {
  ExecPlugin plugin = Plugin("dlc-no-such-plugin");
  plugin.install_hint = "install it from there";
  const auto credential = RunExecPlugin(plugin, Soon(), nullptr);
  REQUIRE_FALSE(credential.has_value());
  CHECK(credential.error().code == ErrorCode::kPermissionDenied);
  CHECK(Has(credential.error().message, "'dlc-no-such-plugin' cannot be run"));
  CHECK(credential.error().hint == "install it from there");
}

TEST_CASE("exec plugin: an exit code comes with what it said, and never with its stdout") {
  const KubeScratch scratch;
  const auto credential = RunExecPlugin(
      Plugin(scratch.Script("p", "echo s3cret; echo Unable to locate credentials >&2; exit 255")),
      Soon(), nullptr);
  REQUIRE_FALSE(credential.has_value());
  CHECK(Has(credential.error().message, "exit code 255: Unable to locate credentials"));
  CHECK_FALSE(Has(credential.error().message, "s3cret"));
}

TEST_CASE("exec plugin: one that hangs ends at the deadline, or with the run") {
  const KubeScratch scratch;
  const ExecPlugin plugin = Plugin(scratch.Script("p", "exec tail -f /dev/null"));
  const auto late = RunExecPlugin(plugin, Deadline::After(std::chrono::milliseconds(200)), nullptr);
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().code == ErrorCode::kTimedOut);
  const std::atomic<bool> interrupted{true};
  const auto ended = RunExecPlugin(plugin, Soon(), &interrupted);
  REQUIRE_FALSE(ended.has_value());
  CHECK(ended.error().code == ErrorCode::kInterrupted);
}

}  // namespace
}  // namespace dlc
