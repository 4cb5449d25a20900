#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "probes/control/http/base64.h"
#include "probes/control/ray/observe_ray.h"
#include "probes/control/ray/ray_secret.h"
#include "tests/kubernetes/scratch.h"
#include "tests/ray/ray_server.h"

namespace dlc {
namespace {

constexpr const char* kToken = "hush-hush-0123456789";
constexpr const char* kReviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
constexpr const char* kByName =
    "/api/v1/namespaces/ray-train/services/http:head-svc:dashboard/proxy";
constexpr const char* kByNumber = "/api/v1/namespaces/ray-train/services/http:head-svc:8265/proxy";

std::string Review(bool allowed) {
  return JsonAnswer(std::string(R"({"kind":"SelfSubjectAccessReview","status":{"allowed":)") +
                    (allowed ? "true" : "false") + "}}");
}

std::string StatusAnswer(int code, const std::string& reason, const std::string& message) {
  return HttpAnswer(code,
                    R"({"kind":"Status","apiVersion":"v1","status":"Failure","reason":")" + reason +
                        R"(","message":")" + message + R"("})",
                    "Content-Type: application/json\r\n");
}

RayCluster OneCluster() {
  RayCluster cluster;
  cluster.name_space = "ray-train";
  cluster.name = "one";
  cluster.head_service_name = "head-svc";
  return cluster;
}

/// An API server on loopback, whose user has the token "kube-token".
struct ApiServer {
  explicit ApiServer(RayAnswers answers)
      : server(AnswerFrom(std::move(answers))), client(Access(), {}) {}
  explicit ApiServer(ScriptedServer::Answer answer)
      : server(std::move(answer)), client(Access(), {}) {}
  ApiServer(RayAnswers answers, ExecPlugin plugin)
      : server(AnswerFrom(std::move(answers))), client(Access(std::move(plugin)), {}) {}

  KubeAccess Access(std::optional<ExecPlugin> plugin = std::nullopt) const {
    KubeAccess access;
    access.server = *ParseUrl(server.Url());
    access.user.where = "user 'test'";
    if (plugin) {
      access.user.exec = std::move(plugin);
    } else {
      access.user.token = "kube-token";
    }
    return access;
  }

  RayFacts Look(const RayLook& look, const RayCluster& cluster = OneCluster()) {
    RayFacts facts;
    const auto quiet = [](const std::string&) {};
    ObserveRayOfCluster(client, cluster, look, Deadline::After(std::chrono::seconds(20)),
                        {quiet, quiet}, facts);
    return facts;
  }

  ScriptedServer server;
  KubeClient client;
};

RayAnswers Proxied(const std::string& prefix, bool allowed = true) {
  RayAnswers answers = RecordedRay("2.58.0", prefix);
  answers[kReviews] = Review(allowed);
  return answers;
}

TEST_CASE("service proxy: the head service's dashboard port by name") {
  ApiServer api(Proxied(kByName));
  const RayFacts facts = api.Look(WholeLook());
  REQUIRE(facts.dashboard.has_value());
  CHECK(*facts.dashboard ==
        RayDashboardFacts{api.server.Url().substr(0, api.server.Url().size() - 1) + kByName,
                          "service-proxy", "disabled"});
  CHECK(facts.version.seen());
  CHECK(facts.nodes.seen());
  REQUIRE(facts.jobs.seen());
  CHECK(facts.jobs.value()[0].source.file == "GET " + facts.dashboard->address + kJobsPath);
}

TEST_CASE("service proxy: Ray's token goes beside the API server's, and only where it is wanted") {
  RayAnswers answers = Proxied(kByName);
  answers[std::string(kByName) + kModePath] = JsonAnswer(R"({"authentication_mode":"token"})");
  ApiServer api(answers);
  const RayFacts facts = api.Look(WholeLook(kToken));
  CHECK(facts.nodes.seen());
  const std::string rays = std::string("\r\nX-Ray-Authorization: Bearer ") + kToken + "\r\n";
  int with = 0;
  for (const std::string& request : api.server.Requests()) {
    CHECK(request.find("\r\nAuthorization: Bearer kube-token\r\n") != std::string::npos);
    const bool question = PathOfRequest(request).starts_with(kByName) &&
                          PathOfRequest(request) != std::string(kByName) + kModePath;
    CHECK((request.find(rays) != std::string::npos) == question);
    with += question ? 1 : 0;
  }
  CHECK(with == 3);
}

TEST_CASE("service proxy: a port of another name is asked by its number") {
  RayAnswers answers = Proxied(kByNumber);
  for (const char* path : {kModePath, kVersionPath, kNodesPath, kJobsPath}) {
    answers[std::string(kByName) + path] =
        StatusAnswer(503, "ServiceUnavailable",
                     "no endpoints available for service \\\"http:head-svc:dashboard\\\"");
  }
  ApiServer api(answers);
  const RayFacts facts = api.Look(WholeLook());
  CHECK(facts.nodes.seen());
  REQUIRE(facts.dashboard.has_value());
  CHECK(facts.dashboard->address.ends_with(kByNumber));
}

TEST_CASE("service proxy: without the right nothing is asked") {
  ApiServer api(Proxied(kByName, false));
  const RayFacts facts = api.Look(WholeLook());
  REQUIRE(facts.nodes.not_looked_at());
  CHECK(facts.nodes.why_not().reason == "needs get on services/proxy in namespace ray-train");
  CHECK(api.server.Requests().size() == 1);
}

TEST_CASE("service proxy: the API server's refusal is told from Ray's") {
  RayAnswers answers = Proxied(kByName);
  const std::string mode = std::string(kByName) + kModePath;
  answers[mode] = StatusAnswer(403, "Forbidden", "services is forbidden");
  const RayFacts forbidden = ApiServer(answers).Look(WholeLook());
  REQUIRE(forbidden.nodes.not_looked_at());
  CHECK(forbidden.nodes.why_not().reason.starts_with(
      "needs get on services/proxy in namespace ray-train"));

  answers[mode] = StatusAnswer(404, "NotFound", "services not found");
  const RayFacts absent = ApiServer(answers).Look(WholeLook());
  // 404 of the API server is no old Ray.
  REQUIRE(absent.nodes.failed());
  CHECK(absent.nodes.error().message.find("has no service 'head-svc'") != std::string::npos);

  answers[mode] = JsonAnswer(R"({"authentication_mode":"token"})");
  answers[std::string(kByName) + kNodesPath] =
      HttpAnswer(403, "Forbidden: Invalid authentication token", "Content-Type: text/plain\r\n");
  const RayFacts wrong = ApiServer(answers).Look(WholeLook(kToken));
  REQUIRE(wrong.nodes.failed());
  CHECK(wrong.nodes.error().message.find("does not accept the token of RAY_AUTH_TOKEN") !=
        std::string::npos);
}

/// Gives another token each time, and writes a line into `runs` then.
ExecPlugin CountedPlugin(const std::string& runs) {
  ExecPlugin plugin;
  plugin.command = "sh";
  plugin.api_version = "client.authentication.k8s.io/v1";
  const std::string script =
      R"sh(echo x >>"$0"; n=$(wc -l <"$0"); printf '{"kind":"ExecCredential",)sh"
      R"sh("apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t-%s"}}' "$n")sh";
  plugin.args = {"-c", script, runs};
  return plugin;
}

int RunsOfPlugin(const std::string& refusal) {
  const KubeScratch scratch;
  const std::string runs = scratch.Write("runs", "");
  RayAnswers answers = Proxied(kByName);
  answers[std::string(kByName) + kModePath] = refusal;
  ApiServer api(answers, CountedPlugin(runs));
  const RayFacts facts = api.Look(WholeLook());
  CHECK_FALSE(facts.nodes.seen());
  std::ifstream file(runs);
  return static_cast<int>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
}

TEST_CASE("service proxy: a 401 of Ray's is no word on the API server's credential") {
  CHECK(RunsOfPlugin(HttpAnswer(401, "Unauthorized: Missing authentication token",
                                "Content-Type: text/plain\r\n")) == 1);
  CHECK(RunsOfPlugin(StatusAnswer(401, "Unauthorized", "Unauthorized")) == 2);
}

constexpr const char* kSecretPath = "/api/v1/namespaces/ray-train/secrets/one";

RayAnswers WithSecret(const std::string& data) {
  RayAnswers answers = Proxied(kByName);
  answers[std::string(kByName) + kModePath] = JsonAnswer(R"({"authentication_mode":"token"})");
  answers[kSecretPath] = JsonAnswer(R"({"kind":"Secret","data":)" + data + "}");
  return answers;
}

std::string TokenData(const std::string& token) {
  return R"({"auth_token":")" + Base64Encode(token) + R"("})";
}

RayCluster OneWithToken() {
  RayCluster cluster = OneCluster();
  cluster.auth_mode = "token";
  return cluster;
}

int RequestsFor(const ApiServer& api, const std::string& path) {
  const auto requests = api.server.Requests();
  return static_cast<int>(
      std::count_if(requests.begin(), requests.end(),
                    [&](const std::string& request) { return PathOfRequest(request) == path; }));
}

TEST_CASE("ray's secret: read where the RayCluster wants a token and none was given") {
  ApiServer api(WithSecret(TokenData(std::string(kToken) + "\n")));
  const RayFacts facts = api.Look(WholeLook(), OneWithToken());
  CHECK(facts.nodes.seen());
  CHECK(facts.jobs.seen());
  CHECK(RequestsFor(api, kSecretPath) == 1);
  CHECK(api.server.Requests().back().find(std::string("X-Ray-Authorization: Bearer ") + kToken) !=
        std::string::npos);

  ApiServer given(WithSecret(TokenData("another")));
  CHECK(given.Look(WholeLook(kToken), OneWithToken()).nodes.seen());
  CHECK(RequestsFor(given, kSecretPath) == 0);
  ApiServer not_named(WithSecret(TokenData(kToken)));
  CHECK(not_named.Look(WholeLook()).nodes.not_looked_at());
  CHECK(RequestsFor(not_named, kSecretPath) == 0);
  RayAnswers open = WithSecret(TokenData(kToken));
  open[std::string(kByName) + kModePath] = JsonAnswer(R"({"authentication_mode":"disabled"})");
  ApiServer disabled(open);
  CHECK(disabled.Look(WholeLook(), OneWithToken()).nodes.seen());
  CHECK(RequestsFor(disabled, kSecretPath) == 0);
}

TEST_CASE("ray's secret: without the right it is not asked for, and the right is named") {
  const RayAnswers answers = WithSecret(TokenData(kToken));
  ApiServer api([by_path = AnswerFrom(answers)](const std::string& request) {
    const bool secret =
        request.find(R"("resource":"secrets","namespace":"ray-train","name":"one")") !=
        std::string::npos;
    return secret ? Review(false) : by_path(request);
  });
  const RayFacts facts = api.Look(WholeLook(), OneWithToken());
  REQUIRE(facts.nodes.not_looked_at());
  CHECK(facts.nodes.why_not().reason.find("needs get on secrets 'one' in namespace ray-train") !=
        std::string::npos);
  CHECK(facts.nodes.why_not().reason.find("RAY_AUTH_TOKEN") != std::string::npos);
  CHECK(RequestsFor(api, kSecretPath) == 0);

  RayAnswers forbidden = answers;
  forbidden[kSecretPath] = StatusAnswer(403, "Forbidden", "secrets is forbidden");
  CHECK(ApiServer(forbidden).Look(WholeLook(), OneWithToken()).nodes.not_looked_at());
}

TEST_CASE("ray's secret: one that holds no token is an error that shows nothing of it") {
  for (const std::string& data :
       {std::string("{}"), std::string("null"), std::string(R"({"auth_token":""})"),
        std::string(R"({"auth_token":"hush-hush !"})"), TokenData("hush-hush hush"),
        TokenData("hush\x01")}) {
    CAPTURE(data);
    const RayFacts facts = ApiServer(WithSecret(data)).Look(WholeLook(), OneWithToken());
    REQUIRE(facts.nodes.failed());
    CHECK(facts.nodes.error().message.find("Secret ray-train/one (auth_token)") !=
          std::string::npos);
    CHECK(facts.nodes.error().message.find("hush") == std::string::npos);
  }
  RayAnswers absent = WithSecret("{}");
  absent[kSecretPath] = StatusAnswer(404, "NotFound", "secrets one not found");
  CHECK(ApiServer(absent).Look(WholeLook(), OneWithToken()).nodes.failed());
}

TEST_CASE("ray's secret: its name, as KubeRay makes it or the RayCluster says") {
  CHECK(RayTokenSecretName("one", "") == "one");
  CHECK(RayTokenSecretName("one", "mine") == "mine");
  CHECK(RayTokenSecretName("abc" + std::string(50, 'x'), "") == std::string(50, 'x'));
  CHECK(RayTokenSecretName("abc-" + std::string(49, 'x'), "") == "r" + std::string(49, 'x'));
}

TEST_CASE("service proxy: a dashboard that the control plane cannot reach") {
  RayAnswers answers = Proxied(kByName);
  for (const int status : {500, 503}) {
    answers[std::string(kByName) + kModePath] =
        StatusAnswer(status, "", "error trying to reach service: dial tcp: i/o timeout");
    const RayFacts facts = ApiServer(answers).Look(WholeLook());
    REQUIRE(facts.version.failed());
    CHECK(facts.version.error().message.find("i/o timeout") != std::string::npos);
    CHECK(facts.version.error().hint.find("--ray-address http://127.0.0.1:8265") !=
          std::string::npos);
  }
}

TEST_CASE("live cluster: no head service yet") {
  ApiServer api(Proxied(kByName));
  RayCluster cluster = OneCluster();
  cluster.head_service_name.clear();
  const RayFacts facts = api.Look(WholeLook(), cluster);
  REQUIRE(facts.jobs.not_looked_at());
  CHECK(facts.jobs.why_not().reason.find("names no head service") != std::string::npos);
  CHECK(api.server.Requests().empty());
}

TEST_CASE(
    "live cluster: in a pod the cluster's DNS first, and the proxy where that leads nowhere") {
  ApiServer api(Proxied(kByName));
  RayLook look = WholeLook();
  look.route.in_pod = true;
  // No cluster's DNS here: the name does not resolve.
  const RayFacts facts = api.Look(look);
  REQUIRE(facts.dashboard.has_value());
  CHECK(facts.dashboard->route == "service-proxy");
  ApiServer denied(Proxied(kByName, false));
  const RayFacts both = denied.Look(look);
  REQUIRE(both.nodes.failed());
  CHECK(both.nodes.error().message.find("head-svc.ray-train.svc") != std::string::npos);
}

TEST_CASE("live cluster: where its dashboard listens") {
  RayCluster cluster = OneCluster();
  CHECK(ClusterDnsAddress(cluster)->text == "http://head-svc.ray-train.svc:8265/");
  cluster.head.ray_start_params["dashboard-port"] = "9000";
  CHECK(ClusterDnsAddress(cluster)->port == 9000);
  cluster.head.ray_start_params["dashboard-port"] = "x";
  CHECK_FALSE(ClusterDnsAddress(cluster).has_value());
}

TEST_CASE("ways: when none leads anywhere, the error tells of each") {
  std::string one;
  std::string two;
  {
    const ScriptedServer first(AnswerFrom({}));
    const ScriptedServer second(AnswerFrom({}));
    one = first.Url();
    two = second.Url();
  }
  std::vector<std::unique_ptr<RayRoute>> routes;
  routes.push_back(MakeDirectRoute(*ParseUrl(one), {}));
  routes.push_back(MakeDirectRoute(*ParseUrl(two), {}));
  RayFacts facts;
  const auto quiet = [](const std::string&) {};
  ObserveRay(std::move(routes), WholeLook(), Deadline::After(std::chrono::seconds(20)),
             {quiet, quiet}, facts);
  REQUIRE(facts.nodes.failed());
  const std::string& message = facts.nodes.error().message;
  CHECK(message.find(std::to_string(ParseUrl(one)->port)) != std::string::npos);
  CHECK(message.find(std::to_string(ParseUrl(two)->port)) != std::string::npos);
}

TEST_CASE("service proxy: what changes something goes there whole, and a refusal names the verb") {
  std::string refused = "PUT ";
  ApiServer api([&](const std::string& request) {
    return request.starts_with(refused) ? StatusAnswer(403, "Forbidden", "no") : JsonAnswer("{}");
  });
  const auto route = MakeProxyRoute(api.client, "ray-train", "head-svc");
  RayRequest request;
  request.path = "/api/jobs/";
  request.token = kToken;
  request.method = HttpMethod::kPost;
  request.body = R"({"entrypoint":"true"})";
  const auto soon = [] { return Deadline::After(std::chrono::seconds(20)); };
  REQUIRE(route->Send(request, soon()).has_value());
  const std::string sent = api.server.Requests().back();
  CHECK(sent.starts_with(std::string("POST ") + kByName + "/api/jobs/ HTTP"));
  CHECK(sent.ends_with("\r\n\r\n" + request.body));
  CHECK(sent.find(std::string("\r\nX-Ray-Authorization: Bearer ") + kToken) != std::string::npos);
  CHECK(sent.find("\r\nContent-Type: application/json\r\n") != std::string::npos);
  const std::pair<HttpMethod, const char*> verbs[] = {
      {HttpMethod::kPost, "create"}, {HttpMethod::kPut, "update"}, {HttpMethod::kDelete, "delete"}};
  for (const auto& [method, verb] : verbs) {
    refused = std::string(HttpMethodName(method)) + " ";
    request.method = method;
    const auto answer = route->Send(request, soon());
    REQUIRE_FALSE(answer.has_value());
    CHECK(answer.error().message.find(std::string("needs ") + verb) != std::string::npos);
  }
  CHECK(RankRights("n").size() == 3);
}

}  // namespace
}  // namespace dlc
