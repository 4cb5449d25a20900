#include "probes/control/kubernetes/kubeconfig.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/kubernetes/scratch.h"

namespace dlc {
namespace {

constexpr const char* kWhole = R"(apiVersion: v1
kind: Config
preferences: {}
current-context: a
clusters:
- name: c
  cluster:
    server: https://h:6443
    certificate-authority: ca.pem
    tls-server-name: kube
    proxy-url: socks5://p:1080
    extensions:
    - name: client.authentication.k8s.io/exec
      extension: {audience: x, level: 3, on: true}
users:
- name: u
  user:
    tokenFile: sub/token
    client-key: /abs/key.pem
    as: other
    as-groups: [g1, g2]
    as-user-extra: {scopes/x: [a]}
    exec:
      command: bin/plugin
      args: [get, --x]
      env: [{name: AWS_PROFILE, value: dev}]
      apiVersion: client.authentication.k8s.io/v1
      interactiveMode: Never
      provideClusterInfo: true
contexts:
- name: a
  context: {cluster: c, user: u, namespace: n}
)";

TEST_CASE("kubeconfig: what is read, and paths relative to its file") {
  Kubeconfig config;
  REQUIRE(ParseKubeconfig(kWhole, "/etc/kube/config", config).has_value());
  const KubeconfigCluster& cluster = config.clusters.at("c");
  CHECK(cluster.server == "https://h:6443");
  CHECK(cluster.ca_file == "/etc/kube/ca.pem");
  CHECK(cluster.tls_server_name == "kube");
  CHECK(cluster.proxy_url == "socks5://p:1080");
  CHECK(cluster.exec_config == R"({"audience":"x","level":3,"on":true})");
  const KubeconfigUser& user = config.users.at("u");
  CHECK(user.token_file == "/etc/kube/sub/token");
  CHECK(user.key_file == "/abs/key.pem");
  CHECK(user.headers == std::vector<std::string>{"Impersonate-User: other", "Impersonate-Group: g1",
                                                 "Impersonate-Group: g2",
                                                 "Impersonate-Extra-scopes%2Fx: a"});
  REQUIRE(user.exec.has_value());
  CHECK(user.exec->command == "/etc/kube/bin/plugin");
  CHECK(user.exec->env.at("AWS_PROFILE") == "dev");
  CHECK(user.source == Source{"/etc/kube/config", 18});
  CHECK(config.contexts.at("a").name_space == "n");
  CHECK(config.current_context == "a");
}

TEST_CASE("kubeconfig: a command without a slash stays for PATH, and JSON is as good") {
  Kubeconfig config;
  REQUIRE(ParseKubeconfig(
              R"({"users": [{"name": "u", "user": {"exec": {"command": "aws", "args": null}}}]})",
              "d/config", config)
              .has_value());
  CHECK(config.users.at("u").exec->command == "aws");
}

TEST_CASE("kubeconfig: of each name the first file's entry counts, whole") {
  const KubeScratch scratch;
  const std::string a = scratch.Write("a", R"(clusters:
- {name: c, cluster: {server: https://first}}
users: []
)");
  const std::string b = scratch.Write("b", R"(current-context: from-b
clusters:
- {name: c, cluster: {server: https://second, tls-server-name: second}}
- {name: d, cluster: {server: https://d}}
)");
  const std::string c = scratch.Write("c", "current-context: from-c\n");
  const auto config =
      ReadKubeconfig("", a + "::" + scratch.Path() + "/absent:" + b + ":" + a + ":" + c);
  REQUIRE(config.has_value());
  CHECK(config->files == std::vector<std::string>{a, b, c});
  CHECK(config->clusters.at("c").server == "https://first");
  CHECK(config->clusters.at("c").tls_server_name.empty());
  CHECK(config->clusters.at("d").server == "https://d");
  CHECK(config->current_context == "from-b");
  CHECK(config->current_context_source == Source{b, 1});
}

TEST_CASE("kubeconfig: an explicit file stands alone and must exist") {
  const KubeScratch scratch;
  const std::string a = scratch.Write("a", "current-context: a\n");
  const auto alone = ReadKubeconfig(a, "/nowhere");
  REQUIRE(alone.has_value());
  CHECK(alone->files.size() == 1);
  const auto absent = ReadKubeconfig(scratch.Path() + "/absent", a);
  REQUIRE_FALSE(absent.has_value());
  CHECK(absent.error().code == ErrorCode::kInvalidInput);
  CHECK(Has(absent.error().message, scratch.Path() + "/absent"));
  const auto none = ReadKubeconfig("", scratch.Path() + "/absent");
  REQUIRE(none.has_value());
  CHECK(none->empty());
}

TEST_CASE("kubeconfig: what is none is refused with its line") {
  for (const auto& [text, needle] :
       {std::pair{"kind: Pod\n", "kind"},
        {"clusters: {}\n", "line 1: clusters"},
        {"clusters:\n- cluster: {server: x}\n", "line 2"},
        {"[\n", "line"},
        {"users:\n- name: u\n  user: {exec: {args: [a]}}\n", "command: is missing"},
        {"users:\n- name: u\n  user: {as: \"a\\nb\"}\n", "control character"},
        {"a: 1\n---\nb: 2\n", "one YAML document"}}) {
    CAPTURE(text);
    Kubeconfig config;
    const auto parsed = ParseKubeconfig(text, "cfg", config);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code == ErrorCode::kInvalidInput);
    CHECK(Has(parsed.error().message, "cfg"));
    CHECK(Has(parsed.error().message, needle));
  }
}

}  // namespace
}  // namespace dlc
