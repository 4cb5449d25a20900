#include "probes/control/ray/ray_client.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "probes/observations/json.h"
#include "probes/observations/observations.h"
#include "tests/ray/ray_server.h"

namespace dlc {
namespace {

constexpr const char* kToken = "hush-hush-0123456789";

/// As Ray 2.52 and newer with RAY_AUTH_MODE=token.
ScriptedServer::Answer Locked(const std::string& header, RayAnswers answers,
                              const std::string& prefix = "") {
  answers[prefix + kModePath] = JsonAnswer(R"({"authentication_mode": "token"})");
  return [=](const std::string& request) {
    const std::string text = "Content-Type: text/plain; charset=utf-8\r\n";
    if (PathOfRequest(request) == prefix + kModePath ||
        request.find("\r\n" + header + ": Bearer " + kToken + "\r\n") != std::string::npos) {
      return AnswerFrom(answers)(request);
    }
    return request.find("\r\n" + header + ": ") == std::string::npos
               ? HttpAnswer(401, "Unauthorized: Missing authentication token", text)
               : HttpAnswer(403, "Forbidden: Invalid authentication token", text);
  };
}

TEST_CASE("ray token: sent where it is wanted, and not before") {
  const ScriptedServer server(Locked("Authorization", RecordedRay("2.58.0")));
  const RayFacts facts = LookAt(server.Url(), WholeLook(kToken));
  CHECK(facts.version.seen());
  CHECK(facts.nodes.seen());
  CHECK(facts.jobs.seen());
  REQUIRE(facts.dashboard.has_value());
  CHECK(facts.dashboard->authentication == "token");
  const auto requests = server.Requests();
  REQUIRE(requests.size() == 4);
  CHECK(requests[0].find(kToken) == std::string::npos);
  CHECK(requests[1].find(kToken) != std::string::npos);
}

TEST_CASE("ray token: none is not looked at, with what to do") {
  const ScriptedServer server(Locked("Authorization", RecordedRay("2.58.0")));
  const RayFacts facts = LookAt(server.Url(), WholeLook());
  REQUIRE(facts.version.not_looked_at());
  REQUIRE(facts.nodes.not_looked_at());
  REQUIRE(facts.jobs.not_looked_at());
  CHECK(facts.jobs.why_not().reason.find("RAY_AUTH_TOKEN") != std::string::npos);
  CHECK(server.Requests().size() == 1);
}

TEST_CASE("ray token: a wrong one is refused, and named by where it is from") {
  const ScriptedServer server(Locked("Authorization", RecordedRay("2.58.0")));
  const RayFacts facts = LookAt(server.Url(), WholeLook("hush-wrong-0123"));
  REQUIRE(facts.nodes.failed());
  CHECK(facts.nodes.error().code == ErrorCode::kPermissionDenied);
  CHECK(facts.nodes.error().message.find("the token of RAY_AUTH_TOKEN (403: Forbidden") !=
        std::string::npos);
  CHECK(facts.nodes.error().message.find("hush") == std::string::npos);
}

TEST_CASE("ray token: one that cannot be read is an error, and nothing is asked without it") {
  const ScriptedServer server(Locked("Authorization", RecordedRay("2.58.0")));
  RayLook look = WholeLook();
  look.token.token_path = "/nonexistent/token";
  const RayFacts facts = LookAt(server.Url(), look);
  REQUIRE(facts.version.failed());
  CHECK(facts.version.error().message.find("/nonexistent/token") != std::string::npos);
  CHECK(server.Requests().size() == 1);
}

TEST_CASE("ray token: an answer that repeats it does not bring it into observations or errors") {
  const std::string echo = R"([{"submission_id":"a","status":"PENDING","entrypoint":"curl -H )" +
                           std::string(kToken) + R"(","runtime_env":{}}])";
  RayAnswers answers = RecordedRay("2.58.0");
  answers[kJobsPath] = JsonAnswer(echo);
  answers[kVersionPath] = HttpAnswer(418, std::string("you sent ") + kToken);
  answers[kNodesPath] = HttpAnswer(200, "", std::string("Content-Type: ") + kToken + "\r\n");
  const ScriptedServer server(Locked("Authorization", answers));
  Observations observations;
  observations.ray = LookAt(server.Url(), WholeLook(kToken));
  REQUIRE(observations.ray.jobs.seen());
  REQUIRE(observations.ray.version.failed());
  CHECK(observations.ray.version.error().message.find("you sent (redacted)") != std::string::npos);
  // Nor half of it, where a long text is cut.
  for (std::size_t before = 55; before < 85; ++before) {
    answers[kVersionPath] = HttpAnswer(418, std::string(before, '.') + kToken);
    const ScriptedServer talkative(Locked("Authorization", answers));
    const RayFacts facts = LookAt(talkative.Url(), WholeLook(kToken));
    REQUIRE(facts.version.failed());
    CHECK(facts.version.error().message.find("hush") == std::string::npos);
  }
  CHECK(ObservationsToJson(observations, 1).find(kToken) == std::string::npos);
}

TEST_CASE("ray token: log lines do not hold it") {
  const ScriptedServer server(Locked("Authorization", RecordedRay("2.58.0")));
  std::vector<std::string> lines;
  RayLook look = WholeLook(kToken);
  look.route.log = [&](const std::string& line) { lines.push_back(line); };
  RayFacts facts;
  ObserveRayAt(*ParseUrl(server.Url()), look, Deadline::After(std::chrono::seconds(20)),
               {look.route.log, look.route.log}, facts);
  CHECK(facts.jobs.seen());
  CHECK(lines.size() >= 5);
  for (const std::string& line : lines) {
    CHECK(line.find(kToken) == std::string::npos);
  }
}

TEST_CASE("ray token: where it may go") {
  struct Row {
    const char* address;
    bool in_pod;
    bool may;
    const char* route;
  };
  const Row rows[] = {
      {"http://127.0.0.1:8265", false, true, "address"},
      {"http://localhost:8265", false, true, "address"},
      {"https://ray.example", false, true, "address"},
      {"http://ray.example:8265", false, false, "address"},
      {"http://10.0.0.7:8265", true, false, "address"},
      {"http://head-svc.ray-train.svc:8265", true, true, "cluster-dns"},
      {"http://head-svc.ray-train.svc.cluster.local:8265", true, true, "cluster-dns"},
      {"http://head-svc.ray-train.svc:8265", false, false, "address"},
      {"http://head-svc.ray-train.svc.example:8265", true, false, "address"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.address);
    RayRouteOptions options;
    options.in_pod = row.in_pod;
    const auto route = MakeDirectRoute(*ParseUrl(row.address), options);
    CHECK(route->MayCarryToken().has_value() == row.may);
    CHECK(route->Name() == row.route);
  }
}

/// A way that is not loopback to RayClient, and leads to a server of this test.
class PlainRoute : public RayRoute {
 public:
  explicit PlainRoute(const std::string& url)
      : asked_(MakeDirectRoute(*ParseUrl(url), {})),
        shown_(MakeDirectRoute(*ParseUrl("http://ray.example:8265"), {})) {}

  Result<HttpResponse> Send(const RayRequest& request, Deadline deadline) override {
    return asked_->Send(request, deadline);
  }
  Result<void> MayCarryToken() const override { return shown_->MayCarryToken(); }
  std::string Name() const override { return shown_->Name(); }
  std::string Address() const override { return shown_->Address(); }

 private:
  std::unique_ptr<RayRoute> asked_;
  std::unique_ptr<RayRoute> shown_;
};

TEST_CASE("ray token: it is not sent over plain http, and that is said") {
  const ScriptedServer server(Locked("Authorization", RecordedRay("2.58.0")));
  RayClient client(std::make_unique<PlainRoute>(server.Url()), {kToken, "", ""});
  const auto mode = client.LogIn(Deadline::After(std::chrono::seconds(20)));
  REQUIRE(mode.not_looked_at());
  CHECK(mode.why_not().reason.find("not sent to ray.example:8265 over plain http") !=
        std::string::npos);
  CHECK(mode.why_not().reason.find("port-forward") != std::string::npos);
  for (const std::string& request : server.Requests()) {
    CHECK(request.find(kToken) == std::string::npos);
  }
}

}  // namespace
}  // namespace dlc
