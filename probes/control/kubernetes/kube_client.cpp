#include "probes/control/kubernetes/kube_client.h"

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>
#include <utility>

#include "probes/control/http/transport_error.h"
#include "probes/control/kubernetes/list_page.h"
#include "probes/observations/strict_json.h"

namespace dlc {
namespace {

constexpr int kMaxRestarts = 3;
constexpr int kMaxPages = 1'000;
constexpr int kSmallPage = 50;
constexpr std::size_t kMaxDocumentBytes = 4U << 20U;
constexpr std::string_view kReviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

HttpSettings Settings(const KubeAccess& access, const KubeClientOptions& options) {
  HttpSettings settings;
  settings.ca_pem = access.ca_pem;
  settings.ca_name = access.ca_name;
  settings.tls_server_name = access.tls_server_name;
  settings.insecure_skip_tls_verify = access.insecure_skip_tls_verify;
  settings.compression = access.compression;
  settings.proxy = access.proxy;
  if (!access.proxy && IsLoopback(access.server)) {
    settings.proxy = "";  // as Go: the environment's proxy is not asked for this host itself
  }
  settings.timeout = options.timeout;
  settings.interrupted = options.interrupted;
  settings.log = options.log;
  settings.service = "API server";
  settings.plain_http_hint = "the API server's address must be https";
  settings.wrong_name_hint =
      "use a name that the certificate was made for, or set tls-server-name in the kubeconfig";
  return settings;
}

/// The API server's own 401: another credential may help. That of a service behind its proxy is no
/// word on the credential.
bool RefusesCredential(const KubeRequest& request, const HttpResponse& response) {
  return response.status == 401 && (!request.proxied || ParseKubeStatus(response.body).is_status);
}

bool IsInterrupted(const std::atomic<bool>* flag) {
  return flag != nullptr && *flag;
}

/// The page that is being read while the next one is fetched.
class PageReading {
 public:
  explicit PageReading(const KubeListRequest& list) : list_(list) {}

  /// Waits for the page before, and starts this one unless that failed. `items` points into `body`.
  Result<void> Start(std::unique_ptr<std::string> body, std::vector<std::string_view> items) {
    if (auto before = Finish(); !before) {
      return before;
    }
    running_ = std::async(std::launch::async, [this, kept = std::move(body),
                                               cut = std::move(items)] { return list_.page(cut); });
    return {};
  }
  Result<void> Finish() { return running_.valid() ? running_.get() : Result<void>(); }

 private:
  const KubeListRequest& list_;
  std::future<Result<void>> running_;  // its destructor waits
};

std::string ListPath(const KubeListRequest& list, int page_objects, const std::string& token) {
  std::string path = list.path + "?limit=" + std::to_string(page_objects);
  if (!list.label_selector.empty()) {
    path += "&labelSelector=" + PercentEncode(list.label_selector);
  }
  return token.empty() ? path : path + "&continue=" + PercentEncode(token);
}

}  // namespace

std::string ServiceProxyPath(const std::string& name_space, const std::string& service,
                             const std::string& port, const std::string& path) {
  return "/api/v1/namespaces/" + PercentEncode(name_space) +
         "/services/http:" + PercentEncode(service) + ":" + PercentEncode(port) + "/proxy" + path;
}

std::string KubePath(const std::string& group, const std::string& version,
                     const std::string& name_space, const std::string& resource) {
  return (group.empty() ? "/api/" : "/apis/" + group + "/") + version +
         (name_space.empty() ? "" : "/namespaces/" + PercentEncode(name_space)) + "/" + resource;
}

/// One connection, for as long as a request takes.
class KubeClient::Lease {
 public:
  Lease(KubeClient& owner, std::unique_ptr<HttpClient> client)
      : owner_(owner), client_(std::move(client)) {}
  ~Lease() { owner_.GiveBack(std::move(client_)); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  HttpClient& operator*() { return *client_; }

 private:
  KubeClient& owner_;
  std::unique_ptr<HttpClient> client_;
};

KubeClient::KubeClient(KubeAccess access, KubeClientOptions options)
    : access_(std::move(access)),
      options_(std::move(options)),
      settings_(Settings(access_, options_)),
      credentials_(access_.user, options_.interrupted) {}

Result<std::unique_ptr<HttpClient>> KubeClient::Take(Deadline deadline) {
  std::unique_lock lock(mutex_);
  const auto free = [this] { return !idle_.empty() || made_ < options_.connections; };
  if (!returned_.wait_for(lock, deadline.Remaining(), free)) {
    return Error{ErrorCode::kTimedOut, "no time left to ask the API server", ""};
  }
  if (idle_.empty()) {
    ++made_;
    return std::make_unique<HttpClient>(settings_);
  }
  std::unique_ptr<HttpClient> client = std::move(idle_.back());
  idle_.pop_back();
  return client;
}

void KubeClient::GiveBack(std::unique_ptr<HttpClient> client) {
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(client));
  }
  returned_.notify_one();
}

Result<HttpResponse> KubeClient::SendOnce(const KubeRequest& request,
                                          const KubeCredential& credential, Deadline deadline) {
  std::string base = access_.server.text;
  while (base.ends_with('/')) {
    base.pop_back();
  }
  auto url = ParseUrl(base + request.path);
  if (!url) {
    return std::move(url).error();
  }
  HttpRequest http;
  http.url = std::move(*url);
  http.method = request.method;
  http.headers = request.headers;
  http.headers.emplace_back("Accept: application/json");
  http.headers.insert(http.headers.end(), access_.user.headers.begin(), access_.user.headers.end());
  http.secret_headers = request.secret_headers;
  http.authorization = credential.authorization;
  http.identity = credential.identity;
  http.body = request.body;
  http.content_type = request.content_type;
  http.repeatable_post = request.repeatable_post;
  http.max_body_bytes = request.max_body_bytes;
  http.on_body = request.on_body;
  http.stay_on_origin = true;
  auto client = Take(deadline);
  if (!client) {
    return std::move(client).error();
  }
  Lease lease(*this, std::move(*client));
  return (*lease).Send(http, deadline);
}

Result<HttpResponse> KubeClient::Send(const KubeRequest& request, Deadline deadline) {
  auto credential = credentials_.Get(deadline);
  if (!credential) {
    return std::move(credential).error();
  }
  auto response = SendOnce(request, *credential, deadline);
  if (!response || !RefusesCredential(request, *response)) {
    return response;
  }
  auto other = credentials_.Renew(*credential, deadline);
  if (!other) {
    return std::move(other).error();
  }
  return *other ? SendOnce(request, **other, deadline) : response;
}

Result<std::string> KubeClient::Get(const std::string& path, const KubeRight& need,
                                    Deadline deadline) {
  KubeRequest request;
  request.path = path;
  request.max_body_bytes = kMaxDocumentBytes;
  auto response = Send(request, deadline);
  if (!response) {
    return std::move(response).error();
  }
  if (response->status != 200) {
    return ExplainKubeFailure(*response, need, credentials_.Where());
  }
  if (auto json = CheckIsJson(*response); !json) {
    return std::move(json).error();
  }
  return std::move(response->body);
}

/// A page, or nothing and `expired` when the list must start over.
struct KubeClient::FetchedPage {
  std::unique_ptr<std::string> body;  // does not move: the items point into it
  ListPage page;
  bool expired = false;
  Error why;  // of the expiry
};

Result<KubeClient::FetchedPage> KubeClient::FetchPage(const KubeListRequest& list,
                                                      const std::string& token, int& page_objects,
                                                      Deadline deadline) {
  KubeRequest request;
  request.path = ListPath(list, page_objects, token);
  request.max_body_bytes = list.page_bytes;
  auto response = Send(request, deadline);
  if (!response && response.error().code == ErrorCode::kUnsupported && page_objects > kSmallPage) {
    page_objects = kSmallPage;  // the token does not mind
    request.path = ListPath(list, page_objects, token);
    response = Send(request, deadline);
  }
  if (!response) {
    return std::move(response).error();
  }
  if (response->status != 200) {
    Error why = ExplainKubeFailure(*response, list.need, credentials_.Where());
    if (response->status != 410) {
      return why;
    }
    return FetchedPage{nullptr, {}, true, std::move(why)};
  }
  if (auto json = CheckIsJson(*response); !json) {
    return std::move(json).error();
  }
  auto body = std::make_unique<std::string>(std::move(response->body));
  auto page = SplitListPage(*body);
  if (!page) {
    return std::move(page).error();
  }
  return FetchedPage{std::move(body), std::move(*page), false, {}};
}

Result<KubeListEnd> KubeClient::ListOnce(const KubeListRequest& list, bool& restart,
                                         Deadline deadline) {
  KubeListEnd end;
  std::string token;
  int page_objects = list.page_objects;
  PageReading reading(list);
  do {
    auto fetched = FetchPage(list, token, page_objects, deadline);
    if (!fetched) {
      return std::move(fetched).error();
    }
    if (fetched->expired) {
      restart = true;
      return std::move(fetched->why);
    }
    token = std::move(fetched->page.continue_token);
    end.resource_version = std::move(fetched->page.resource_version);
    auto started = reading.Start(std::move(fetched->body), std::move(fetched->page.items));
    if (!started) {
      return std::move(started).error();
    }
  } while (++end.pages < kMaxPages && !token.empty());
  if (auto read = reading.Finish(); !read) {
    return std::move(read).error();
  }
  if (!token.empty()) {
    return Error{ErrorCode::kUnsupported,
                 "the list of " + list.need.resource + " has more than " +
                     std::to_string(kMaxPages) + " pages and was not read on",
                 ""};
  }
  return end;
}

Result<KubeListEnd> KubeClient::List(const KubeListRequest& list, Deadline deadline) {
  for (int restarts = 0;; ++restarts) {
    bool restart = false;
    auto end = ListOnce(list, restart, deadline);
    if (!restart || restarts == kMaxRestarts || IsInterrupted(options_.interrupted)) {
      return end;
    }
    if (options_.log) {
      options_.log("the list of " + list.need.resource + " expired under its pages: starting over");
    }
    list.restart();
  }
}

Result<bool> KubeClient::Allows(const KubeRight& right, Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = std::find_if(reviews_.begin(), reviews_.end(),
                                    [&](const auto& review) { return review.first == right; });
    if (known != reviews_.end()) {
      return known->second;
    }
  }
  auto allowed = Review(right, deadline);
  if (allowed) {
    const std::lock_guard lock(mutex_);
    reviews_.emplace_back(right, *allowed);
  }
  return allowed;
}

Result<bool> KubeClient::Review(const KubeRight& right, Deadline deadline) {
  using Json = nlohmann::ordered_json;
  Json attributes{{"verb", right.verb}, {"resource", right.resource}};
  for (const auto& [key, value] : {std::pair{"group", &right.group},
                                   {"subresource", &right.subresource},
                                   {"namespace", &right.name_space},
                                   {"name", &right.name}}) {
    if (!value->empty()) {
      attributes[key] = *value;
    }
  }
  KubeRequest request;
  request.path = std::string(kReviews);
  request.method = HttpMethod::kPost;
  request.repeatable_post = true;
  request.body = Json{{"apiVersion", "authorization.k8s.io/v1"},
                      {"kind", "SelfSubjectAccessReview"},
                      {"spec", {{"resourceAttributes", attributes}}}}
                     .dump();
  auto response = Send(request, deadline);
  if (!response) {
    return std::move(response).error();
  }
  if (response->status != 200 && response->status != 201) {
    return ExplainKubeFailure(
        *response, {"create", "authorization.k8s.io", "selfsubjectaccessreviews", "", ""},
        credentials_.Where());
  }
  const auto document = ParseStrictJson(response->body, {1U << 20U, 32});
  const auto allowed = document ? document->find("status") : Json::const_iterator();
  if (!document || allowed == document->end() || !allowed->is_object() ||
      !allowed->contains("allowed") || !(*allowed)["allowed"].is_boolean()) {
    return Error{ErrorCode::kUnavailable, "the API server's access review has no answer in it", ""};
  }
  return (*allowed)["allowed"].get<bool>();
}

}  // namespace dlc
