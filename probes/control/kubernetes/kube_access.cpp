#include "probes/control/kubernetes/kube_access.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "probes/control/http/base64.h"
#include "probes/control/kubernetes/kubeconfig.h"
#include "probes/documents/node.h"
#include "probes/input/read_file.h"

namespace dlc {
namespace {

constexpr std::size_t kMaxPemBytes = 1U << 20U;
constexpr const char* kV1 = "client.authentication.k8s.io/v1";
constexpr const char* kV1Beta1 = "client.authentication.k8s.io/v1beta1";

Error At(const Source& source, const std::string& message, std::string hint = "") {
  return DocumentError(source.file, source.line, message, std::move(hint));
}

std::string Names(const std::map<std::string, KubeconfigContext>& entries) {
  std::string names;
  for (const auto& [name, entry] : entries) {
    names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

/// Base64 as YAML may fold it.
std::optional<std::string> Decoded(std::string text) {
  std::erase_if(text, [](unsigned char c) { return c <= ' '; });
  return Base64Decode(text);
}

/// Data wins over the file, as in kubectl.
Result<std::string> Pem(const std::string& data, const std::string& file, const char* key,
                        const Source& source) {
  if (!data.empty()) {
    auto bytes = Decoded(data);
    if (!bytes || bytes->empty()) {
      return At(source, std::string(key) + "-data is not base64");
    }
    return std::move(*bytes);
  }
  if (file.empty()) {
    return std::string();
  }
  auto bytes = ReadFileBytes(file, kMaxPemBytes);
  if (!bytes) {
    return At(source, std::string(key) + ": " + bytes.error().message);
  }
  return bytes;
}

std::string Printable(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool control = static_cast<unsigned char>(c) < ' ' || c == '\x7f';
    result += control ? ' ' : c;
  }
  return result;
}

Result<void> CheckExec(const KubeconfigExec& exec) {
  if (exec.api_version != kV1 && exec.api_version != kV1Beta1) {
    return At(exec.source,
              "exec.apiVersion is '" + Printable(exec.api_version) + "', and " + kV1 + " and " +
                  kV1Beta1 + " are known",
              "make the kubeconfig anew with a current tool (aws eks update-kubeconfig)");
  }
  const std::string& mode = exec.interactive_mode;
  if (mode.empty() && exec.api_version == kV1) {
    return At(exec.source, "exec.interactiveMode is missing, which " + exec.api_version + " needs",
              "add interactiveMode: IfAvailable");
  }
  if (mode == "Always") {
    return At(exec.source,
              "the credential plugin '" + Printable(exec.command) +
                  "' wants a terminal (interactiveMode: Always), and is given none",
              "log in by hand and use a context with a token, or a plugin that asks nothing");
  }
  if (!mode.empty() && mode != "Never" && mode != "IfAvailable") {
    return At(exec.source, "exec.interactiveMode is '" + Printable(mode) +
                               "', and Never, IfAvailable and Always are known");
  }
  return {};
}

/// spec.cluster of ExecCredential.
std::string ClusterJson(const KubeconfigCluster& cluster, const std::string& ca_pem) {
  nlohmann::ordered_json json{{"server", cluster.server}};
  if (!cluster.tls_server_name.empty()) {
    json["tls-server-name"] = cluster.tls_server_name;
  }
  if (cluster.insecure_skip_tls_verify) {
    json["insecure-skip-tls-verify"] = true;
  }
  if (!ca_pem.empty()) {
    json["certificate-authority-data"] = Base64Encode(ca_pem);
  }
  if (cluster.proxy_url) {
    json["proxy-url"] = *cluster.proxy_url;
  }
  auto config = cluster.exec_config.empty()
                    ? nlohmann::ordered_json()
                    : nlohmann::ordered_json::parse(cluster.exec_config, nullptr, false);
  json["config"] = std::move(config);
  return json.dump();
}

/// Joins one context's cluster and user into an access.
class AccessBuilder {
 public:
  AccessBuilder(const Kubeconfig& config, const KubeSelection& selection)
      : config_(config), selection_(selection) {}

  Result<KubeAccess> Build() {
    if (auto done = Context(); !done) {
      return std::move(done).error();
    }
    if (auto done = Server(); !done) {
      return std::move(done).error();
    }
    if (auto done = Trust(); !done) {
      return std::move(done).error();
    }
    if (auto done = User(); !done) {
      return std::move(done).error();
    }
    return std::move(access_);
  }

 private:
  Result<void> Context() {
    const bool chosen = !selection_.context.empty();
    const std::string& name = chosen ? selection_.context : config_.current_context;
    if (name.empty()) {
      return Error{
          ErrorCode::kInvalidInput, "kubeconfig " + Files() + ": no current-context is set",
          config_.contexts.empty() ? "it has no context at all"
                                   : "choose one with --context: " + Names(config_.contexts)};
    }
    const auto it = config_.contexts.find(name);
    if (it == config_.contexts.end()) {
      const std::string what = "context '" + Printable(name) + "' does not exist";
      const std::string hint =
          "the kubeconfig has " +
          (config_.contexts.empty() ? std::string("no context") : Names(config_.contexts));
      return chosen ? Error{ErrorCode::kInvalidInput, "kubeconfig " + Files() + ": " + what, hint}
                    : At(config_.current_context_source, "current-context: " + what, hint);
    }
    context_ = &it->second;
    access_.context = name;
    access_.source = "kubeconfig " + context_->source.file;
    access_.name_space = !selection_.name_space.empty() ? selection_.name_space
                         : context_->name_space.empty() ? "default"
                                                        : context_->name_space;
    const auto cluster = config_.clusters.find(context_->cluster);
    if (cluster == config_.clusters.end()) {
      return At(context_->source, "context '" + name + "' names cluster '" +
                                      Printable(context_->cluster) + "', which does not exist");
    }
    cluster_ = &cluster->second;
    if (context_->user.empty()) {
      return {};
    }
    const auto user = config_.users.find(context_->user);
    if (user == config_.users.end()) {
      return At(context_->source, "context '" + name + "' names user '" +
                                      Printable(context_->user) + "', which does not exist");
    }
    user_ = &user->second;
    return {};
  }

  Result<void> Server() {
    const std::string name = "cluster '" + Printable(context_->cluster) + "'";
    if (cluster_->server.empty()) {
      return At(cluster_->source, name + " has no server");
    }
    auto url = ParseUrl(cluster_->server);
    if (!url) {
      return At(cluster_->source, "server of " + name + ": " + url.error().message,
                "write it as https://HOST:PORT");
    }
    if (url->scheme == "http" && !IsLoopback(*url)) {
      return At(cluster_->source,
                "server of " + name +
                    " is plain http: anyone on the way could read and change what it says",
                "use its https address");
    }
    access_.server = std::move(*url);
    access_.tls_server_name = cluster_->tls_server_name;
    access_.compression = !cluster_->disable_compression;
    if (!cluster_->proxy_url) {
      return {};
    }
    const std::string& proxy = *cluster_->proxy_url;
    if (!proxy.starts_with("http://") && !proxy.starts_with("https://") &&
        !proxy.starts_with("socks5://")) {
      return At(cluster_->source,
                "proxy-url of " + name + " is none of http://, https:// and socks5://");
    }
    access_.proxy = proxy;
    return {};
  }

  Result<void> Trust() {
    const bool any_ca = !cluster_->ca_data.empty() || !cluster_->ca_file.empty();
    if (cluster_->insecure_skip_tls_verify) {
      if (any_ca) {
        return At(cluster_->source,
                  "a certificate authority and insecure-skip-tls-verify contradict each other",
                  "remove insecure-skip-tls-verify");
      }
      access_.insecure_skip_tls_verify = true;
      access_.warnings.push_back(
          cluster_->source.file + ": line " + std::to_string(cluster_->source.line) +
          ": insecure-skip-tls-verify: nothing shows that this is the API server");
      return {};
    }
    auto pem = Pem(cluster_->ca_data, cluster_->ca_file, "certificate-authority", cluster_->source);
    if (!pem) {
      return std::move(pem).error();
    }
    if (any_ca && pem->find("-----BEGIN") == std::string::npos) {
      return At(cluster_->source, "the certificate authority holds no certificate (PEM)");
    }
    access_.ca_pem = std::move(*pem);
    access_.ca_name = cluster_->ca_data.empty()
                          ? "'" + cluster_->ca_file + "'"
                          : "certificate-authority-data of " + cluster_->source.file + ", line " +
                                std::to_string(cluster_->source.line);
    return {};
  }

  Result<void> User() {
    if (user_ == nullptr) {
      return {};
    }
    const std::string name = "user '" + Printable(context_->user) + "'";
    access_.user.where =
        user_->source.file + ": line " + std::to_string(user_->source.line) + ": " + name;
    access_.user.headers = user_->headers;
    if (access_.server.scheme == "http") {
      return {};  // as kubectl: credentials go over TLS alone
    }
    if (user_->has_basic) {
      return At(user_->source,
                name +
                    " logs in with a user name and password, which Kubernetes "
                    "has not taken since 1.19",
                "use a token, a client certificate or an exec plugin");
    }
    if (!user_->auth_provider.empty()) {
      return At(user_->source,
                name + " uses auth-provider '" + Printable(user_->auth_provider) +
                    "', which kubectl has dropped with 1.26",
                "use its exec plugin (gke-gcloud-auth-plugin, kubelogin)");
    }
    access_.user.token = user_->token;
    access_.user.token_file = user_->token_file;
    if (auto done = Identity(name); !done) {
      return done;
    }
    const bool enough = !access_.user.token.empty() || !access_.user.token_file.empty() ||
                        !access_.user.identity.empty();
    return user_->exec && !enough ? Exec(*user_->exec) : Result<void>();
  }

  Result<void> Identity(const std::string& name) {
    auto certificate =
        Pem(user_->certificate_data, user_->certificate_file, "client-certificate", user_->source);
    if (!certificate) {
      return std::move(certificate).error();
    }
    auto key = Pem(user_->key_data, user_->key_file, "client-key", user_->source);
    if (!key) {
      return std::move(key).error();
    }
    if (certificate->empty() != key->empty()) {
      return At(user_->source, name + " has a client certificate or a client key, and needs both");
    }
    access_.user.identity = {std::move(*certificate), std::move(*key)};
    return {};
  }

  Result<void> Exec(const KubeconfigExec& exec) {
    if (auto fine = CheckExec(exec); !fine) {
      return fine;
    }
    ExecPlugin plugin{
        exec.command, exec.args,         exec.env, exec.api_version, Printable(exec.install_hint),
        "",           access_.user.where};
    if (exec.provide_cluster_info) {
      plugin.cluster_json = ClusterJson(*cluster_, access_.ca_pem);
    }
    access_.user.exec = std::move(plugin);
    return {};
  }

  std::string Files() const {
    std::string names;
    for (const std::string& file : config_.files) {
      names += (names.empty() ? "" : ":") + file;
    }
    return names;
  }

  const Kubeconfig& config_;
  const KubeSelection& selection_;
  const KubeconfigContext* context_ = nullptr;
  const KubeconfigCluster* cluster_ = nullptr;
  const KubeconfigUser* user_ = nullptr;
  KubeAccess access_;
};

Result<KubeAccess> InCluster(const KubeSelection& selection, const KubeEnvironment& environment) {
  const std::string& directory = environment.service_account_dir;
  const std::string host = environment.service_host.find(':') == std::string::npos
                               ? environment.service_host
                               : "[" + environment.service_host + "]";
  auto url = ParseUrl("https://" + host + ":" + environment.service_port);
  if (!url) {
    return Error{ErrorCode::kInvalidInput,
                 "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are no address", ""};
  }
  KubeAccess access;
  access.server = std::move(*url);
  access.source = "service account of this pod";
  access.user.where = access.source;
  access.user.token_file = directory + "/token";
  access.ca_name = "'" + directory + "/ca.crt'";
  for (const std::string& file : {access.user.token_file, directory + "/ca.crt"}) {
    auto bytes = ReadFileBytes(file, kMaxPemBytes);
    if (!bytes) {
      return Error{
          ErrorCode::kInvalidInput,
          "this is a pod, and its service account cannot be used: " + bytes.error().message,
          "leave automountServiceAccountToken on, or pass --kubeconfig"};
    }
    access.ca_pem = std::move(*bytes);
  }
  access.name_space = selection.name_space;
  if (access.name_space.empty()) {
    auto own = ReadFileBytes(directory + "/namespace", kMaxPemBytes);
    access.name_space = own ? Printable(*own) : "default";
    std::erase(access.name_space, ' ');
  }
  return access;
}

}  // namespace

Result<KubeAccess> FindKubeAccess(const KubeSelection& selection,
                                  const KubeEnvironment& environment) {
  auto config = ReadKubeconfig(selection.kubeconfig, environment.kubeconfig_list);
  if (!config) {
    return std::move(config).error();
  }
  const bool in_pod = !environment.service_host.empty() && !environment.service_port.empty();
  const bool says_something = !config->contexts.empty() || !config->clusters.empty();
  if (!config->empty() && (says_something || !selection.kubeconfig.empty() || !in_pod)) {
    return AccessBuilder(*config, selection).Build();
  }
  if (in_pod && selection.context.empty()) {
    return InCluster(selection, environment);
  }
  return Error{
      ErrorCode::kNotFound,
      "no kubeconfig: " +
          (environment.kubeconfig_list.empty() ? std::string("neither KUBECONFIG nor HOME is set")
                                               : environment.kubeconfig_list + " does not exist") +
          (in_pod ? "" : ", and this is no pod"),
      "pass --kubeconfig FILE or set KUBECONFIG ('aws eks update-kubeconfig --name CLUSTER' "
      "writes one)"};
}

}  // namespace dlc
