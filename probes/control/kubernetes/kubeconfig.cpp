#include "probes/control/kubernetes/kubeconfig.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "probes/control/files/fields.h"
#include "probes/control/http/url.h"
#include "probes/documents/node.h"
#include "probes/input/read_file.h"

namespace dlc {
namespace {

constexpr std::size_t kMaxKubeconfigBytes = 16U << 20U;
constexpr std::string_view kExecExtension = "client.authentication.k8s.io/exec";

/// For what a plugin is told of its cluster: any YAML as JSON.
nlohmann::ordered_json JsonOf(const DocNode& node) {
  switch (node.kind) {
    case DocNode::Kind::kNull:
      return nullptr;
    case DocNode::Kind::kSequence: {
      auto list = nlohmann::ordered_json::array();
      for (const DocNode& item : node.items) {
        list.push_back(JsonOf(item));
      }
      return list;
    }
    case DocNode::Kind::kMap: {
      auto map = nlohmann::ordered_json::object();
      for (const DocNode::Entry& entry : node.entries) {
        map[entry.key] = JsonOf(entry.value);
      }
      return map;
    }
    case DocNode::Kind::kScalar:
      break;
  }
  if (const auto number = node.AsInt()) {
    return *number;
  }
  if (const auto truth = node.AsBool()) {
    return *truth;
  }
  if (const auto number = node.AsDouble()) {
    return *number;
  }
  return node.text;
}

bool FitsInHeader(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](unsigned char c) { return c < ' ' || c == 0x7f; });
}

/// Reads one file's parts into what earlier files gave.
class KubeconfigReader {
 public:
  KubeconfigReader(const std::string& file, Kubeconfig& config)
      : config_(config), directory_(file.substr(0, file.rfind('/') + 1)) {
    reading_.file = file;
  }

  Result<void> Read(const DocNode& root) {
    const Fields top(reading_, &root, "");
    const std::string kind = top.FreeText("kind");
    if (!kind.empty() && kind != "Config") {
      top.Fail("kind", "is '" + kind + "', and a kubeconfig's is Config");
    }
    Named(top, "clusters", "cluster", config_.clusters,
          [this](const Fields& fields) { return Cluster(fields); });
    Named(top, "users", "user", config_.users,
          [this](const Fields& fields) { return User(fields); });
    Named(top, "contexts", "context", config_.contexts, [](const Fields& fields) {
      return KubeconfigContext{fields.FreeText("cluster"), fields.FreeText("user"),
                               fields.FreeText("namespace"), fields.InFile()};
    });
    const std::string current = top.FreeText("current-context");
    if (config_.current_context.empty() && !current.empty()) {
      config_.current_context = current;
      config_.current_context_source = {reading_.file, top.Find("current-context")->line};
    }
    return reading_.failed ? Result<void>(reading_.error) : Result<void>();
  }

 private:
  std::string Joined(std::string path) const {
    return path.empty() || path.starts_with('/') ? path : directory_ + path;
  }

  template <class T, class ReadOne>
  static void Named(const Fields& top, const char* list, const char* key,
                    std::map<std::string, T>& all, const ReadOne& read) {
    top.Each(list, [&](const Fields& entry) {
      const std::string name = entry.FreeText("name");
      if (name.empty()) {
        entry.Fail("name", "is missing");
        return;
      }
      const Fields content = entry.Map(key);
      T value = read(content);
      if (!content.Present()) {
        value.source = entry.InFile();
      }
      all.emplace(name, std::move(value));
    });
  }

  KubeconfigCluster Cluster(const Fields& fields) const {
    KubeconfigCluster cluster;
    cluster.source = fields.InFile();
    cluster.server = fields.FreeText("server");
    cluster.tls_server_name = fields.FreeText("tls-server-name");
    cluster.insecure_skip_tls_verify = fields.Bool("insecure-skip-tls-verify");
    cluster.ca_file = Joined(fields.FreeText("certificate-authority"));
    cluster.ca_data = fields.FreeText("certificate-authority-data");
    if (const std::string proxy = fields.FreeText("proxy-url"); !proxy.empty()) {
      cluster.proxy_url = proxy;
    }
    cluster.disable_compression = fields.Bool("disable-compression");
    fields.Each("extensions", [&](const Fields& extension) {
      const DocNode* content = extension.Find("extension");
      if (extension.FreeText("name") == kExecExtension && content != nullptr) {
        cluster.exec_config = JsonOf(*content).dump();
      }
    });
    return cluster;
  }

  KubeconfigUser User(const Fields& fields) const {
    KubeconfigUser user;
    user.source = fields.InFile();
    user.certificate_file = Joined(fields.FreeText("client-certificate"));
    user.certificate_data = fields.FreeText("client-certificate-data");
    user.key_file = Joined(fields.FreeText("client-key"));
    user.key_data = fields.FreeText("client-key-data");
    user.token = fields.FreeText("token");
    user.token_file = Joined(fields.FreeText("tokenFile"));
    user.has_basic = fields.Has("username") || fields.Has("password");
    user.auth_provider = fields.Map("auth-provider").FreeText("name");
    Impersonation(fields, user);
    if (fields.Has("exec")) {
      user.exec = Exec(fields.Map("exec"));
    }
    return user;
  }

  static void Impersonation(const Fields& fields, KubeconfigUser& user) {
    const auto add = [&](const std::string& name, const char* key, const std::string& value) {
      if (!FitsInHeader(value)) {
        fields.Fail(key, "holds a control character");
      } else if (!value.empty()) {
        user.headers.push_back(name + ": " + value);
      }
    };
    add("Impersonate-User", "as", fields.FreeText("as"));
    add("Impersonate-Uid", "as-uid", fields.FreeText("as-uid"));
    for (const std::string& group : fields.TextList("as-groups")) {
      add("Impersonate-Group", "as-groups", group);
    }
    const Fields extra = fields.Map("as-user-extra");
    for (const std::string& key : extra.Keys()) {
      for (const std::string& value : extra.TextList(key)) {
        add("Impersonate-Extra-" + PercentEncode(key), "as-user-extra", value);
      }
    }
  }

  KubeconfigExec Exec(const Fields& fields) const {
    KubeconfigExec exec;
    exec.source = fields.InFile();
    exec.command = fields.FreeText("command");
    if (exec.command.find('/') != std::string::npos) {
      exec.command = Joined(exec.command);
    }
    exec.args = fields.TextList("args");
    fields.Each("env", [&](const Fields& variable) {
      exec.env[variable.FreeText("name")] = variable.FreeText("value");
    });
    exec.api_version = fields.FreeText("apiVersion");
    exec.install_hint = fields.FreeText("installHint");
    exec.interactive_mode = fields.FreeText("interactiveMode");
    exec.provide_cluster_info = fields.Bool("provideClusterInfo");
    if (exec.command.empty()) {
      fields.Fail("command", "is missing");
    }
    return exec;
  }

  Kubeconfig& config_;
  FileReading reading_;
  std::string directory_;  ///< with the slash, or empty
};

std::vector<std::string> FilesOf(const std::string& list) {
  std::vector<std::string> files;
  std::set<std::string> seen;
  for (std::size_t start = 0; start <= list.size();) {
    const std::size_t end = std::min(list.find(':', start), list.size());
    std::string file = list.substr(start, end - start);
    if (!file.empty() && seen.insert(file).second) {
      files.push_back(std::move(file));
    }
    start = end + 1;
  }
  return files;
}

}  // namespace

Result<void> ParseKubeconfig(std::string_view bytes, const std::string& file, Kubeconfig& config) {
  const auto document = ParseDocument(bytes, file, {kMaxKubeconfigBytes, 1'000'000, 64});
  if (!document) {
    return document.error();
  }
  if (document->roots.size() > 1) {
    return DocumentError(file, document->roots[1].line, "a kubeconfig is one YAML document");
  }
  config.files.push_back(file);
  if (document->roots.empty()) {
    return {};
  }
  return KubeconfigReader(file, config).Read(document->roots.front());
}

Result<Kubeconfig> ReadKubeconfig(const std::string& explicit_file, const std::string& list) {
  Kubeconfig config;
  const bool chosen = !explicit_file.empty();
  for (const std::string& file : chosen ? std::vector<std::string>{explicit_file} : FilesOf(list)) {
    const auto bytes = ReadFileBytes(file, kMaxKubeconfigBytes);
    if (!bytes && bytes.error().code == ErrorCode::kNotFound && !chosen) {
      continue;
    }
    if (!bytes) {
      return Error{ErrorCode::kInvalidInput, "kubeconfig: " + bytes.error().message,
                   bytes.error().hint};
    }
    if (auto parsed = ParseKubeconfig(*bytes, file, config); !parsed) {
      return std::move(parsed).error();
    }
  }
  return config;
}

}  // namespace dlc
