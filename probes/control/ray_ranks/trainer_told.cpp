#include "probes/control/ray_ranks/trainer_told.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "probes/control/process/run_process.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWordsChars = 1500;
constexpr std::size_t kMostLines = 30;

std::string TextOf(const Json& message, const char* key) {
  const auto it = message.find(key);
  return it != message.end() && it->is_string() ? it->get<std::string>() : "";
}

int NumberOf(const Json& message, const char* key, int absent) {
  const auto it = message.find(key);
  return it != message.end() && it->is_number_integer() ? it->get<int>() : absent;
}

std::vector<std::string> LinesOf(const Json& message) {
  std::vector<std::string> lines;
  const auto it = message.find("lines");
  for (const Json& line : it != message.end() ? *it : Json::array()) {
    if (line.is_string() && lines.size() < kMostLines) {
      lines.push_back(line.get<std::string>());
    }
  }
  return lines;
}

std::string ProgressOf(const FrameworkProcess& process) {
  return process.last_progress.empty() ? "" : "; last progress: " + process.last_progress;
}

Error Unavailable(std::string message) {
  return {ErrorCode::kUnavailable, std::move(message), ""};
}

template <class Value, class Write>
Json ByRank(const std::map<int, Value>& values, const Write& write) {
  Json all = Json::object();
  for (const auto& [rank, value] : values) {
    all[std::to_string(rank)] = write(value);
  }
  return all;
}

}  // namespace

std::string TrainerOrder(const TrainerWork& work, int workers, const std::string& strategy,
                         std::int64_t wait_seconds, const std::string& run_id) {
  const auto job = [](const FrameworkJob& one) { return Json::parse(FactsToJson(one)); };
  Json runs = Json::array();
  for (const TrainerRun& run : work.runs) {
    runs.push_back(
        {{"name", run.name},
         {"job", job(run.job)},
         {"otherJobs", ByRank(run.other_jobs, job)},
         {"plant", ByRank(run.worker_faults, [](const std::string& kind) { return Json(kind); })}});
  }
  return Json{{"workers", workers},
              {"gpusPerWorker", work.gpus_per_worker},
              {"strategy", strategy},
              {"waitSeconds", wait_seconds},
              {"deadlineSeconds", work.deadline_ms / 1000.0},
              {"directory", work.directory},
              {"storage", work.storage},
              {"name", "dlc-check-" + run_id},
              {"runs", std::move(runs)}}
      .dump();
}

TrainerTold::TrainerTold(const TrainerWork& work, int workers) : work_(work), workers_(workers) {}

std::string TrainerTold::Take(std::string_view text) {
  begun_ = true;
  const Json message = Json::parse(text, nullptr, false);
  const std::string what = message.is_object() ? TextOf(message, "what") : "";
  if (what == "closed") {
    closed_ = true;
    if (const int code = NumberOf(message, "code", 0);
        code != 0 && (runs_.empty() || runs_.back().how.empty())) {
      TakeEnd("keeper-died", text);
    }
  } else if (what == "left") {
    left_.push_back(TextOf(message, "text"));
  } else if (what == "run") {
    BeginRun(TextOf(message, "run"));
    return "Ray Train's TorchTrainer starts " + std::to_string(workers_) +
           (workers_ == 1 ? " worker" : " workers") + " (" + runs_.back().name + ")";
  } else if (const int rank = NumberOf(message, "rank", -1);
             rank >= 0 && rank < workers_ && !runs_.empty()) {
    Worker& worker = runs_.back().workers[static_cast<std::size_t>(rank)];
    TakeOfWorker(what, worker, text);
    return what == "said" ? "worker " + std::to_string(rank) +
                                " of Ray Train: " + runs_.back().name + ": " + worker.last_progress
                          : "";
  } else if (what != "cleaned" && !what.empty()) {
    TakeEnd(what == "ended" ? TextOf(message, "how") : what, text);
  }
  return "";
}

void TrainerTold::BeginRun(std::string name) {
  runs_.push_back({std::move(name), {}, "", "", {}, {}, 0});
  runs_.back().workers.resize(static_cast<std::size_t>(workers_));
}

/// The first word of a run's end counts.
void TrainerTold::TakeEnd(std::string how, std::string_view text) {
  const Json message = Json::parse(text, nullptr, false);
  if (runs_.empty()) {
    BeginRun(work_.runs.front().name);
  }
  Run& run = runs_.back();
  if (!run.how.empty()) {
    return;
  }
  run.how = std::move(how);
  run.words = OneLine(TextOf(message, "words"), kWordsChars);
  run.lines = LinesOf(message);
  run.code = NumberOf(message, "code", 0);
  for (const Json& one : message.value("lost", Json::array())) {
    if (const int rank = one.is_number_integer() ? one.get<int>() : -1;
        rank >= 0 && rank < workers_) {
      run.lost.push_back(rank);
    }
  }
}

void TrainerTold::TakeOfWorker(const std::string& what, Worker& worker, std::string_view text) {
  const Json message = Json::parse(text, nullptr, false);
  if (const auto it = message.find("seconds"); it != message.end() && it->is_number()) {
    worker.seconds = it->get<double>();
  }
  if (what == "here") {
    worker.host = TextOf(message, "host");
  } else if (what == "said") {
    worker.last_progress = TextOf(message, "text");
  } else if (what == "nccl") {
    worker.nccl_log = TextOf(message, "text");
  } else if (what == "result") {
    worker.result = TextOf(message, "facts");
  } else if (what == "raised") {
    worker.words = OneLine(TextOf(message, "words"), kWordsChars);
    worker.lines = LinesOf(message);
  }
}

std::string TrainerTold::NamedIn(const Run& run, std::size_t rank) {
  const std::string& host = run.workers[rank].host;
  return "worker " + std::to_string(rank) + " of Ray Train" + (host.empty() ? "" : " on " + host);
}

/// Why a worker of a run has neither a result nor an exception of its own that counts.
void TrainerTold::Explain(const Run& run, std::size_t rank, const std::string& why_no_more,
                          FrameworkProcess& process) const {
  if (run.how == "lost") {
    return ExplainLost(run, rank, process);
  }
  const auto raised = std::find_if(run.workers.begin(), run.workers.end(),
                                   [](const Worker& one) { return one.words.has_value(); });
  if (run.how == "raised" && raised != run.workers.end()) {
    const auto who = static_cast<std::size_t>(raised - run.workers.begin());
    process.how = "stopped";
    process.seen = Unavailable("stopped, as " + NamedIn(run, who) + " raised " + *raised->words);
  } else if (run.how == "raised") {
    process.how = "raised";
    process.last_words = run.words;
    process.output_tail = run.lines;
    process.seen = Unavailable("Ray Train raised " + run.words);
  } else if (run.how == "missing") {
    FrameworkRun nothing;
    nothing.missing = run.words;
    process.how = "finished";
    process.seen = nothing;
  } else if (run.how == "finished") {
    process.how = "finished";
    process.seen = Error{ErrorCode::kInternal, "Ray Train's worker gave no result", ""};
  } else if (run.how == "failed") {
    process.how = "not-started";
    process.seen = Unavailable(run.words);
  } else if (run.how == "not-placed") {
    process.how = "not-started";
    process.seen = Unavailable("Ray Train's workers did not start: no " + std::to_string(workers_) +
                               " places became free for them in time");
  } else {
    ExplainCut(run, why_no_more, process);
  }
}

void TrainerTold::ExplainLost(const Run& run, std::size_t rank, FrameworkProcess& process) {
  const bool mine =
      std::find(run.lost.begin(), run.lost.end(), static_cast<int>(rank)) != run.lost.end();
  process.how = mine ? "lost" : "stopped";
  if (mine) {
    process.seen = Unavailable("Ray lost it" + ProgressOf(process) + "; Ray says: " + run.words);
  } else if (run.lost.empty()) {
    process.seen = Unavailable("Ray lost a worker and does not say which" + ProgressOf(process) +
                               "; Ray says: " + run.words);
  } else {
    process.seen = Unavailable("stopped, as Ray lost " +
                               NamedIn(run, static_cast<std::size_t>(run.lost.front())));
  }
}

/// Of a run that something else than itself ended.
void TrainerTold::ExplainCut(const Run& run, const std::string& why_no_more,
                             FrameworkProcess& process) const {
  const std::string at = ProgressOf(process);
  if (run.how == "timed-out") {
    process.how = "timed-out";
    process.seen = Error{ErrorCode::kTimedOut, "did not end before its deadline" + at, ""};
  } else if (run.how == "died" && run.code < 0) {
    const char* name = sigabbrev_np(-run.code);
    process.how = "killed";
    process.signal_name = std::string("SIG") + (name == nullptr ? "?" : name);
    process.seen = Unavailable("TorchTrainer's driver was killed by " + process.signal_name + at);
  } else if (run.how == "keeper-died") {
    process.how = "not-started";  // which is no word of the framework's
    process.output_tail = run.lines;
    process.seen = Unavailable("dlc_check_trainer.py ended with code " + std::to_string(run.code) +
                               (run.lines.empty() ? ", as of Python's subprocess"
                                                  : ": " + OneLine(run.lines.back(), kWordsChars)) +
                               at);
  } else if (run.how == "died") {
    process.how = "exited";
    process.exit_code = run.code;
    process.seen =
        Unavailable("TorchTrainer's driver exited with code " + std::to_string(run.code) + at);
  } else {
    process.how = "stopped";
    process.seen = Unavailable((!begun_           ? "Ray Train was not started"
                                : run.how.empty() ? "its end was not seen"
                                                  : "it was stopped before its end") +
                               at + (why_no_more.empty() ? "" : ": " + why_no_more));
  }
}

FrameworkProcess TrainerTold::ProcessOf(const Run& run, std::size_t rank,
                                        const std::string& why_no_more) const {
  const Worker& worker = run.workers[rank];
  FrameworkProcess process;
  process.name = run.name;
  process.host = worker.host;
  process.seconds = worker.seconds;
  process.last_progress = worker.last_progress;
  if (worker.nccl_log) {
    process.nccl_log = ReadNcclLog(*worker.nccl_log);
  } else {
    process.nccl_log = NotLookedAt{"no log of NCCL was told", ""};
  }
  // Whom the loss of another reaches raises too: what it says is not the cause.
  if (worker.result && run.how != "lost") {
    auto facts = ParseFacts<FrameworkRun>(*worker.result);
    process.how = "finished";
    if (facts) {
      process.seen = std::move(facts).value();
    } else {
      process.seen = Error{
          ErrorCode::kInternal,
          "Ray Train's worker gave a result that cannot be read: " + facts.error().message, ""};
    }
  } else if (worker.words && run.how != "lost") {
    process.how = "raised";
    process.last_words = *worker.words;
    process.output_tail = worker.lines;
    process.seen = Unavailable("raised " + *worker.words);
  } else {
    Explain(run, rank, why_no_more, process);
  }
  return process;
}

std::vector<FrameworkExperiment> TrainerTold::Experiments(const std::string& why_no_more) const {
  std::vector<Run> runs = runs_;
  if (runs.empty()) {
    runs.push_back({work_.runs.front().name, {}, "", "", {}, {}, 0});
    runs.back().workers.resize(static_cast<std::size_t>(workers_));
  }
  std::vector<FrameworkExperiment> all;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(workers_); ++rank) {
    all.push_back(work_.begun);
    for (const Run& run : runs) {
      all.back().processes.push_back(ProcessOf(run, rank, why_no_more));
    }
  }
  return all;
}

ExperimentEnd TrainerTold::EndOf(int rank) const {
  ExperimentEnd end;
  end.how = runs_.empty() ? "not-started" : closed_ ? "finished" : "interrupted";
  for (const Run& run : runs_) {
    end.seconds += run.workers[static_cast<std::size_t>(rank)].seconds;
    end.last_progress = run.workers[static_cast<std::size_t>(rank)].last_progress;
  }
  return end;
}

}  // namespace dlc
