#include "checks/checkpoint_runs.h"

#include <algorithm>

#include "checks/wording.h"

namespace dlc {
namespace {

/// Whether it is the policy's model on the policy's backend that the rank trained, or was to train.
bool IsAskedFor(const CheckpointTraining& training, const CheckpointPolicy& policy) {
  return training.model == policy.model && training.backend == policy.backend;
}

/// Whether the row's rank trained what the policy asks for; else why it says nothing of it.
template <class T>
std::optional<Observed<T>> WhyNoWord(const RankResult<T>& result, const CheckpointPolicy& policy) {
  const T* seen = result.seen.get();
  if (seen == nullptr) {
    return result.seen;
  }
  if (!seen->not_looked_at.empty()) {
    return Observed<T>(NotLookedAt{seen->not_looked_at, ""});
  }
  const CheckpointTraining& training = seen->training;
  if (!IsAskedFor(training, policy)) {
    return Observed<T>(NotLookedAt{"the policy asks for " + policy.model + " on " + policy.backend +
                                       " (checkpoint); " + result.name + " trained '" +
                                       training.model + "' on '" + training.backend + "'",
                                   ""});
  }
  if (seen->stopped_by) {
    return Observed<T>(*seen->stopped_by);
  }
  if (seen->step < policy.steps) {
    return Observed<T>(
        NotLookedAt{"the policy asks for " + Count(static_cast<std::size_t>(policy.steps), "step") +
                        " (checkpoint); " + result.name + " trained " + std::to_string(seen->step),
                    ""});
  }
  return std::nullopt;
}

template <class T>
CheckpointRow<T> RowOf(const RankRun& run, std::vector<ExperimentResult<T>> RankObservations::*kind,
                       const CheckpointPolicy& policy) {
  CheckpointRow<T> row;
  row.results = ResultsOf(run, kind);
  if (row.results.empty()) {
    row.unseen = Observed<T>(NotLookedAt{"no rank ran", ""});
  }
  for (auto& result : row.results) {
    const auto why = WhyNoWord(result, policy);
    if (why && !row.unseen) {
      row.unseen = why;
    }
    // What another model met, or came to, fails nothing of this one.
    if (why && result.seen.seen() && !IsAskedFor(result.seen.value().training, policy)) {
      result.seen = *why;
    }
  }
  return row;
}

}  // namespace

CheckpointSaveRow CheckpointSavesOf(const RankRun& run, const CheckpointPolicy& policy) {
  return RowOf(run, &RankObservations::checkpoint_save, policy);
}

CheckpointLoadRow CheckpointLoadsOf(const RankRun& run, const CheckpointPolicy& policy) {
  return RowOf(run, &RankObservations::checkpoint_load, policy);
}

std::string SavedHash(const CheckpointSaveRow& saves) {
  std::string hash;
  for (const auto& result : saves.results) {
    const CheckpointSave* seen = result.seen.get();
    if (seen == nullptr || seen->hash.empty() || (!hash.empty() && hash != seen->hash)) {
      return "";
    }
    hash = seen->hash;
  }
  return hash;
}

std::string RoleTrouble(const CheckpointLoadRow& loads) {
  const auto has_role = [](const auto& one, int rank) {
    return one.seen.seen() && one.seen.value().role == rank;
  };
  for (const auto& result : loads.results) {
    if (loads.results.size() > 1 && has_role(result, result.rank)) {
      return result.name + " loaded its own file";
    }
    // As many roles as ranks: where two have one role, nobody has another.
    if (std::none_of(loads.results.begin(), loads.results.end(),
                     [&](const auto& one) { return has_role(one, result.rank); })) {
      return "nobody loaded the file of rank " + std::to_string(result.rank);
    }
  }
  return "";
}

}  // namespace dlc
