#include "probes/control/ray_ranks/trainer_told.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

using Json = nlohmann::json;

TrainerWork Work() {
  TrainerWork work;
  work.step = "fsdp-framework";
  work.deadline_ms = 1500;
  work.directory = "/shared/.dlc-check-0123456789abcdef";
  work.storage = work.directory + "/framework";
  work.begun.launcher = "ray-train";
  work.begun.steps = 3;
  FrameworkJob job;
  job.engine = "torch";
  job.seed = 1;
  FrameworkJob other = job;
  other.seed = 2;
  work.runs = {{"train", job, {{1, other}}, {{0, "kill"}}}, {"resume", job, {}, {}}};
  return work;
}

class Told {
 public:
  Told& Take(Json message) {
    message["event"] = "training";
    texts.push_back(told.Take(message.dump()));
    return *this;
  }
  Told& Worker(int rank, const std::string& what, Json more = Json::object()) {
    more["what"] = what;
    more["rank"] = rank;
    return Take(std::move(more));
  }
  Told& Result(int rank) {
    return Worker(rank, "result", {{"facts", R"({"ranks": 2, "backend": "gloo"})"}});
  }
  Told& Begin(const std::string& run = "train") { return Take({{"what", "run"}, {"run", run}}); }
  Told& End(Json end) {
    end["what"] = "ended";
    return Take(std::move(end));
  }
  FrameworkProcess Process(int rank, std::size_t run = 0, const std::string& why = "") const {
    return told.Experiments(why)[static_cast<std::size_t>(rank)].processes[run];
  }

  TrainerTold told{Work(), 2};
  std::vector<std::string> texts;
};

TEST_CASE("trainer: what it is given") {
  const Json order = Json::parse(TrainerOrder(Work(), 2, "STRICT_SPREAD", 300, "0123456789abcdef"));
  CHECK(order["workers"] == 2);
  CHECK(order["gpusPerWorker"] == 0);
  CHECK(order["strategy"] == "STRICT_SPREAD");
  CHECK(order["waitSeconds"] == 300);
  CHECK(order["deadlineSeconds"] == 1.5);
  CHECK(order["directory"] == "/shared/.dlc-check-0123456789abcdef");
  CHECK(order["storage"] == "/shared/.dlc-check-0123456789abcdef/framework");
  CHECK(order["name"] == "dlc-check-0123456789abcdef");
  REQUIRE(order["runs"].size() == 2);
  CHECK(order["runs"][0]["job"]["seed"] == 1);
  CHECK(order["runs"][0]["otherJobs"]["1"]["seed"] == 2);
  CHECK(order["runs"][0]["plant"] == Json{{"0", "kill"}});
  CHECK(order["runs"][1]["plant"].empty());
}

TEST_CASE("trainer: results of all workers, in the order of ranks") {
  Told told;
  CHECK_FALSE(told.told.begun());
  told.Begin()
      .Worker(1, "here", {{"host", "pod-1"}})
      .Worker(0, "said", {{"text", "step 1"}, {"seconds", 2.5}})
      .Result(1)
      .Result(0)
      .Worker(0, "nccl", {{"text", "h:1:1 [0] NCCL INFO Using network Socket\n"}})
      .End({{"how", "finished"}});
  told.Begin("resume").Result(0).Result(1).End({{"how", "finished"}});
  told.Take({{"what", "cleaned"}}).Take({{"what", "closed"}, {"code", 0}});
  CHECK(told.told.closed());
  CHECK(told.told.left().empty());
  CHECK(told.texts[0] == "Ray Train's TorchTrainer starts 2 workers (train)");
  CHECK(told.texts[2] == "worker 0 of Ray Train: train: step 1");
  const auto all = told.told.Experiments("");
  REQUIRE(all.size() == 2);
  for (const FrameworkExperiment& one : all) {
    CHECK(one.launcher == "ray-train");
    CHECK(one.steps == 3);
    REQUIRE(one.processes.size() == 2);
    CHECK(one.processes[1].name == "resume");
    for (const FrameworkProcess& process : one.processes) {
      CHECK(process.how == "finished");
      REQUIRE(process.seen.seen());
      CHECK(process.seen.value().ranks == 2);
    }
  }
  CHECK(all[1].processes[0].host == "pod-1");
  CHECK(all[0].processes[0].seconds == 2.5);
  REQUIRE(all[0].processes[0].nccl_log.seen());
  CHECK(all[0].processes[0].nccl_log.value().networks == std::vector<std::string>{"Socket"});
  CHECK_FALSE(all[1].processes[0].nccl_log.seen());
  CHECK(told.told.EndOf(0).how == "finished");
}

TEST_CASE("trainer: a worker that raises, and the other that is stopped for it") {
  Told told;
  told.Begin()
      .Worker(1, "here", {{"host", "pod-1"}})
      .Worker(1, "raised",
              {{"words", "ValueError: no"}, {"lines", {"Traceback", "ValueError: no"}}})
      .End({{"how", "raised"}, {"words", "TrainingFailedError: ValueError: no"}});
  CHECK(told.Process(1).how == "raised");
  CHECK(told.Process(1).last_words == "ValueError: no");
  CHECK(told.Process(1).output_tail == std::vector<std::string>{"Traceback", "ValueError: no"});
  CHECK(told.Process(0).how == "stopped");
  CHECK(told.Process(0).seen.error().message ==
        "stopped, as worker 1 of Ray Train on pod-1 raised ValueError: no");
}

TEST_CASE("trainer: what a lost worker's peer raises or has done is not taken for its own") {
  Told told;
  told.Begin()
      .Worker(0, "raised", {{"words", "RuntimeError: Connection closed by peer"}})
      .Worker(1, "said", {{"text", "step 2"}})
      .End({{"how", "lost"}, {"lost", {1}}, {"words", "The actor died"}});
  CHECK(told.Process(0).how == "stopped");
  CHECK(told.Process(0).seen.error().message == "stopped, as Ray lost worker 1 of Ray Train");
  CHECK(told.Process(1).how == "lost");
  CHECK(told.Process(1).seen.error().message ==
        "Ray lost it; last progress: step 2; Ray says: The actor died");
  Told nobody;  // Ray Train before 2 does not say who
  nobody.Begin().Result(0).End({{"how", "lost"}, {"lost", Json::array()}, {"words", "died"}});
  CHECK(nobody.Process(0).how == "stopped");
  CHECK(nobody.Process(1).how == "stopped");
  CHECK(nobody.Process(1).seen.error().message ==
        "Ray lost a worker and does not say which; Ray says: died");
  Told strange;  // a rank that there is not
  strange.Begin().End({{"how", "lost"}, {"lost", {7, -1, "x"}}, {"words", "died"}});
  CHECK(strange.Process(0).how == "stopped");
}

TEST_CASE("trainer: ends that are no worker's") {
  Told told;
  told.Begin().End({{"how", "raised"}, {"words", "RuntimeError: no storage"}});
  CHECK(told.Process(0).how == "raised");
  CHECK(told.Process(0).last_words == "RuntimeError: no storage");
  Told missing;
  missing.Begin().End({{"how", "missing"}, {"words", "pyarrow"}});
  REQUIRE(missing.Process(1).seen.seen());
  CHECK(missing.Process(1).seen.value().missing == "pyarrow");
  Told late;
  late.Begin().Worker(0, "said", {{"text", "step 1"}}).Take({{"what", "timed-out"}});
  CHECK(late.Process(0).how == "timed-out");
  CHECK(late.Process(0).seen.error().message ==
        "did not end before its deadline; last progress: step 1");
  Told nowhere;
  nowhere.Begin().Take({{"what", "not-placed"}});
  CHECK(nowhere.Process(0).how == "not-started");
  CHECK(nowhere.Process(0).seen.error().message.find("no 2 places") != std::string::npos);
  Told failed;
  failed.Take({{"what", "failed"}, {"words", "cannot make /x: No such file"}});
  CHECK(failed.Process(1).how == "not-started");
  CHECK(failed.Process(1).seen.error().message == "cannot make /x: No such file");
  Told killed;
  killed.Begin().Take({{"what", "died"}, {"code", -11}});
  CHECK(killed.Process(0).how == "killed");
  CHECK(killed.Process(0).signal_name == "SIGSEGV");
  Told broken;
  broken.Take({{"what", "closed"}, {"code", 1}});
  CHECK(broken.Process(0).how == "not-started");
  CHECK(broken.Process(0).seen.error().message ==
        "dlc_check_trainer.py ended with code 1, as of Python's subprocess");
  Told absent;
  absent.Take({{"what", "closed"}, {"code", 2}, {"lines", {"python3: can't open file"}}});
  CHECK(absent.Process(0).seen.error().message ==
        "dlc_check_trainer.py ended with code 2: python3: can't open file");
  CHECK(absent.Process(0).output_tail.size() == 1);
  Told exited;
  exited.Begin().Take({{"what", "died"}, {"code", 3}});
  CHECK(exited.Process(0).exit_code == 3);
}

TEST_CASE("trainer: nothing that was not told is a result") {
  Told told;
  told.Begin().Result(0);
  CHECK(told.Process(0).seen.seen());
  CHECK(told.Process(1, 0, "the dashboard is gone").seen.error().message ==
        "its end was not seen: the dashboard is gone");
  told.Take({{"what", "stopped"}});
  CHECK(told.Process(1).seen.error().message == "it was stopped before its end");
  Told never;
  CHECK(never.Process(0, 0, "the job was stopped").seen.error().message ==
        "Ray Train was not started: the job was stopped");
  CHECK(never.told.EndOf(0).how == "not-started");
  Told silent;
  silent.Begin().End({{"how", "finished"}});
  CHECK(silent.Process(0).seen.error().message == "Ray Train's worker gave no result");
  Told liar;
  liar.Begin().Worker(0, "result", {{"facts", R"({"rankz": 2})"}}).End({{"how", "finished"}});
  CHECK(liar.Process(0).seen.error().message.starts_with(
      "Ray Train's worker gave a result that cannot be read: "));
}

TEST_CASE("trainer: messages of no known form change nothing") {
  TrainerTold told(Work(), 2);
  for (const char* text :
       {"", "no JSON", "[]", "{}", R"({"what": 3})", R"({"what": "said", "rank": 0})",
        R"({"what": "ended", "how": 1, "lines": 3, "lost": {"a": "b"}})"}) {
    told.Take(text);
  }
  for (const FrameworkExperiment& one : told.Experiments("")) {
    CHECK(one.processes.front().seen.failed());
  }
  Told left;
  left.Take({{"what", "left"}, {"text", "/shared/x: EACCES"}});
  CHECK(left.told.left() == std::vector<std::string>{"/shared/x: EACCES"});
}

}  // namespace
}  // namespace dlc
