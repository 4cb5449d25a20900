#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "probes/control/http/http_message.h"
#include "probes/observations/result.h"

namespace dlc {

/// What of the environment decides which cluster is meant; the caller reads it.
struct KubeEnvironment {
  std::string kubeconfig_list;  ///< $KUBECONFIG, else ~/.kube/config
  std::string service_host;     ///< $KUBERNETES_SERVICE_HOST
  std::string service_port;     ///< $KUBERNETES_SERVICE_PORT
  std::string service_account_dir = "/var/run/secrets/kubernetes.io/serviceaccount";
};

/// What the user chose; each may be empty.
struct KubeSelection {
  std::string kubeconfig;
  std::string context;
  std::string name_space;
};

/// A program that gives a credential, as kubeconfigs name it (client.authentication.k8s.io).
struct ExecPlugin {
  std::string command;
  std::vector<std::string> args;
  std::map<std::string, std::string> env;
  std::string api_version;   ///< echoed exactly
  std::string install_hint;  ///< free of control characters
  std::string cluster_json;  ///< spec.cluster, or empty
  std::string where;         ///< "FILE: line L: user 'x'", for errors
};

/// How to show who one is. Nothing of it may be printed but `where`.
struct KubeUser {
  std::string where;  ///< "FILE: line L: user 'x'"
  std::string token;
  std::string token_file;  ///< read again for every request: service account tokens rotate
  TlsIdentity identity;
  std::vector<std::string> headers;  ///< impersonation
  std::optional<ExecPlugin> exec;
};

/// One API server and how to reach it.
struct KubeAccess {
  Url server;  ///< may have a path, as a multi-cluster gateway gives it
  std::string ca_pem;
  std::string ca_name;
  std::string tls_server_name;
  bool insecure_skip_tls_verify = false;
  std::optional<std::string> proxy;  ///< absent: the environment's
  bool compression = true;
  std::string name_space;
  std::string context;  ///< empty in a pod
  std::string source;   ///< "kubeconfig FILE", "service account of this pod"
  KubeUser user;
  std::vector<std::string> warnings;
};

/// Where nothing is chosen: the kubeconfig's current context, else this pod's service account.
/// kInvalidInput, naming file, line and remedy; kNotFound when there is neither.
Result<KubeAccess> FindKubeAccess(const KubeSelection& selection,
                                  const KubeEnvironment& environment);

}  // namespace dlc
