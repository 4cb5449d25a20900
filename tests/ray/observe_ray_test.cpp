#include "probes/control/ray/observe_ray.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/ray/ray_server.h"

namespace dlc {
namespace {

TEST_CASE("ray: what each recorded Ray answered is what is observed") {
  struct Row {
    const char* version;
    const char* authentication;
  };
  for (const Row& row : {Row{"2.40.0", ""}, Row{"2.52.1", "disabled"}, Row{"2.58.0", "disabled"},
                         Row{"2.60.0", "disabled"}}) {
    CAPTURE(row.version);
    const ScriptedServer server(AnswerFrom(RecordedRay(row.version)));
    const RayFacts facts = LookAt(server.Url(), WholeLook("never-needed"));
    REQUIRE(facts.dashboard.has_value());
    CHECK(*facts.dashboard == RayDashboardFacts{server.Url(), "address", row.authentication});
    REQUIRE(facts.version.seen());
    CHECK(facts.version.value().ray_version == row.version);
    CHECK(facts.version.value().jobs_api_version == "4");
    REQUIRE(facts.nodes.seen());
    REQUIRE(facts.nodes.value().size() == 1);
    CHECK(facts.nodes.value()[0].is_head);
    CHECK(facts.nodes.value()[0].alive);
    CHECK(facts.nodes.value()[0].resources.at("GPU") == 4);
    REQUIRE(facts.jobs.seen());
    CHECK(facts.jobs.value().size() == 3);
    for (const RayJob& job : facts.jobs.value()) {
      CHECK(job.source.file == "GET " + server.Url(kJobsPath));
      CHECK(job.entrypoint.find("hush-hush") == std::string::npos);
      if (job.submission_id != "pip-job") {
        CHECK(job.runtime_env.packages.empty());
        continue;
      }
      REQUIRE(job.runtime_env.packages.size() == 2);
      CHECK(job.runtime_env.packages[0].name == "transformers");
      CHECK(job.runtime_env.packages[0].specifier == "==4.46.3");
      CHECK(job.runtime_env.packages[1].is_option);
      CHECK(job.runtime_env.packages[1].text.find("hush-hush") == std::string::npos);
      CHECK(job.runtime_env.env_vars.at("HF_TOKEN").find("hush-hush") == std::string::npos);
      CHECK(job.runtime_env.env_vars.at("FI_PROVIDER") == "efa");
    }
    // Nobody asked for a token, so nobody was given one.
    for (const std::string& request : server.Requests()) {
      CHECK(request.find("never-needed") == std::string::npos);
    }
  }
}

TEST_CASE("ray: all nodes are asked for, in detail") {
  const ScriptedServer server(AnswerFrom(RecordedRay("2.58.0")));
  LookAt(server.Url(), WholeLook());
  bool asked = false;
  for (const std::string& request : server.Requests()) {
    asked = asked || request.starts_with("GET /api/v0/nodes?detail=1&limit=10000 ");
  }
  CHECK(asked);
  CHECK(PathOfRequest(server.Requests().at(0)) == kModePath);
}

TEST_CASE("ray: only what is asked for is asked") {
  const ScriptedServer server(AnswerFrom(RecordedRay("2.58.0")));
  RayLook look = WholeLook();
  look.questions = RayQuestionsOf({Stage::kGpu, Stage::kNccl});
  const RayFacts facts = LookAt(server.Url(), look);
  CHECK(facts.nodes.seen());
  CHECK(facts.version.not_looked_at());
  CHECK(facts.jobs.not_looked_at());
  CHECK(server.Requests().size() == 2);
  CHECK_FALSE(RayQuestionsOf({Stage::kNccl, Stage::kCheckpoint}).Any());
  const RayQuestions image = RayQuestionsOf({Stage::kImage});
  CHECK((image.version && image.nodes && image.jobs));
}

TEST_CASE("ray: a dashboard below a path") {
  const ScriptedServer server(AnswerFrom(RecordedRay("2.58.0", "/ray/one")));
  CHECK(LookAt(server.Url("/ray/one/"), WholeLook()).nodes.seen());
  CHECK(LookAt(server.Url("/ray/one"), WholeLook()).nodes.seen());
}

/// Everything failed alike: the Error.
Error OneError(const RayFacts& facts) {
  REQUIRE(facts.version.failed());
  REQUIRE(facts.nodes.failed());
  REQUIRE(facts.jobs.failed());
  CHECK(facts.version.error() == facts.nodes.error());
  CHECK(facts.version.error() == facts.jobs.error());
  CHECK_FALSE(facts.dashboard.has_value());
  return facts.version.error();
}

TEST_CASE("ray: where the first question gets no answer, nothing more is asked") {
  std::string closed;
  {
    const ScriptedServer gone(AnswerFrom({}));
    closed = gone.Url();
  }
  const Error refused = OneError(LookAt(closed, WholeLook()));
  CHECK(refused.code == ErrorCode::kUnavailable);
  CHECK(refused.hint.find("Ray dashboard") != std::string::npos);

  const ScriptedServer html([](const std::string&) {
    return HttpAnswer(200, "<html>please log in</html>", "Content-Type: text/html\r\n");
  });
  const Error page = OneError(LookAt(html.Url(), WholeLook()));
  CHECK(page.code == ErrorCode::kUnavailable);
  CHECK(page.message.find("text/html") != std::string::npos);
  CHECK(html.Requests().size() == 1);

  for (const char* body : {"[]", "{}", R"({"authentication_mode":1})", "{", ""}) {
    const ScriptedServer other([body](const std::string&) { return JsonAnswer(body); });
    CHECK(OneError(LookAt(other.Url(), WholeLook())).message.find("no Ray dashboard") !=
          std::string::npos);
  }
}

/// The facts of a Ray 2.58 that answers `path` in another way.
RayFacts With(const std::string& path, const std::string& answer, RayLook look = WholeLook()) {
  RayAnswers answers = RecordedRay("2.58.0");
  answers[path] = answer;
  const ScriptedServer server(AnswerFrom(answers));
  look.route.timeout = std::chrono::seconds(5);
  return LookAt(server.Url(), look);
}

TEST_CASE("ray: each answer is an observation of its own") {
  const std::string whole = R"({"ray_version":"2.58.0","version":"4"})";
  struct Row {
    const char* name;
    std::string answer;
    ErrorCode code;
    const char* part;
  };
  const Row rows[] = {
      {"404", HttpAnswer(404, "404: Not Found"), ErrorCode::kNotFound, "port 8265"},
      {"401", HttpAnswer(401, "Unauthorized"), ErrorCode::kPermissionDenied, "in front of it"},
      {"403", HttpAnswer(403, "no"), ErrorCode::kPermissionDenied, "in front of it"},
      {"400", HttpAnswer(400, "limit"), ErrorCode::kUnavailable, "400: limit"},
      {"HTML", HttpAnswer(200, "<html>", "Content-Type: text/html\r\n"), ErrorCode::kUnavailable,
       "login page"},
      {"no type", HttpAnswer(200, whole), ErrorCode::kUnavailable, "without a content type"},
      {"cut JSON", JsonAnswer(whole.substr(0, 20)), ErrorCode::kUnavailable, "GET http://"},
      {"other JSON", JsonAnswer(R"({"version":"4"})"), ErrorCode::kUnavailable, "is missing"},
      {"a list", JsonAnswer("[]"), ErrorCode::kUnavailable, ""},
      {"nothing", JsonAnswer(""), ErrorCode::kUnavailable, ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const RayFacts facts = With(kVersionPath, row.answer);
    REQUIRE(facts.version.failed());
    const Error& error = facts.version.error();
    CHECK(error.code == row.code);
    CHECK_MESSAGE((error.message + error.hint).find(row.part) != std::string::npos, error.message,
                  error.hint);
    CHECK(facts.nodes.seen());
    CHECK(facts.jobs.seen());
  }
}

TEST_CASE("ray: a list of nodes that is not whole is an error, and so is one that is too long") {
  const auto nodes = [](const std::string& counts) {
    return JsonAnswer(R"({"result":true,"msg":"","data":{"result":{)" + counts +
                      R"(,"result":[],"partial_failure_warning":""}}})");
  };
  const RayFacts cut =
      With(kNodesPath, nodes(R"("total":12000,"num_after_truncation":10000,"num_filtered":0)"));
  REQUIRE(cut.nodes.failed());
  CHECK(cut.nodes.error().message.find("of 12000 nodes") != std::string::npos);
  CHECK(cut.version.seen());
  const RayFacts failed =
      With(kNodesPath, JsonAnswer(R"({"result":false,"msg":"no GCS","data":{}})"));
  REQUIRE(failed.nodes.failed());
  CHECK(failed.nodes.error().message.find("no GCS") != std::string::npos);
  // Announced, and not waited for.
  const RayFacts endless = With(
      kNodesPath,
      "HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Length: 104857600\r\n\r\n[1,");
  REQUIRE(endless.nodes.failed());
  CHECK(endless.nodes.error().code == ErrorCode::kUnsupported);
  CHECK(endless.nodes.error().message.find("longer than the limit") != std::string::npos);
  CHECK(endless.jobs.seen());
  // Not announced: noticed while it comes.
  const RayFacts long_one =
      With(kNodesPath,
           "HTTP/1.1 200 X\r\nContent-Type: application/json\r\nConnection: close\r\n"
           "\r\n[" +
               std::string(65U << 20U, ' '));
  REQUIRE(long_one.nodes.failed());
  CHECK(long_one.nodes.error().message.find("longer than the limit") != std::string::npos);
}

TEST_CASE("ray: a 500 is asked again, and its text is told in one line") {
  int count = 0;
  RayAnswers answers = RecordedRay("2.58.0");
  const ScriptedServer server([&](const std::string& request) {
    const bool fails = PathOfRequest(request) == kJobsPath && ++count < 3;
    return fails ? HttpAnswer(500, "Traceback (most\nrecent call last)")
                 : AnswerFrom(answers)(request);
  });
  CHECK(LookAt(server.Url(), WholeLook()).jobs.seen());
  CHECK(count == 3);
}

TEST_CASE("ray: a redirect to another host is not followed") {
  const ScriptedServer other(AnswerFrom(RecordedRay("2.58.0")));
  const RayFacts facts =
      With(kVersionPath, HttpAnswer(302, "", "Location: " + other.Url(kVersionPath) + "\r\n"));
  REQUIRE(facts.version.failed());
  CHECK(facts.version.error().message.find("redirects to another host") != std::string::npos);
  CHECK(other.Requests().empty());
}

TEST_CASE("ray: an interruption is no error of the dashboard's") {
  const std::atomic<bool> interrupted{true};
  const ScriptedServer server(AnswerFrom(RecordedRay("2.58.0")));
  RayLook look = WholeLook();
  look.route.interrupted = &interrupted;
  const RayFacts facts = LookAt(server.Url(), look);
  REQUIRE(facts.version.not_looked_at());
  CHECK(facts.version.why_not().reason == "interrupted");
}

TEST_CASE("ray: no time left") {
  const ScriptedServer server(AnswerFrom(RecordedRay("2.58.0")));
  RayFacts facts;
  const auto quiet = [](const std::string&) {};
  ObserveRayAt(*ParseUrl(server.Url()), WholeLook(), Deadline::After(std::chrono::milliseconds(0)),
               {quiet, quiet}, facts);
  REQUIRE(facts.nodes.failed());
  CHECK(facts.nodes.error().code == ErrorCode::kTimedOut);
}

}  // namespace
}  // namespace dlc
