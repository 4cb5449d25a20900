#include "checks/fsdp_training_runs.h"

#include <algorithm>
#include <cstdio>

#include "checks/wording.h"

namespace dlc {
namespace {

std::string Short(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

const FsdpTrainingRun* RunNamed(const FsdpTrainingExperiment& seen, const std::string& name,
                                const std::string& model) {
  const auto it = std::find_if(seen.runs.begin(), seen.runs.end(), [&](const auto& run) {
    return run.name == name && run.model == model;
  });
  return it == seen.runs.end() ? nullptr : &*it;
}

/// Why a rank that did its part has nothing to judge; absent: it has.
std::optional<Observed<FsdpTrainingExperiment>> WhyNotTrained(const FsdpTrainingExperiment& seen,
                                                              const FsdpTrainingRun* run) {
  if (run != nullptr && !run->not_looked_at.empty()) {
    return NotLookedAt{run->not_looked_at, ""};
  }
  if (run != nullptr && run->own.size() == 2 && !run->steps.empty()) {
    return std::nullopt;
  }
  if (seen.stopped_by) {
    return *seen.stopped_by;
  }
  return NotLookedAt{"the ranks were not asked for it", ""};
}

std::string Amount(std::size_t steps, std::int64_t rows, std::int64_t sequence, int micro_batches) {
  return Count(steps, "step") + " of " + std::to_string(micro_batches) + " x " +
         std::to_string(rows) + " x " + std::to_string(sequence) + " tokens";
}

/// Why what a rank trained is not what the policy asks for; absent: it is, or more.
std::optional<Observed<FsdpTrainingExperiment>> WhyNotAsAsked(
    const RankResult<FsdpTrainingExperiment>& result, const FsdpTrainingRun& run,
    const FsdpTrainingPolicy& policy) {
  const std::string& backend = result.seen.get()->backend;
  if (backend != policy.backend) {
    return NotLookedAt{"the policy asks for " + policy.backend + " (fsdp.training.backend); " +
                           result.name + " trained on " +
                           (backend.empty() ? "what it does not name" : backend),
                       ""};
  }
  // The run of whole numbers has its own number of steps.
  const auto steps = run.name == "exact" ? std::size_t{1} : static_cast<std::size_t>(policy.steps);
  if (run.steps.size() < steps || run.rows < policy.rows || run.sequence < policy.sequence ||
      run.micro_batches < policy.micro_batches) {
    return NotLookedAt{"the policy asks for " +
                           Amount(steps, policy.rows, policy.sequence, policy.micro_batches) +
                           " (fsdp.training); " + result.name + " trained " +
                           Amount(run.steps.size(), run.rows, run.sequence, run.micro_batches),
                       ""};
  }
  return std::nullopt;
}

std::string DifferenceText(const FsdpComparison& one) {
  const std::string where = one.worst.empty() ? "" : " of " + one.worst;
  if (one.not_finite > 0) {
    return std::to_string(one.not_finite) + " " + one.what + where + " are not finite";
  }
  if (one.what == "padding") {
    return "padding-leak: " + std::to_string(one.different) +
           " elements that fill the shards are not 0";
  }
  if (one.what == "gathered") {
    return "stale-gather: what was gathered" + where + " is not what its owners have";
  }
  if (one.bound == 0) {
    return std::to_string(one.different) + " of " + std::to_string(one.elements) + " " + one.what +
           where + " are other bits";
  }
  return one.what + where + " are off by " + Short(one.error) + ", allowed " + Short(one.bound);
}

}  // namespace

const FsdpTrainingRun* FsdpRunRow::Any() const {
  const auto it = std::find_if(by_rank.begin(), by_rank.end(),
                               [](const FsdpTrainingRun* run) { return run != nullptr; });
  return it == by_rank.end() ? nullptr : *it;
}

FsdpRunRow FsdpRunRowOf(const std::vector<RankResult<FsdpTrainingExperiment>>& results,
                        const std::string& name, const FsdpTrainingPolicy& policy) {
  FsdpRunRow row{name, {}, {}};
  for (const auto& result : results) {
    const FsdpTrainingExperiment* seen = result.seen.get();
    const FsdpTrainingRun* run = seen == nullptr ? nullptr : RunNamed(*seen, name, policy.model);
    auto why = seen == nullptr ? std::optional(result.seen) : WhyNotTrained(*seen, run);
    row.by_rank.push_back(why ? nullptr : run);
    if (!why) {
      why = WhyNotAsAsked(result, *run, policy);
    }
    if (why && !row.unseen) {
      row.unseen = std::move(why);
    }
  }
  return row;
}

bool BeyondBound(const FsdpComparison& comparison) {
  return comparison.not_finite > 0 || !(comparison.error <= comparison.bound);
}

std::string FsdpComparisonText(const RankRun& run, int rank, const FsdpTrainingRun& seen,
                               const std::vector<FsdpComparison>& comparisons) {
  const auto one = std::find_if(comparisons.begin(), comparisons.end(), BeyondBound);
  if (one == comparisons.end()) {
    return "";
  }
  return RankNames(run, {rank}) + ": " +
         (seen.explanation.empty() ? DifferenceText(*one) : seen.explanation);
}

std::string FsdpStepText(const FsdpRunRow& row) {
  const FsdpTrainingRun* any = row.Any();
  if (any == nullptr) {
    return "";
  }
  const FsdpTrainingStep* best = nullptr;
  const std::size_t first = any->steps.size() > 1 ? 1 : 0;
  for (std::size_t i = first; i < any->steps.size(); ++i) {
    const FsdpTrainingStep* slowest = nullptr;
    for (const FsdpTrainingRun* run : row.by_rank) {
      const bool has = run != nullptr && i < run->steps.size();
      if (has && (slowest == nullptr || run->steps[i].seconds > slowest->seconds)) {
        slowest = &run->steps[i];
      }
    }
    if (slowest != nullptr && (best == nullptr || slowest->seconds < best->seconds)) {
      best = slowest;
    }
  }
  if (best == nullptr || best->seconds <= 0) {
    return "";
  }
  const double tokens =
      static_cast<double>(any->rows * any->sequence) * any->micro_batches * any->ranks;
  return "step of " + Short(best->seconds) +
         " s: " + Short(best->seconds - best->exposed_seconds - best->optimizer_seconds) +
         " s computing, " + Short(best->exposed_seconds) + " s waiting for communication, " +
         Short(best->optimizer_seconds) + " s optimizer; " + Fixed(tokens / best->seconds, 0) +
         " tokens/s over " + Count(static_cast<std::size_t>(any->ranks), "rank");
}

}  // namespace dlc
