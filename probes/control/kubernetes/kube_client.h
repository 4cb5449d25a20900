#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "probes/control/http/http_client.h"
#include "probes/control/kubernetes/kube_access.h"
#include "probes/control/kubernetes/kube_credentials.h"
#include "probes/control/kubernetes/kube_reply.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

struct KubeClientOptions {
  std::size_t connections = 4;                                 ///< at the same time
  std::chrono::milliseconds timeout = timeouts::kHttpRequest;  ///< one request
  const std::atomic<bool>* interrupted = nullptr;              ///< may be null
  /// One line a request, never a secret; called from several threads. May be empty.
  std::function<void(const std::string&)> log;
};

/// One request below the API server's address.
struct KubeRequest {
  std::string path;  ///< "/api/v1/nodes?limit=500": absolute, with its query
  HttpMethod method = HttpMethod::kGet;
  std::string body;
  std::string content_type = "application/json";
  bool repeatable_post = false;
  std::vector<std::string> headers;
  std::vector<std::string> secret_headers;  ///< X-Ray-Authorization through the service proxy
  bool proxied = false;  ///< to what stands behind the API server, which has refusals of its own
  std::size_t max_body_bytes = 1U << 20U;
  std::function<bool(std::string_view)> on_body;
};

/// A list in pages.
struct KubeListRequest {
  std::string path;            ///< without query
  std::string label_selector;  ///< may be empty
  KubeRight need;              ///< for messages
  int page_objects = 500;
  std::size_t page_bytes = 32U << 20U;  ///< a longer page is asked for in smaller ones, once
  /// Everything given before is void: the list starts over, because it changed under its pages.
  std::function<void()> restart;
  /// One page's items. Called in order, from another thread while the next page is fetched.
  std::function<Result<void>(const std::vector<std::string_view>& items)> page;
};

/// What a finished list was a list of.
struct KubeListEnd {
  std::string resource_version;
  int pages = 0;
};

/// A Kubernetes API server, for several threads at once. Credentials are renewed by their time and,
/// once, after a 401. Redirects to other hosts are refused. Every wait ends at the deadline.
class KubeClient {
 public:
  KubeClient(KubeAccess access, KubeClientOptions options);

  /// The answer whatever its status. Errors as HttpClient::Send, and those of credentials.
  Result<HttpResponse> Send(const KubeRequest& request, Deadline deadline);
  /// A JSON document, or what kept it away as ExplainKubeFailure says it.
  Result<std::string> Get(const std::string& path, const KubeRight& need, Deadline deadline);
  /// 410 starts over, a few times. Errors also of `page`.
  Result<KubeListEnd> List(const KubeListRequest& list, Deadline deadline);
  /// SelfSubjectAccessReview: may this user do that? Asked once; the answer is remembered.
  Result<bool> Allows(const KubeRight& right, Deadline deadline);

  const KubeAccess& Access() const { return access_; }

 private:
  class Lease;
  Result<HttpResponse> SendOnce(const KubeRequest& request, const KubeCredential& credential,
                                Deadline deadline);
  Result<std::unique_ptr<HttpClient>> Take(Deadline deadline);
  void GiveBack(std::unique_ptr<HttpClient> client);
  struct FetchedPage;
  Result<FetchedPage> FetchPage(const KubeListRequest& list, const std::string& token,
                                int& page_objects, Deadline deadline);
  Result<bool> Review(const KubeRight& right, Deadline deadline);
  Result<KubeListEnd> ListOnce(const KubeListRequest& list, bool& restart, Deadline deadline);

  KubeAccess access_;
  KubeClientOptions options_;
  HttpSettings settings_;
  KubeCredentials credentials_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<HttpClient>> idle_;
  std::size_t made_ = 0;
  std::vector<std::pair<KubeRight, bool>> reviews_;
};

/// "/api/v1/namespaces/NS/services/http:NAME:PORT/proxy/PATH": a service through the API server.
/// `port` is a number or a name; `path` starts with a slash and may have a query.
std::string ServiceProxyPath(const std::string& name_space, const std::string& service,
                             const std::string& port, const std::string& path);

/// "/api/v1/namespaces/NS/pods", "/apis/ray.io/v1/namespaces/NS/rayclusters"; without a namespace
/// of all.
std::string KubePath(const std::string& group, const std::string& version,
                     const std::string& name_space, const std::string& resource);

}  // namespace dlc
