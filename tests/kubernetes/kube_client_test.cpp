#include "probes/control/kubernetes/kube_client.h"

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "tests/http/scripted_server.h"
#include "tests/kubernetes/scratch.h"

namespace dlc {
namespace {

Deadline Soon() {
  return Deadline::After(std::chrono::seconds(20));
}

KubeAccess AccessTo(const ScriptedServer& server, const std::string& path = "") {
  KubeAccess access;
  access.server = *ParseUrl(server.Url(path));
  return access;
}

std::string Json(int status, const std::string& body, const std::string& headers = "") {
  return HttpAnswer(status, body, "Content-Type: application/json\r\n" + headers);
}

std::string Page(const std::string& items, const std::string& token = "") {
  return Json(200, R"({"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"9")" +
                       (token.empty() ? "" : R"(,"continue":")" + token + "\"") + R"(},"items":[)" +
                       items + "]}");
}

const KubeRight kNodes{"list", "", "nodes", "", ""};

/// A list that keeps what it is given.
struct Kept {
  std::vector<std::string> items;
  int restarts = 0;
  KubeListRequest request;

  Kept() {
    request.path = "/api/v1/nodes";
    request.need = kNodes;
    request.page = [this](const std::vector<std::string_view>& page) -> Result<void> {
      items.insert(items.end(), page.begin(), page.end());
      return {};
    };
    request.restart = [this] {
      items.clear();
      ++restarts;
    };
  }
};

bool Asks(const std::string& request, const std::string& part) {
  return Has(request.substr(0, request.find("\r\n")), part);
}

TEST_CASE("kube client: pages follow each other by their token") {
  const ScriptedServer server([](const std::string& request) {
    return Asks(request, "continue=a%2Fb") ? Page(R"({"n":3})") : Page(R"({"n":1},{"n":2})", "a/b");
  });
  KubeClient client(AccessTo(server), {});
  Kept kept;
  kept.request.label_selector = "ray.io/cluster=x";
  const auto end = client.List(kept.request, Soon());
  REQUIRE(end.has_value());
  CHECK(end->pages == 2);
  CHECK(end->resource_version == "9");
  CHECK(kept.items == std::vector<std::string>{R"({"n":1})", R"({"n":2})", R"({"n":3})"});
  for (const std::string& request : server.Requests()) {
    CHECK(Asks(request, "GET /api/v1/nodes?limit=500&labelSelector=ray.io%2Fcluster%3Dx"));
  }
}

TEST_CASE("kube client: a list that expires under its pages starts over from nothing") {
  std::atomic<int> expired{0};
  const ScriptedServer server([&](const std::string& request) {
    if (!Asks(request, "continue=")) {
      return Page(R"({"n":1})", "t");
    }
    return ++expired == 1 ? Json(410, R"({"kind":"Status","reason":"Expired"})")
                          : Page(R"({"n":2})");
  });
  KubeClient client(AccessTo(server), {});
  Kept kept;
  REQUIRE(client.List(kept.request, Soon()).has_value());
  CHECK(kept.restarts == 1);
  CHECK(kept.items == std::vector<std::string>{R"({"n":1})", R"({"n":2})"});
}

TEST_CASE("kube client: one that always expires is given up") {
  const ScriptedServer server([&](const std::string&) {
    return Json(410, R"({"kind":"Status","reason":"Expired","message":"too old"})");
  });
  KubeClient client(AccessTo(server), {});
  Kept kept;
  const auto end = client.List(kept.request, Soon());
  REQUIRE_FALSE(end.has_value());
  CHECK(end.error().code == ErrorCode::kUnavailable);
  CHECK(Has(end.error().message, "410 Expired: too old"));
  CHECK(server.Requests().size() == 4);
}

TEST_CASE("kube client: a page that is too long is asked for in smaller ones") {
  const ScriptedServer server([](const std::string& request) {
    return Asks(request, "limit=500") ? Page(std::string(5'000, ' ') + R"({"n":1})")
                                      : Page(R"({"n":1})");
  });
  KubeClient client(AccessTo(server), {});
  Kept kept;
  kept.request.page_bytes = 2'000;
  REQUIRE(client.List(kept.request, Soon()).has_value());
  CHECK(kept.items.size() == 1);
  CHECK(Asks(server.Requests()[1], "limit=50"));
}

TEST_CASE("kube client: an error of the reader ends the list") {
  const ScriptedServer server([](const std::string&) { return Page(R"({"n":1})", "more"); });
  KubeClient client(AccessTo(server), {});
  Kept kept;
  kept.request.page = [](const std::vector<std::string_view>&) -> Result<void> {
    return Error{ErrorCode::kUnavailable, "cannot be read", ""};
  };
  const auto end = client.List(kept.request, Soon());
  REQUIRE_FALSE(end.has_value());
  CHECK(end.error().message == "cannot be read");
}

TEST_CASE("kube client: a truncated page, a page of HTML and one of another kind are no lists") {
  std::string answer;
  const ScriptedServer server([&](const std::string&) { return answer; });
  KubeClient client(AccessTo(server), {});
  for (const auto& [given, needle] :
       {std::pair{Json(200, R"({"kind":"NodeList","metadata":{},"items":[{"n":1})"), "breaks off"},
        {HttpAnswer(200, "<html>", "Content-Type: text/html\r\n"), "text/html"},
        {Json(200, R"({"kind":"Node","metadata":{}})"), "no list"}}) {
    CAPTURE(needle);
    answer = given;
    Kept kept;
    const auto end = client.List(kept.request, Soon());
    REQUIRE_FALSE(end.has_value());
    CHECK(end.error().code == ErrorCode::kUnavailable);
    CHECK(Has(end.error().message, needle));
  }
}

TEST_CASE("kube client: a 401 renews the credential once and asks again") {
  const KubeScratch scratch;
  const ScriptedServer server([](const std::string& request) {
    return Has(request, "Authorization: Bearer new") ? Json(200, "{}")
                                                     : Json(401, R"({"kind":"Status"})");
  });
  KubeAccess access = AccessTo(server);
  access.user.exec.emplace();
  access.user.exec->api_version = "v";
  access.user.exec->command = scratch.Script(
      "p", "if [ -e " + scratch.Path() + "/ran ]; then t=new; else t=old; fi; : > " +
               scratch.Path() +
               "/ran\nprintf "
               R"('{"kind":"ExecCredential","apiVersion":"v","status":{"token":"%s"}}' $t)");
  KubeClient client(access, {});
  CHECK(client.Get("/version", kNodes, Soon()).has_value());
  REQUIRE(server.Requests().size() == 2);
  CHECK(Has(server.Requests()[0], "Bearer old"));
}

TEST_CASE("kube client: a 401 that stays is final, names the user and shows no token") {
  const ScriptedServer server([](const std::string&) {
    return Json(401, R"({"kind":"Status","reason":"Unauthorized","message":"Unauthorized"})");
  });
  KubeAccess access = AccessTo(server);
  access.user.token = "s3cret";
  access.user.where = "config: line 7: user 'u'";
  std::mutex mutex;
  std::string logged;
  KubeClientOptions options;
  options.log = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    logged += line;
  };
  KubeClient client(access, options);
  const auto body = client.Get("/version", kNodes, Soon());
  REQUIRE_FALSE(body.has_value());
  CHECK(body.error().code == ErrorCode::kPermissionDenied);
  CHECK(Has(body.error().message, "user 'u'"));
  CHECK(server.Requests().size() == 1);
  CHECK_FALSE(Has(body.error().message + logged, "s3cret"));
}

TEST_CASE("kube client: a redirect to another host is refused and gets no credential") {
  const ScriptedServer thief([](const std::string&) { return Json(200, "{}"); });
  const ScriptedServer server([&](const std::string&) {
    return HttpAnswer(302, "", "Location: " + thief.Url("/api") + "\r\n");
  });
  KubeAccess access = AccessTo(server);
  access.user.token = "s3cret";
  KubeClient client(access, {});
  const auto body = client.Get("/version", kNodes, Soon());
  REQUIRE_FALSE(body.has_value());
  CHECK(Has(body.error().message, "to another host"));
  CHECK(thief.Requests().empty());
}

TEST_CASE("kube client: a gateway's path stays in front, impersonation goes along") {
  const ScriptedServer server([](const std::string&) { return Json(200, "{}"); });
  KubeAccess access = AccessTo(server, "/k8s/clusters/c-1/");
  access.user.headers = {"Impersonate-User: other"};
  KubeClient client(access, {});
  REQUIRE(client.Get("/version", kNodes, Soon()).has_value());
  CHECK(Asks(server.Requests()[0], "GET /k8s/clusters/c-1/version HTTP"));
  CHECK(Has(server.Requests()[0], "Impersonate-User: other\r\n"));
}

TEST_CASE("kube client: reviews ask for exactly one right") {
  const ScriptedServer server([](const std::string& request) {
    return Json(201, Has(request, R"("resource":"nodes")")
                         ? R"({"kind":"SelfSubjectAccessReview","status":{"allowed":true}})"
                         : R"({"status":{"allowed":false,"reason":"no"}})");
  });
  KubeClient client(AccessTo(server), {});
  CHECK(*client.Allows(kNodes, Soon()));
  CHECK_FALSE(*client.Allows({"get", "ray.io", "rayclusters", "status", "n"}, Soon()));
  const std::string asked = server.Requests()[1];
  CHECK(asked.ends_with(
      R"("resourceAttributes":{"verb":"get","resource":"rayclusters","group":"ray.io","subresource":"status","namespace":"n"}}})"));
  CHECK(Asks(asked, "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"));
  CHECK(*client.Allows(kNodes, Soon()));
  CHECK(server.Requests().size() == 2);
}

TEST_CASE("kube client: a review without an answer is an error, not a yes") {
  std::string body;
  const ScriptedServer server([&](const std::string&) { return Json(201, body); });
  KubeClient client(AccessTo(server), {});
  for (const char* given : {"{}", R"({"status":{}})", R"({"status":{"allowed":"true"}})", "[]"}) {
    body = given;
    CHECK_FALSE(client.Allows(kNodes, Soon()).has_value());
  }
}

TEST_CASE("kube client: a connection is shared, and a wait for one has a deadline") {
  std::promise<void> arrived;
  std::promise<void> release;
  auto released = release.get_future().share();
  const ScriptedServer server([&](const std::string&) {
    arrived.set_value();
    released.wait();
    return Json(200, "{}");
  });
  KubeClientOptions options;
  options.connections = 1;
  KubeClient client(AccessTo(server), options);
  auto first = std::async(std::launch::async,
                          [&] { return client.Get("/version", kNodes, Soon()).has_value(); });
  arrived.get_future().wait();
  const auto second =
      client.Get("/version", kNodes, Deadline::After(std::chrono::milliseconds(50)));
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == ErrorCode::kTimedOut);
  release.set_value();
  CHECK(first.get());
}

TEST_CASE("kube paths: names are encoded, the proxy's path is kept") {
  CHECK(KubePath("", "v1", "", "nodes") == "/api/v1/nodes");
  CHECK(KubePath("ray.io", "v1", "a/b", "rayclusters") ==
        "/apis/ray.io/v1/namespaces/a%2Fb/rayclusters");
  CHECK(ServiceProxyPath("ray-train", "head-svc", "dashboard", "/api/jobs/?x=1") ==
        "/api/v1/namespaces/ray-train/services/http:head-svc:dashboard/proxy/api/jobs/?x=1");
}

}  // namespace
}  // namespace dlc
