#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/cluster.h"
#include "probes/observations/result.h"

namespace dlc {

/// A cluster of a kubeconfig. Paths are joined to the directory of the file that holds them.
struct KubeconfigCluster {
  std::string server;
  std::string tls_server_name;
  bool insecure_skip_tls_verify = false;
  std::string ca_file;
  std::string ca_data;  ///< base64, as written
  std::optional<std::string> proxy_url;
  bool disable_compression = false;
  /// JSON of the extension client.authentication.k8s.io/exec, or empty.
  std::string exec_config;
  Source source;
};

/// users[].user.exec: a program that gives a credential.
struct KubeconfigExec {
  std::string command;  ///< with a slash: joined to the file's directory; else looked up in PATH
  std::vector<std::string> args;
  std::map<std::string, std::string> env;
  std::string api_version;
  std::string install_hint;
  std::string interactive_mode;
  bool provide_cluster_info = false;
  Source source;
};

struct KubeconfigUser {
  std::string certificate_file;
  std::string certificate_data;
  std::string key_file;
  std::string key_data;
  std::string token;
  std::string token_file;
  bool has_basic = false;            ///< username or password
  std::string auth_provider;         ///< its name
  std::vector<std::string> headers;  ///< "Impersonate-User: ..."
  std::optional<KubeconfigExec> exec;
  Source source;
};

struct KubeconfigContext {
  std::string cluster;
  std::string user;
  std::string name_space;
  Source source;
};

/// Several kubeconfig files as one: of each name the first file's entry counts, whole.
struct Kubeconfig {
  std::map<std::string, KubeconfigCluster> clusters;
  std::map<std::string, KubeconfigUser> users;
  std::map<std::string, KubeconfigContext> contexts;
  std::string current_context;     ///< the first file's that sets one
  Source current_context_source;   ///< line 0: none set
  std::vector<std::string> files;  ///< those that were read

  bool empty() const { return files.empty(); }
};

/// Adds the file's entries to `config`. kInvalidInput "FILE: line L: ..." for what is no
/// kubeconfig; unknown keys are ignored, as kubectl does.
Result<void> ParseKubeconfig(std::string_view bytes, const std::string& file, Kubeconfig& config);

/// `explicit_file`, which must exist, alone; else the files of `list` ("a:b", as $KUBECONFIG has
/// it) that exist, which may be none.
Result<Kubeconfig> ReadKubeconfig(const std::string& explicit_file, const std::string& list);

}  // namespace dlc
