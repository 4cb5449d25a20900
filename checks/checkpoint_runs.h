#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checks/policy.h"
#include "checks/rank_results.h"
#include "probes/observations/checkpoint.h"

namespace dlc {

/// What the ranks saw of one of the two steps. Ranks that trained another model than the policy's,
/// or on another backend, are in it as not looked at.
template <class T>
struct CheckpointRow {
  std::vector<RankResult<T>> results;
  /// Why the first rank that cannot vouch for the policy's model on the policy's backend, after as
  /// many steps, cannot; absent: every rank can.
  std::optional<Observed<T>> unseen;
};

using CheckpointSaveRow = CheckpointRow<CheckpointSave>;
using CheckpointLoadRow = CheckpointRow<CheckpointLoad>;

CheckpointSaveRow CheckpointSavesOf(const RankRun& run, const CheckpointPolicy& policy);
CheckpointLoadRow CheckpointLoadsOf(const RankRun& run, const CheckpointPolicy& policy);

/// The hash that all ranks have; empty where they have none or differ.
std::string SavedHash(const CheckpointSaveRow& saves);

/// Why the loads do not show every rank's file in another rank's hands (with one rank: in its own);
/// empty: they do.
std::string RoleTrouble(const CheckpointLoadRow& loads);

}  // namespace dlc
