#include "probes/control/kubernetes/kube_reply.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/kubernetes/scratch.h"

namespace dlc {
namespace {

HttpResponse Answered(int status, const std::string& body) {
  HttpResponse response;
  response.status = status;
  response.body = body;
  response.url = *ParseUrl("https://k8s.example:6443/api/v1/nodes");
  return response;
}

std::string Status(const std::string& reason, const std::string& message,
                   const std::string& details = "{}") {
  return R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":")" +
         message + R"(","reason":")" + reason + R"(","details":)" + details + "}";
}

const KubeRight kNodes{"list", "", "nodes", "", ""};
const KubeRight kClusters{"list", "ray.io", "rayclusters", "", "ray-train"};

TEST_CASE("kube reply: a right is told as RBAC has it") {
  CHECK(kNodes.ToString() == "list on nodes");
  CHECK(kClusters.ToString() == "list on rayclusters.ray.io in namespace ray-train");
  CHECK(KubeRight{"create", "", "pods", "exec", "n"}.ToString() ==
        "create on pods/exec in namespace n");
}

TEST_CASE("kube reply: 403 names the right, 401 the user") {
  const Error denied = ExplainKubeFailure(
      Answered(403, Status("Forbidden", R"(nodes is forbidden: User \"v\" cannot list)")), kNodes,
      "config: line 7: user 'u'");
  CHECK(denied.code == ErrorCode::kPermissionDenied);
  CHECK(denied.message.starts_with("needs list on nodes (403 Forbidden: nodes is forbidden"));
  CHECK(Has(denied.hint, "manifest rbac"));
  const Error unknown = ExplainKubeFailure(Answered(401, Status("Unauthorized", "Unauthorized")),
                                           kNodes, "config: line 7: user 'u'");
  CHECK(unknown.code == ErrorCode::kPermissionDenied);
  CHECK(Has(unknown.message, "does not accept the credential of config: line 7: user 'u'"));
}

TEST_CASE("kube reply: 404 tells an absent kind from an absent object") {
  const Error kind = ExplainKubeFailure(Answered(404, "404 page not found\n"), kClusters, "");
  CHECK(kind.code == ErrorCode::kNotFound);
  CHECK(Has(kind.message, "knows no rayclusters.ray.io"));
  CHECK(Has(kind.message, "KubeRay is not installed"));
  const Error object = ExplainKubeFailure(
      Answered(404, Status("NotFound", "x not found", R"({"name":"x"})")), kClusters, "");
  CHECK(Has(object.message, "no such object"));
}

TEST_CASE("kube reply: what a proxy in between answers is not Kubernetes's word") {
  const Error error = ExplainKubeFailure(Answered(502, "<html>\n<b>bad"), kNodes, "");
  CHECK(error.code == ErrorCode::kUnavailable);
  CHECK(Has(error.message, "502 with no Status of Kubernetes: <html> <b>bad"));
  HttpResponse page = Answered(200, "<html>");
  page.headers.emplace("content-type", "text/html");
  CHECK(Has(CheckIsJson(page).error().message, "text/html"));
  CHECK_FALSE(CheckIsJson(Answered(200, "{}")).has_value());
  page.headers = {{"content-type", "application/json; charset=utf-8"}};
  CHECK(CheckIsJson(page).has_value());
}

}  // namespace
}  // namespace dlc
