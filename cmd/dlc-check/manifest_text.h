#pragma once

#include <string>
#include <vector>

#include "probes/observations/run.h"

namespace dlc {

/// What `manifest` prints for.
struct ManifestOptions {
  std::string name_space = "ray-train";  ///< of the RayCluster and of what is printed
  std::string name = "dlc-check";        ///< of the ServiceAccount, roles and Job
  std::string image = "dlc-check:latest";
  std::vector<Stage> stages;
  std::string volume_claim = "dlc-check-evidence";
  std::string token_secret;  ///< of Ray's token; empty: it is not to be read
  bool ranks = false;        ///< target ray through the API server's service proxy
};

/// YAML: a ServiceAccount, and a Role and a ClusterRole with the rights of RightsOf(stages) and no
/// more, bound to it.
std::string RbacManifest(const ManifestOptions& options);

/// YAML: a Job that looks at the cluster that it runs in, under the `restricted` Pod Security
/// Standard. Its evidence goes to a PersistentVolumeClaim, which is not part of it.
std::string JobManifest(const ManifestOptions& options);

}  // namespace dlc
