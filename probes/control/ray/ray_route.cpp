#include "probes/control/ray/ray_route.h"

#include <utility>

#include "probes/control/http/transport_error.h"
#include "probes/control/ray/dashboard_address.h"

namespace dlc {
namespace {

constexpr const char* kDashboardPort = "8265";

/// A redirect inside one origin is followed; the base's own path stays in front.
Result<Url> Below(const Url& base, const std::string& path) {
  std::string text = base.text;
  while (text.ends_with('/')) {
    text.pop_back();
  }
  return ParseUrl(text + path);
}

class DirectRoute : public RayRoute {
 public:
  DirectRoute(Url base, const RayRouteOptions& options)
      : base_(std::move(base)),
        cluster_dns_(options.in_pod && IsClusterDnsName(base_.host)),
        http_(Settings(options)) {}

  Result<HttpResponse> Send(const RayRequest& request, Deadline deadline) override {
    auto url = Below(base_, request.path);
    if (!url) {
      return std::move(url).error();
    }
    HttpRequest http;
    http.url = std::move(*url);
    http.method = request.method;
    http.body = request.body;
    if (request.method != HttpMethod::kGet) {
      http.content_type = request.content_type;
    }
    http.headers = {"Accept: application/json"};
    http.max_body_bytes = request.max_body_bytes;
    http.stay_on_origin = true;
    if (!request.token.empty()) {
      http.authorization = "Bearer " + request.token;
    }
    return http_.Send(http, deadline);
  }

  Result<void> MayCarryToken() const override {
    if (base_.scheme == "https" || IsLoopback(base_) || cluster_dns_) {
      return {};
    }
    return Error{ErrorCode::kUnsupported,
                 "its token is not sent to " + HostAndPort(base_) +
                     " over plain http: anyone on the way could read it",
                 "use https, 'kubectl port-forward' and http://127.0.0.1:8265, or run in a pod and "
                 "name the head service (SERVICE.NAMESPACE.svc)"};
  }

  std::string Name() const override { return cluster_dns_ ? "cluster-dns" : "address"; }
  std::string Address() const override { return ShownUrl(base_); }

 private:
  HttpSettings Settings(const RayRouteOptions& options) const {
    HttpSettings settings;
    settings.ca_file = options.ca_file;
    settings.allow_plain_http = true;
    settings.allow_plain_credentials = cluster_dns_;
    settings.timeout = options.timeout;
    settings.interrupted = options.interrupted;
    settings.log = options.log;
    settings.service = "Ray dashboard";
    settings.plain_http_hint = "Ray's own dashboard speaks plain http: write http://";
    if (cluster_dns_ || IsLoopback(base_)) {
      settings.proxy = "";  // a proxy would read the token, and cannot resolve the name
    }
    return settings;
  }

  Url base_;
  bool cluster_dns_;
  HttpClient http_;
};

class ProxyRoute : public RayRoute {
 public:
  ProxyRoute(KubeClient& client, std::string name_space, std::string service)
      : client_(client), name_space_(std::move(name_space)), service_(std::move(service)) {}

  Result<HttpResponse> Send(const RayRequest& request, Deadline deadline) override {
    auto response = SendTo(request, deadline);
    if (response && port_ != kDashboardPort && LacksPort(*response)) {
      // The head's container may give the port another name.
      port_ = kDashboardPort;
      response = SendTo(request, deadline);
    }
    if (!response || response->status < 300) {
      return response;
    }
    if (const KubeStatus status = ParseKubeStatus(response->body); status.is_status) {
      return ExplainServer(*response, status, request.method);
    }
    return response;
  }

  Result<void> MayCarryToken() const override {
    const Url& server = client_.Access().server;
    if (server.scheme == "https" || IsLoopback(server)) {
      return {};
    }
    return Error{ErrorCode::kUnsupported,
                 "its token is not sent through " + HostAndPort(server) +
                     " over plain http: anyone on the way could read it",
                 "the API server's address must be https"};
  }

  std::string Name() const override { return "service-proxy"; }
  std::string Address() const override {
    std::string server = ShownUrl(client_.Access().server);
    while (server.ends_with('/')) {
      server.pop_back();
    }
    return server + ServiceProxyPath(name_space_, service_, port_, "");
  }

 private:
  Result<HttpResponse> SendTo(const RayRequest& request, Deadline deadline) {
    KubeRequest kube;
    kube.path = ServiceProxyPath(name_space_, service_, port_, request.path);
    kube.max_body_bytes = request.max_body_bytes;
    kube.method = request.method;
    kube.body = request.body;
    kube.content_type = request.content_type;
    kube.proxied = true;
    if (!request.token.empty()) {
      kube.secret_headers = {"X-Ray-Authorization: Bearer " + request.token};
    }
    return client_.Send(kube, deadline);
  }

  /// To the API server a name that no port has is one without endpoints.
  static bool LacksPort(const HttpResponse& response) {
    return response.status == 503 &&
           ParseKubeStatus(response.body).message.find("no endpoints available") !=
               std::string::npos;
  }

  /// kube-apiserver 1.20 says it with status 500, newer ones with 503.
  static bool Unreachable(const KubeStatus& status) {
    return status.message.find("error trying to reach service") != std::string::npos;
  }

  /// The API server's own refusal, and not Ray's.
  Error ExplainServer(const HttpResponse& response, const KubeStatus& status,
                      HttpMethod method) const {
    Error error = ExplainKubeFailure(response, ServiceProxyRight(name_space_, method),
                                     client_.Access().user.where);
    if (response.status == 404) {
      error.message = "the API server has no service '" + service_ + "' in namespace " +
                      name_space_ + " (" + status.message + ")";
      error.hint = "the RayCluster's status names it as its head service: look whether it is there";
    } else if (response.status == 502 || response.status == 503 || response.status == 504 ||
               Unreachable(status)) {
      error.hint =
          "the API server cannot reach the head pod's dashboard: is the head ready, and may the "
          "control plane connect to port 8265 of it (security groups)? Else forward the port and "
          "give --ray-address http://127.0.0.1:8265";
    }
    return error;
  }

  KubeClient& client_;
  std::string name_space_;
  std::string service_;
  std::string port_ = "dashboard";
};

}  // namespace

std::unique_ptr<RayRoute> MakeDirectRoute(const Url& base, const RayRouteOptions& options) {
  return std::make_unique<DirectRoute>(base, options);
}

std::unique_ptr<RayRoute> MakeProxyRoute(KubeClient& client, const std::string& name_space,
                                         const std::string& service) {
  return std::make_unique<ProxyRoute>(client, name_space, service);
}

KubeRight ServiceProxyRight(const std::string& name_space, HttpMethod method) {
  const char* verb = "get";
  switch (method) {
    case HttpMethod::kGet:
      break;
    case HttpMethod::kPost:
      verb = "create";
      break;
    case HttpMethod::kPut:
      verb = "update";
      break;
    case HttpMethod::kDelete:
      verb = "delete";
      break;
  }
  return {verb, "", "services", "proxy", name_space};
}

std::vector<KubeRight> RankRights(const std::string& name_space) {
  return {ServiceProxyRight(name_space, HttpMethod::kPost),
          ServiceProxyRight(name_space, HttpMethod::kPut),
          ServiceProxyRight(name_space, HttpMethod::kDelete)};
}

Result<Url> ClusterDnsAddress(const RayCluster& cluster) {
  const auto port = cluster.head.ray_start_params.find("dashboard-port");
  return ParseUrl("http://" + cluster.head_service_name + "." + cluster.name_space + ".svc:" +
                  (port == cluster.head.ray_start_params.end() ? kDashboardPort : port->second));
}

}  // namespace dlc
