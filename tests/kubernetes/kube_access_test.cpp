#include "probes/control/kubernetes/kube_access.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "probes/control/http/base64.h"
#include "tests/kubernetes/scratch.h"

namespace dlc {
namespace {

constexpr const char* kPem = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";

/// A kubeconfig of one context, from the bodies of its cluster and user.
std::string OneContext(const std::string& cluster, const std::string& user) {
  return "current-context: a\nclusters:\n- name: c\n  cluster: {" + cluster +
         "}\nusers:\n- name: u\n  user: {" + user +
         "}\ncontexts:\n- {name: a, context: {cluster: c, user: u}}\n- {name: b, context: "
         "{cluster: c, user: u, namespace: of-b}}\n";
}

Result<KubeAccess> Find(const KubeScratch& scratch, const std::string& text,
                        KubeSelection selection = {}) {
  KubeEnvironment environment;
  environment.kubeconfig_list = scratch.Write("config", text);
  return FindKubeAccess(selection, environment);
}

/// "message | hint"
std::string Refused(const std::string& cluster, const std::string& user,
                    const KubeSelection& selection = {}) {
  const KubeScratch scratch;
  const auto access = Find(scratch, OneContext(cluster, user), selection);
  REQUIRE_FALSE(access.has_value());
  CHECK(access.error().code == ErrorCode::kInvalidInput);
  return access.error().message + " | " + access.error().hint;
}

TEST_CASE("kube access: the current context, else the one chosen, and its namespace") {
  const KubeScratch scratch;
  const std::string text = OneContext("server: https://h:6443", "token: t");
  const auto current = Find(scratch, text);
  REQUIRE(current.has_value());
  CHECK(current->context == "a");
  CHECK(current->name_space == "default");
  CHECK(current->user.token == "t");
  CHECK(current->server.text == "https://h:6443/");
  CHECK(Find(scratch, text, {"", "b", ""})->name_space == "of-b");
  CHECK(Find(scratch, text, {"", "b", "flag"})->name_space == "flag");
  CHECK(Has(Refused("server: https://h", "token: t", {"", "z", ""}),
            "context 'z' does not exist | the kubeconfig has a, b"));
}

TEST_CASE("kube access: data wins over files, and may be folded") {
  const KubeScratch scratch;
  scratch.Write("ca.pem", "-----BEGIN of the file");
  std::string folded = Base64Encode(kPem);
  folded.insert(10, "\\n  ");
  const auto access =
      Find(scratch, OneContext("server: https://h, certificate-authority: ca.pem, "
                               "certificate-authority-data: \"" +
                                   folded + "\"",
                               "client-certificate-data: \"" + Base64Encode("cert") +
                                   "\", client-key-data: \"" + Base64Encode("key") + "\""));
  REQUIRE(access.has_value());
  CHECK(access->ca_pem == kPem);
  CHECK(access->user.identity == TlsIdentity{"cert", "key"});
  CHECK(Find(scratch, OneContext("server: https://h, certificate-authority: ca.pem", "token: t"))
            ->ca_pem == "-----BEGIN of the file");
}

TEST_CASE("kube access: what cannot be used is refused with file, line and remedy") {
  const std::string server = "server: https://h";
  CHECK(Has(Refused("server: ''", "token: t"), "line 4: cluster 'c' has no server"));
  CHECK(Has(Refused("server: h:6443", "token: t"), "https://HOST:PORT"));
  CHECK(Has(Refused("server: http://192.0.2.1", "token: t"), "plain http"));
  CHECK(Has(Refused(server + ", proxy-url: ftp://x", "token: t"), "proxy-url"));
  CHECK(Has(Refused(server + ", certificate-authority-data: '***'", "token: t"), "not base64"));
  CHECK(Has(Refused(server + ", certificate-authority: absent.pem", "token: t"), "absent.pem"));
  CHECK(Has(Refused(server + ", certificate-authority-data: eA==", "token: t"),
            "holds no certificate"));
  CHECK(Has(Refused(server + ", insecure-skip-tls-verify: true, certificate-authority-data: eA==",
                    "token: t"),
            "contradict"));
  CHECK(Has(Refused(server, "username: a, password: s3cret"),
            "line 7: user 'u' logs in with a "
            "user name and password"));
  CHECK_FALSE(Has(Refused(server, "username: a, password: s3cret"), "s3cret"));
  CHECK(Has(Refused(server, "auth-provider: {name: gcp}"), "auth-provider 'gcp'"));
  CHECK(Has(Refused(server, "client-certificate-data: eA=="), "needs both"));
  CHECK(Has(Refused(server, "exec: {command: x}"), "exec.apiVersion is ''"));
  const std::string v1 = "apiVersion: client.authentication.k8s.io/v1";
  CHECK(Has(Refused(server, "exec: {command: x, " + v1 + "}"), "interactiveMode is missing"));
  CHECK(Has(Refused(server, "exec: {command: x, interactiveMode: Always, " + v1 + "}"),
            "wants a terminal"));
  CHECK(Has(Refused(server, "exec: {command: x, interactiveMode: Maybe, " + v1 + "}"), "'Maybe'"));
}

TEST_CASE("kube access: a skipped check of the certificate is said aloud") {
  const KubeScratch scratch;
  const auto access =
      Find(scratch, OneContext("server: https://h, insecure-skip-tls-verify: true", "token: t"));
  REQUIRE(access.has_value());
  CHECK(access->insecure_skip_tls_verify);
  REQUIRE(access->warnings.size() == 1);
  CHECK(Has(access->warnings[0], "line 4: insecure-skip-tls-verify"));
}

TEST_CASE("kube access: no credential over plain http, as kubectl") {
  const KubeScratch scratch;
  const auto access = Find(scratch, OneContext("server: http://127.0.0.1:8001", "token: t"));
  REQUIRE(access.has_value());
  CHECK(access->user.token.empty());
}

TEST_CASE("kube access: a plugin runs only where nothing else is given, and learns its cluster") {
  const KubeScratch scratch;
  const std::string exec =
      "exec: {command: bin/x, apiVersion: client.authentication.k8s.io/v1beta1, installHint: "
      "\"get \\e[31mit\", provideClusterInfo: true}";
  const std::string cluster =
      "server: https://h, certificate-authority-data: " + Base64Encode(kPem);
  const auto access = Find(scratch, OneContext(cluster, exec));
  REQUIRE(access.has_value());
  REQUIRE(access->user.exec.has_value());
  CHECK(access->user.exec->command == scratch.Path() + "/bin/x");
  CHECK(access->user.exec->install_hint == "get  [31mit");
  const auto told = nlohmann::json::parse(access->user.exec->cluster_json);
  CHECK(told["server"] == "https://h");
  CHECK(told["certificate-authority-data"] == Base64Encode(kPem));
  CHECK(told["config"].is_null());
  CHECK_FALSE(Find(scratch, OneContext(cluster, exec + ", token: t"))->user.exec.has_value());
}

TEST_CASE("kube access: in a pod its service account, unless a kubeconfig says something") {
  const KubeScratch scratch;
  scratch.Write("sa/token", "t\n");
  scratch.Write("sa/ca.crt", kPem);
  scratch.Write("sa/namespace", "ray-train\n");
  KubeEnvironment environment{scratch.Path() + "/absent", "fd00::1", "443", scratch.Path() + "/sa"};
  const auto access = FindKubeAccess({}, environment);
  REQUIRE(access.has_value());
  CHECK(access->server.text == "https://[fd00::1]:443/");
  CHECK(access->name_space == "ray-train");
  CHECK(access->user.token_file == scratch.Path() + "/sa/token");
  CHECK(access->ca_pem == kPem);
  environment.kubeconfig_list =
      scratch.Write("config", OneContext("server: https://h", "token: t"));
  CHECK(FindKubeAccess({}, environment)->context == "a");
  environment.kubeconfig_list = scratch.Write("empty", "");
  CHECK(FindKubeAccess({}, environment)->context.empty());
  environment.service_account_dir = scratch.Path() + "/nothing";
  const auto without = FindKubeAccess({}, environment);
  REQUIRE_FALSE(without.has_value());
  CHECK(Has(without.error().message, "this is a pod"));
  CHECK(Has(without.error().hint, "automountServiceAccountToken"));
}

TEST_CASE("kube access: neither kubeconfig nor pod is no localhost:8080") {
  const auto access = FindKubeAccess({}, {"/nowhere/config", "", "", ""});
  REQUIRE_FALSE(access.has_value());
  CHECK(Has(access.error().message, "no kubeconfig: /nowhere/config does not exist"));
  const KubeScratch scratch;
  CHECK(Has(Find(scratch, "clusters: []\n").error().message, "no current-context is set"));
}

}  // namespace
}  // namespace dlc
