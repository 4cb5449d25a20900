#include "checks/fsdp_framework_runs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace dlc {
namespace {

using Unseen = std::optional<Observed<FrameworkExperiment>>;

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

/// It ended by itself and says that it failed. A deadline, SIGKILL or a result that cannot be read
/// are no words of the framework's.
bool FailedByItself(const FrameworkProcess& process) {
  const bool exited =
      (process.how == "exited" && process.exit_code != 0) || process.how == "raised";
  const bool crashed = process.how == "killed" && process.signal_name != "SIGKILL";
  return process.seen.failed() && (exited || crashed);
}

std::string OtherThanAsked(const FrameworkExperiment& seen, const FsdpPolicy& policy) {
  const std::pair<const char*, std::pair<std::string, std::string>> words[] = {
      {"fsdp.framework.engine", {policy.framework.engine, seen.engine}},
      {"fsdp.framework.strategy", {policy.framework.strategy, seen.strategy}},
      {"fsdp.framework.launcher",
       {policy.framework.launcher, seen.launcher.empty() ? "rank" : seen.launcher}},
      {"fsdp.training.backend", {policy.training.backend, seen.backend}},
      {"fsdp.training.model", {policy.training.model, seen.model}}};
  for (const auto& [key, word] : words) {
    if (word.first != word.second) {
      return "the policy asks for " + word.first + " (" + key + "), and the ranks trained with " +
             (word.second.empty() ? "what they do not name" : word.second);
    }
  }
  return "";
}

/// A program that tells fewer steps than it was asked for has not shown them. Empty: all are there.
std::string StepsNotTold(const FrameworkExperiment& seen, const std::string& name,
                         const FrameworkRun& run) {
  const auto count = [](const auto& steps) { return static_cast<int>(steps.size()); };
  const int before = name == "train" ? seen.steps : 0;
  const int after = seen.checkpoint.empty() ? 0 : seen.more_steps;
  if (count(run.steps) == before && count(run.more_steps) == after) {
    return "";
  }
  return "the framework's program tells of " + std::to_string(count(run.steps)) + " and " +
         std::to_string(count(run.more_steps)) + " steps, and was asked for " +
         std::to_string(before) + " and " + std::to_string(after);
}

/// Why a rank shows no run of that name; absent: it does, or it failed.
Unseen WhyUnseen(const RankResult<FrameworkExperiment>& result, const FrameworkExperiment& seen,
                 const FrameworkProcess* process, const FsdpPolicy& policy) {
  if (std::string other = OtherThanAsked(seen, policy); !other.empty()) {
    return NotLookedAt{std::move(other), ""};
  }
  if (process == nullptr) {
    return NotLookedAt{"no such process was started", ""};
  }
  if (const FrameworkRun* run = process->seen.get()) {
    if (!run->missing.empty()) {
      return NotLookedAt{
          result.name + ": " + seen.python + " has no package '" + run->missing + "'", ""};
    }
    const std::string untold = StepsNotTold(seen, process->name, *run);
    return untold.empty() ? Unseen() : Error{ErrorCode::kInternal, result.name + ": " + untold, ""};
  }
  if (FailedByItself(*process)) {
    return std::nullopt;
  }
  Error error = process->seen.failed() ? process->seen.error() : Error{};
  error.message = result.name + ": " + error.message;
  return error;
}

}  // namespace

const FrameworkProcess* FrameworkProcessNamed(const FrameworkExperiment& seen,
                                              const std::string& name) {
  const auto it = std::find_if(seen.processes.begin(), seen.processes.end(),
                               [&](const auto& process) { return process.name == name; });
  return it == seen.processes.end() ? nullptr : &*it;
}

std::vector<RankResult<FrameworkExperiment>> FrameworkResultsOf(const RankRun& run) {
  auto results = ResultsOf(run, &RankObservations::fsdp_framework);
  for (auto& result : results) {
    const FrameworkExperiment* seen = result.seen.get();
    if (seen != nullptr && seen->launcher == "ray-train") {
      const FrameworkProcess* train = FrameworkProcessNamed(*seen, "train");
      const std::string host = train == nullptr ? "" : train->host;
      result.name = "worker " + std::to_string(result.rank) + " of Ray Train" +
                    (host.empty() ? "" : " on " + host);
    }
  }
  return results;
}

FrameworkRow FrameworkRowOf(const std::vector<RankResult<FrameworkExperiment>>& results,
                            const std::string& name, const FsdpPolicy& policy) {
  FrameworkRow row;
  Unseen stopped;
  std::vector<std::pair<double, std::string>> failed;
  for (const auto& result : results) {
    const FrameworkExperiment* seen = result.seen.get();
    const FrameworkProcess* process =
        seen == nullptr ? nullptr : FrameworkProcessNamed(*seen, name);
    Unseen why = seen == nullptr ? Unseen(result.seen) : WhyUnseen(result, *seen, process, policy);
    const bool known = !why && process != nullptr;
    row.by_rank.push_back(known ? process->seen.get() : nullptr);
    if (known && process->seen.failed()) {
      const std::string& words = process->last_words;
      failed.emplace_back(
          process->seconds,
          result.name + ": " +
              (process->how == "killed" || words.empty() ? process->seen.error().message : words));
    }
    Unseen& place = process != nullptr && process->how == "stopped" ? stopped : row.unseen;
    if (why && !place) {
      place = std::move(why);
    }
  }
  std::stable_sort(failed.begin(), failed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [seconds, text] : failed) {
    row.failed.push_back(std::move(text));
  }
  if (!row.unseen) {
    row.unseen = std::move(stopped);
  }
  return row;
}

void AddLossDifference(const std::string& rank, int first_step, const std::vector<double>& found,
                       const std::vector<double>& expected, LossDifference& all) {
  for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    const double difference = std::abs(found[i] - expected[i]) / std::abs(expected[i]);
    ++all.compared;
    // What is no number is as far off as can be.
    if (!(difference <= all.largest)) {
      all.largest = std::isfinite(difference) ? difference : HUGE_VAL;
      all.where = rank + ", step " + std::to_string(first_step + static_cast<int>(i)) + ": " +
                  Number(found[i]) + " and not " + Number(expected[i]);
    }
  }
}

std::vector<double> LossesOf(const std::vector<FrameworkStep>& steps) {
  std::vector<double> losses;
  losses.reserve(steps.size());
  for (const FrameworkStep& step : steps) {
    losses.push_back(step.loss);
  }
  return losses;
}

double FrameworkStepsPerSecond(const FrameworkRow& row) {
  std::size_t steps = row.by_rank.empty() ? 0 : 1'000'000;
  for (const FrameworkRun* run : row.by_rank) {
    steps = std::min(steps, run == nullptr ? 0 : run->steps.size());
  }
  const std::size_t first = steps > 1 ? 1 : 0;
  double seconds = 0;
  for (std::size_t i = first; i < steps; ++i) {
    double slowest = 0;
    for (const FrameworkRun* run : row.by_rank) {
      slowest = std::max(slowest, run->steps[i].seconds);
    }
    seconds += slowest;
  }
  return seconds > 0 ? static_cast<double>(steps - first) / seconds : 0;
}

std::string FrameworkVersions(const FrameworkRun& run) {
  std::string text;
  for (const char* name : {"python", "torch", "transformers", "deepspeed", "ray"}) {
    if (const auto it = run.versions.find(name); it != run.versions.end()) {
      text += (text.empty() ? "" : ", ") + it->first + " " + it->second;
    }
  }
  return text;
}

}  // namespace dlc
