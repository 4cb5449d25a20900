#include "probes/control/ray_ranks/ray_jobs.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>

#include "tests/http/scripted_server.h"

namespace dlc {
namespace {

Deadline Soon() {
  return Deadline::After(std::chrono::seconds(20));
}

RayJobs JobsOf(const ScriptedServer& server) {
  auto client =
      std::make_shared<RayClient>(MakeDirectRoute(*ParseUrl(server.Url()), {}), RayTokenSources{});
  return RayJobs(std::move(client));
}

std::string Json(const std::string& body) {
  return HttpAnswer(200, body, "Content-Type: application/json\r\n");
}

TEST_CASE("jobs: a package is asked for by its name and put whole") {
  const ScriptedServer server([](const std::string& request) {
    return HttpAnswer(request.starts_with("PUT ") ? 200 : 404, "");
  });
  RayJobs jobs = JobsOf(server);
  CHECK(*jobs.HasPackage("a.zip", Soon()) == false);
  CHECK(jobs.PutPackage("a.zip", std::string("P\0K", 3), Soon()).has_value());
  const auto requests = server.Requests();
  REQUIRE(requests.size() == 2);
  CHECK(requests[0].starts_with("GET /api/packages/gcs/a.zip HTTP"));
  CHECK(requests[1].starts_with("PUT /api/packages/gcs/a.zip HTTP"));
  CHECK(requests[1].ends_with(std::string("\r\n\r\nP\0K", 7)));
}

TEST_CASE("jobs: one whose answer was lost is not made twice") {
  std::atomic<int> posts{0};
  const ScriptedServer server([&](const std::string& request) {
    if (request.starts_with("POST ")) {
      ++posts;
      return HttpAnswer(500, "Traceback ... Please use a different submission_id");
    }
    return Json(R"({"status": "PENDING"})");
  });
  CHECK(JobsOf(server).Submit({"id", "true", "a.zip", "run"}, Soon()).has_value());
  CHECK(posts == 1);
}

TEST_CASE("jobs: a head that takes none yet is asked again") {
  std::atomic<int> posts{0};
  const ScriptedServer server([&](const std::string& request) {
    if (!request.starts_with("POST ")) {
      return HttpAnswer(404, "no such job");
    }
    return ++posts < 2 ? HttpAnswer(500, "Traceback: no agent") : Json("{}");
  });
  CHECK(JobsOf(server).Submit({"id", "true", "a.zip", "run"}, Soon()).has_value());
  CHECK(posts == 2);
  const ScriptedServer never([](const std::string& request) {
    return HttpAnswer(request.starts_with("POST ") ? 500 : 404, "Traceback: no agent");
  });
  const auto refused = JobsOf(never).Submit({"id", "true", "a.zip", "run"},
                                            Deadline::After(std::chrono::milliseconds(500)));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("no agent") != std::string::npos);
}

TEST_CASE("jobs: one that is refused for good is not asked for again") {
  std::atomic<int> posts{0};
  const ScriptedServer server([&](const std::string& request) {
    posts += request.starts_with("POST ") ? 1 : 0;
    return HttpAnswer(request.starts_with("POST ") ? 403 : 404, "Forbidden");
  });
  const auto refused = JobsOf(server).Submit({"id", "true", "a.zip", "run"}, Soon());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kPermissionDenied);
  CHECK(posts == 1);
}

TEST_CASE("jobs: state and log, and answers of another form") {
  const auto state = [](const std::string& body) {
    const ScriptedServer server([&](const std::string&) { return Json(body); });
    return JobsOf(server).State("id", Soon());
  };
  const auto failed = state(R"({"status": "FAILED", "message": "driver\nfailed"})");
  REQUIRE((failed.has_value() && failed->has_value()));
  CHECK((*failed)->Ended());
  CHECK((*failed)->message.find('\n') == std::string::npos);
  CHECK_FALSE((*state(R"({"status": "RUNNING"})"))->Ended());
  CHECK_FALSE(state("[]").has_value());
  CHECK_FALSE(state("{\"status\": 1}").has_value());
  CHECK_FALSE(state("<html>").has_value());
  const auto log = [](const std::string& body) {
    const ScriptedServer server([&](const std::string&) { return Json(body); });
    return JobsOf(server).Log("id", Soon());
  };
  CHECK(*log(R"({"logs": "a\nb"})") == "a\nb");
  CHECK(log(R"({"logs": null})")->empty());
  CHECK_FALSE(log(R"({"logs": 1})").has_value());
  CHECK_FALSE(log("{}").has_value());
}

}  // namespace
}  // namespace dlc
