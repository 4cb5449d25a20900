#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checks/rank_results.h"
#include "probes/observations/fabric.h"

namespace dlc {

/// What the ranks measured of the fabric, each row once, and who kept it from being more.
struct FabricRows {
  std::vector<PairMeasurement> pairs;  ///< by ranks, then size
  std::vector<CollectiveMeasurement> collectives;
  std::map<int, FabricRank> places;        ///< of the ranks that told theirs
  std::map<int, LoadedLibrary> libraries;  ///< same
  std::optional<Observed<FabricExperiment>>
      unseen;  ///< why there are no more rows; names the culprit
};

/// Of the step kind `fabric-pairs` or `fabric-collectives`.
FabricRows FabricRowsOf(const RankRun& run,
                        std::vector<ExperimentResult<FabricExperiment>> RankObservations::*kind);
FabricRows FabricRowsOf(const std::vector<RankResult<FabricExperiment>>& results);

/// Distinct pairs of ranks among the rows.
std::int64_t CountPairs(const FabricRows& rows);
/// Elements of all rows and ranks: how many were wrong, and how many were compared.
std::pair<std::int64_t, std::int64_t> CheckedElements(
    const std::vector<CollectiveMeasurement>& rows);
/// Ranks on a machine with more ranks than CPUs that they may use.
std::set<int> RanksThatWait(const FabricRows& rows);
/// "net on eth0 (provider 117.0, libfabric 1.17)" of every rank; those that differ with their
/// ranks.
std::string ProvidersText(const RankRun& run, const FabricRows& rows);

/// Whose elements arrived wrong, and where: "what rank 1 on pod-1 sent arrived wrong at ranks 0 and
/// 2 (3 elements)". Empty when nothing was wrong.
std::string WrongPairsText(const RankRun& run, const FabricRows& rows);
std::string WrongCollectivesText(const RankRun& run, const FabricRows& rows);

}  // namespace dlc
