#pragma once

#include <string>
#include <vector>

#include "probes/documents/node.h"
#include "probes/observations/cluster.h"
#include "probes/observations/result.h"

namespace dlc {

/// Adds what a manifest or saved `kubectl get -o json|yaml` output holds to `facts`: RayCluster,
/// RayJob and RayService (their cluster spec), Pod, Node, ResourceSlice, ResourceClaim, in several
/// YAML documents and in lists; other kinds are ignored. A list of a kind makes that kind seen,
/// even when it is empty. Pods without the label ray.io/cluster are left out.
///
/// kInvalidInput with file, line and path: wrong types, templates that were not rendered, an object
/// (kind, namespace, name) that was already there, a saved error answer, nothing usable (naming the
/// kinds found). On an error `facts` is unchanged. `notes`: remarks for the user, each with the
/// file's name.
Result<void> ReadClusterFile(const std::string& path, ClusterFacts& facts,
                             std::vector<std::string>& notes);
/// Same, from bytes; `name` is used in messages and sources.
Result<void> ParseClusterFile(std::string_view bytes, const std::string& name, ClusterFacts& facts,
                              std::vector<std::string>& notes);

}  // namespace dlc
