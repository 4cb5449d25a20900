#include "probes/control/ray_ranks/ray_launcher.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>

#include "probes/observations/ranks_json.h"
#include "tests/http/scripted_server.h"
#include "tests/ray_ranks/frames.h"

namespace dlc {
namespace {

using Json = nlohmann::json;

constexpr const char* kRun = "0123456789abcdef";

/// A dashboard whose job says what a test wants, and ends once it was told to.
class FakeDashboard {
 public:
  explicit FakeDashboard(std::string log, bool has_package = false)
      : log_(std::move(log)),
        has_package_(has_package),
        server_([this](const std::string& request) { return AnswerTo(request); }) {}

  std::string Url() const { return server_.Url(); }
  int Count(const std::string& start) const {
    int count = 0;
    for (const std::string& request : server_.Requests()) {
      count += request.starts_with(start) ? 1 : 0;
    }
    return count;
  }
  std::string Last(const std::string& start) const {
    std::string last;
    for (const std::string& request : server_.Requests()) {
      last = request.starts_with(start) ? request : last;
    }
    return last.substr(last.find("\r\n\r\n") + 4);
  }
  bool JobIsThere() const { return there_; }
  void EndAs(const std::string& status) { status_ = status; }

 private:
  static std::string Say(const Json& body) {
    return HttpAnswer(200, body.dump(), "Content-Type: application/json\r\n");
  }
  std::string AnswerTo(const std::string& request) {
    if (request.starts_with("GET /api/packages/")) {
      return HttpAnswer(has_package_ ? 200 : 404, "");
    }
    if (request.starts_with("PUT ")) {
      if (request.find(R"("stop":true)") != std::string::npos && status_ == "RUNNING") {
        status_ = "SUCCEEDED";
      }
      return HttpAnswer(200, "");
    }
    if (request.starts_with("POST /api/jobs/ ")) {
      there_ = true;
      return Say({{"submission_id", "x"}});
    }
    if (request.starts_with("DELETE ")) {
      there_ = false;
      return Say({{"deleted", true}});
    }
    if (request.find("/stop ") != std::string::npos) {
      status_ = "STOPPED";
      return Say({{"stopped", true}});
    }
    if (request.find("/logs ") != std::string::npos) {
      return Say({{"logs", log_}});
    }
    if (request.starts_with("GET /api/jobs/dlc-check-")) {
      return there_ ? Say({{"status", status_}, {"message", "as it was told"}})
                    : HttpAnswer(404, "no such job");
    }
    return HttpAnswer(404, "404: Not Found");
  }

  std::string log_;
  bool has_package_;
  std::string status_ = "RUNNING";
  std::atomic<bool> there_{false};
  ScriptedServer server_;  // last: its thread uses the others
};

/// What one rank saw, as its dlc-probe writes it.
std::string DocumentOf(int rank) {
  RankRun run;
  run.size = 2;
  RankObservations seen;
  seen.facts.rank = rank;
  seen.facts.size = 2;
  seen.facts.host = "host" + std::to_string(rank);
  run.ranks.push_back({rank, seen});
  return RankRunToJson(run);
}

std::string Line(const Json& message) {
  return message.dump() + "\n";
}

std::string Out(int rank, const std::string& line) {
  return Line({{"event", "out"}, {"rank", rank}, {"line", line}});
}

std::string Exit(int rank, int code) {
  return Line({{"event", "exit"}, {"rank", rank}, {"code", code}});
}

const std::string kStarted = Line({{"event", "started"}, {"nodes", 2}, {"master", "10.0.0.1"}});

struct Ended {
  std::vector<RankEvent> events;
  std::optional<Error> error;
  std::optional<NotLookedAt> why_none;
  RankRun run;
  std::vector<std::string> left;
};

Ended RunOn(const FakeDashboard& dashboard, const std::atomic<bool>* interrupted = nullptr,
            const std::optional<TrainerWork>& trainer = std::nullopt) {
  RayLauncherOptions options;
  options.client = std::make_shared<RayClient>(MakeDirectRoute(*ParseUrl(dashboard.Url()), {}),
                                               RayTokenSources{});
  options.probe = "/bin/sh";
  options.lease = std::chrono::seconds(2);
  options.poll = std::chrono::milliseconds(20);
  options.stays_away = std::chrono::milliseconds(100);
  RayLauncher launcher(options);
  LaunchRequest request;
  request.plan.run_id = kRun;
  request.plan.join_deadline_ms = 1000;
  request.plan.steps = {{"meet", "meet", 1000, "{}"}};
  request.ranks = 2;
  request.run_directories = {"/shared/.dlc-check-0123456789abcdef"};
  request.interrupted = interrupted;
  request.trainer = trainer;
  const auto soon = [] { return Deadline::After(std::chrono::seconds(20)); };
  const auto started = launcher.Start(request, soon());
  REQUIRE_MESSAGE(started.has_value(), started.error().message);
  Ended ended;
  while (true) {
    auto event = launcher.NextEvent(soon());
    if (!event) {
      ended.error = event.error();
      launcher.Cancel(Deadline::After(std::chrono::milliseconds(300)));
      break;
    }
    if (!*event) {
      break;
    }
    ended.events.push_back(**event);
  }
  ended.why_none = launcher.WhyNoRanks();
  ended.run = launcher.Collect();
  ended.left = launcher.CleanUp(soon());
  return ended;
}

TEST_CASE("ray launcher: events, documents, and nothing left") {
  const FakeDashboard dashboard(
      "noise\n" +
      ClosedLog({kStarted + Out(0, RankEventToJson({"step-started", 0, "meet", "meet"})),
                 Out(0, DocumentOf(0)) + Exit(0, 0), Out(1, DocumentOf(1)) + Exit(1, 0)}));
  const Ended ended = RunOn(dashboard);
  CHECK_FALSE(ended.error.has_value());
  CHECK(ended.left.empty());
  REQUIRE(ended.events.size() == 2);
  CHECK(ended.events[0].event == "launcher");
  CHECK(ended.events[1] == RankEvent{"step-started", 0, "meet", "meet"});
  CHECK(ended.run.launcher == "ray");
  REQUIRE(ended.run.ranks.size() == 2);
  for (const RankReport& report : ended.run.ranks) {
    REQUIRE(report.seen.seen());
    CHECK(report.seen.value().facts.host == "host" + std::to_string(report.rank));
  }
  CHECK_FALSE(dashboard.JobIsThere());
  const Json job = Json::parse(dashboard.Last("POST /api/jobs/ "));
  CHECK(job["metadata"]["dlc-check"] == kRun);
  const auto package = job["runtime_env"]["working_dir"].get<std::string>();
  CHECK(package.starts_with("gcs://dlc-check-"));
  CHECK(dashboard.Count("PUT /api/packages/gcs/" + package.substr(6)) == 1);
  const Json order = Json::parse(dashboard.Last("PUT "));
  CHECK(order["stop"] == true);  // that it was heard
  CHECK(order["ranks"] == 2);
  CHECK(ParseRankPlan(order["plan"].get<std::string>()).has_value());
}

TEST_CASE("ray launcher: a package that is there is not sent again") {
  const FakeDashboard dashboard(ClosedLog({kStarted + Exit(0, 0) + Exit(1, 0)}), true);
  RunOn(dashboard);
  CHECK(dashboard.Count("PUT /api/packages/gcs/dlc-check-0123456789abcdef-") >= 1);
  CHECK(dashboard.Count("PUT ") ==
        dashboard.Count("PUT /api/packages/gcs/dlc-check-0123456789abcdef-"));
}

TEST_CASE("ray launcher: a rank without a document says what became of it") {
  const FakeDashboard dashboard(
      ClosedLog({kStarted + Out(0, DocumentOf(0)) + Exit(0, 0) +
                 Line({{"event", "err"}, {"rank", 1}, {"line", "out of luck"}}) + Exit(1, 137)}));
  const Ended ended = RunOn(dashboard);
  CHECK(ended.run.ranks[0].seen.seen());
  REQUIRE(ended.run.ranks[1].seen.failed());
  CHECK(ended.run.ranks[1].seen.error().message ==
        "rank 1 was killed by SIGKILL; it said: out of luck");
  REQUIRE(ended.left.size() == 1);
  CHECK(ended.left[0].find("dlc-check cleanup -c CONFIG --run-id 0123456789abcdef --yes") !=
        std::string::npos);
}

TEST_CASE("ray launcher: places that stay taken are not looked at") {
  const FakeDashboard dashboard(
      ClosedLog({Line({{"event", "not-placed"},
                       {"why", "busy"},
                       {"resources", {{"GPU", {1, 2.0}}, {"CPU", {3, 4}}}}})}));
  const Ended ended = RunOn(dashboard);
  CHECK_FALSE(ended.error.has_value());
  REQUIRE(ended.why_none.has_value());
  CHECK(ended.why_none->reason.find("no 2 places with a GPU each became free within 300 seconds "
                                    "(free: 1 of 2 GPU, 3 of 4 CPU); "
                                    "GPUs are held by nobody that Ray's state API names (not all "
                                    "of that API answered)") != std::string::npos);
  CHECK(ended.left.empty());
  CHECK_FALSE(dashboard.JobIsThere());
}

TEST_CASE("ray launcher: results that did not arrive whole are refused") {
  const std::string log = ClosedLog({kStarted, Out(0, DocumentOf(0)), Out(1, DocumentOf(1))});
  const auto second = log.find("\n@dlc-check 1 ");
  const auto third = log.find("\n@dlc-check 2 ");
  const FakeDashboard dashboard(log.substr(0, second) + log.substr(third));
  const Ended ended = RunOn(dashboard);
  REQUIRE(ended.error.has_value());
  for (const RankReport& report : ended.run.ranks) {
    REQUIRE(report.seen.failed());
    CHECK(report.seen.error().message.find("frame 2 stands where frame 1 belongs") !=
          std::string::npos);
  }
  CHECK_FALSE(dashboard.JobIsThere());
}

TEST_CASE("ray launcher: a job that ends early is told with what it said") {
  FakeDashboard dashboard("Traceback: no module named ray\n");
  dashboard.EndAs("FAILED");
  const Ended ended = RunOn(dashboard);
  REQUIRE(ended.error.has_value());
  CHECK(ended.error->message.find("ended as FAILED (as it was told)") != std::string::npos);
  CHECK(ended.error->message.find("no module named ray") != std::string::npos);
  CHECK(ended.left.empty());
}

std::string Training(Json message) {
  message["event"] = "training";
  return Line(message);
}

TrainerWork OneTraining() {
  TrainerWork work;
  work.step = "fsdp-framework";
  work.directory = "/shared/.dlc-check-0123456789abcdef";
  work.runs = {{"train", {}, {}, {}}};
  return work;
}

const std::string kTwoDocuments =
    kStarted + Out(0, DocumentOf(0)) + Exit(0, 0) + Out(1, DocumentOf(1)) + Exit(1, 0);

TEST_CASE("ray launcher: what Ray Train's workers tell is each rank's step") {
  const FakeDashboard dashboard(
      ClosedLog({kTwoDocuments, Training({{"what", "run"}, {"run", "train"}}),
                 Training({{"what", "result"}, {"rank", 0}, {"facts", R"({"ranks": 2})"}}) +
                     Training({{"what", "raised"}, {"rank", 1}, {"words", "ValueError: no"}}),
                 Training({{"what", "ended"}, {"how", "raised"}}) +
                     Training({{"what", "closed"}, {"code", 0}})}));
  const Ended ended = RunOn(dashboard, nullptr, OneTraining());
  CHECK(ended.left.empty());
  CHECK(ended.events.back().text == "Ray Train's TorchTrainer starts 2 workers (train)");
  for (const RankReport& report : ended.run.ranks) {
    REQUIRE(report.seen.seen());
    const auto& list = report.seen.value().fsdp_framework;
    REQUIRE(list.size() == 1);
    CHECK(list[0].step == "fsdp-framework");
    const FrameworkProcess& process = list[0].seen.value().processes.front();
    CHECK(process.how == (report.rank == 0 ? "finished" : "raised"));
  }
  const Json order = Json::parse(dashboard.Last("PUT "));
  CHECK(order["trainer"]["workers"] == 2);
}

TEST_CASE("ray launcher: a Ray Train that was not seen to end may have left something") {
  FakeDashboard dashboard(Frame(0, kTwoDocuments) +
                          Frame(1, Training({{"what", "run"}, {"run", "train"}})));
  dashboard.EndAs("FAILED");
  const Ended ended = RunOn(dashboard, nullptr, OneTraining());
  REQUIRE(ended.error.has_value());
  const auto& list = ended.run.ranks[0].seen.value().fsdp_framework;
  CHECK(list[0].end.how == "interrupted");
  CHECK(list[0].seen.value().processes.front().seen.error().message.starts_with(
      "its end was not seen: Ray's job dlc-check-"));
  REQUIRE(ended.left.size() == 1);
  CHECK(ended.left[0].find("dlc-check cleanup -c CONFIG --run-id 0123456789abcdef --yes") !=
        std::string::npos);
}

TEST_CASE("ray launcher: an interruption stops the job, also one that does not listen") {
  const std::atomic<bool> interrupted{true};
  FakeDashboard dashboard(Frame(0, kStarted));
  dashboard.EndAs("PENDING");  // heeds no order
  const Ended ended = RunOn(dashboard, &interrupted);
  REQUIRE(ended.error.has_value());
  CHECK(ended.error->code == ErrorCode::kInterrupted);
  CHECK(dashboard.Count("POST /api/jobs/dlc-check-") == 1);
  CHECK_FALSE(dashboard.JobIsThere());
}

}  // namespace
}  // namespace dlc
