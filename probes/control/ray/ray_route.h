#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "probes/control/http/http_client.h"
#include "probes/control/kubernetes/kube_client.h"
#include "probes/observations/cluster.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

/// One request to a dashboard.
struct RayRequest {
  std::string path;   ///< "/api/jobs/": absolute, may have a query
  std::string token;  ///< Ray's, or empty
  std::size_t max_body_bytes = 1U << 20U;
  HttpMethod method = HttpMethod::kGet;
  std::string body;  ///< of a POST or PUT
  std::string content_type = "application/json";
};

/// A way to a Ray dashboard.
class RayRoute {
 public:
  virtual ~RayRoute() = default;
  RayRoute() = default;
  RayRoute(const RayRoute&) = delete;
  RayRoute& operator=(const RayRoute&) = delete;

  /// The dashboard's answer whatever its status, and never another host's. Errors are those of the
  /// way: HttpClient's, and the API server's own refusals (kPermissionDenied naming the right).
  virtual Result<HttpResponse> Send(const RayRequest& request, Deadline deadline) = 0;
  /// Whether a token may go this way; else why not, and what to do.
  virtual Result<void> MayCarryToken() const = 0;
  /// RayDashboardFacts::route.
  virtual std::string Name() const = 0;
  virtual std::string Address() const = 0;
};

/// What is the same for all direct ways.
struct RayRouteOptions {
  std::string ca_file;  ///< PEM; replaces the system's. Empty: the system's
  /// This process runs in a pod: names of the cluster's DNS stay inside the cluster.
  bool in_pod = false;
  std::chrono::milliseconds timeout = timeouts::kHttpRequest;  ///< one request
  const std::atomic<bool>* interrupted = nullptr;              ///< may be null
  std::function<void(const std::string&)> log;  ///< one line a request, never a secret
};

/// To the dashboard itself. A token goes over https, to loopback, or, in a pod, to a name of the
/// cluster's DNS: KubeRay's dashboard speaks plain http only.
std::unique_ptr<RayRoute> MakeDirectRoute(const Url& base, const RayRouteOptions& options);

/// Through the API server's service proxy, which keeps Authorization to itself: the token goes as
/// X-Ray-Authorization. `client` must outlive it.
std::unique_ptr<RayRoute> MakeProxyRoute(KubeClient& client, const std::string& name_space,
                                         const std::string& service);

/// What the service proxy needs: a verb on services/proxy, by the method: get, create, update,
/// delete.
KubeRight ServiceProxyRight(const std::string& name_space, HttpMethod method = HttpMethod::kGet);
/// What ranks through it need beside get: a job is made, fed and removed.
std::vector<KubeRight> RankRights(const std::string& name_space);

/// "http://HEAD-SERVICE.NAMESPACE.svc:PORT", the port as the head's dashboard-port says (8265).
/// Precondition: the cluster has a head service.
Result<Url> ClusterDnsAddress(const RayCluster& cluster);

}  // namespace dlc
