#pragma once

#include <string>
#include <string_view>

#include "probes/control/http/http_message.h"
#include "probes/observations/result.h"

namespace dlc {

/// One thing that RBAC may allow.
struct KubeRight {
  std::string verb;
  std::string group;  ///< empty: core
  std::string resource;
  std::string subresource;
  std::string name_space;  ///< empty: all of the cluster
  std::string name = "";   ///< of the one object; empty: all of them

  /// "list on rayclusters.ray.io in namespace ray-train", "list on nodes".
  std::string ToString() const;
  bool operator==(const KubeRight&) const = default;
};

/// A kind: Status, as the API server answers failures with.
struct KubeStatus {
  bool is_status = false;  ///< false: something in between answered
  std::string reason;      ///< "Forbidden"
  std::string message;     ///< one line
  bool names_object = false;
};
KubeStatus ParseKubeStatus(std::string_view body);

/// What a failure (status 300 and above) means: kPermissionDenied for 401 (naming `user`) and 403
/// (naming `need`), kNotFound for 404 (telling an absent kind from an absent object), kUnavailable
/// for the rest.
Error ExplainKubeFailure(const HttpResponse& response, const KubeRight& need,
                         const std::string& user);

/// Nothing unless the answer is JSON by its Content-Type: proxies and login pages answer 200 too.
Result<void> CheckIsJson(const HttpResponse& response);

}  // namespace dlc
