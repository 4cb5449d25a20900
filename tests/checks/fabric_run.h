#pragma once

#include <string>
#include <vector>

#include "probes/observations/observations.h"

namespace dlc::testing {

constexpr std::int64_t kMessage = 1 << 20;

/// A run in which the fabric does all that is good: 1 GB/s and 20 us in every pair, busbw of 2
/// GB/s. nodes[r] is the machine of rank r, where 8 CPUs are usable; host names are "pod-<rank>".
inline Observations GoodFabric(const std::vector<std::string>& nodes) {
  RankRun run;
  run.size = static_cast<int>(nodes.size());
  const FabricProvider tcp{"net", "eth0", "10.0.0.0/24", "117.0", "", "", {}};
  for (int rank = 0; rank < run.size; ++rank) {
    RankObservations seen;
    seen.facts.rank = rank;
    seen.facts.host = "pod-" + std::to_string(rank);
    seen.facts.node = nodes[static_cast<std::size_t>(rank)];
    NodeFabric node;
    node.libfabric = LoadedLibrary{"/usr/lib/libfabric.so.1", "1.17", "abcdef"};
    node.providers = std::vector{tcp};
    node.efa_functions = std::vector<EfaFunction>{};
    seen.fabric_node = {{"fabric-node", {"finished", 0, 0, "", false, false, "", 1}, node}};
    FabricExperiment pairs;
    pairs.library = {"/usr/lib/libfabric.so.1", "1.17", "abcdef"};
    pairs.measured.ranks = {{rank, seen.facts.host, seen.facts.node, "net:[1]", 8, tcp}};
    FabricExperiment collectives = pairs;
    for (int a = 0; a < run.size; ++a) {
      for (int b = a + 1; b < run.size; ++b) {
        const bool same = nodes[static_cast<std::size_t>(a)] == nodes[static_cast<std::size_t>(b)];
        if (a == rank || b == rank) {
          pairs.measured.pairs.push_back(
              {a, b, same, kMessage, 50, 20e-6, 15e-6, 16, 1e9, 1.25e9, 1000, 0, 0});
        }
      }
    }
    const std::vector<std::int64_t> none(nodes.size(), 0);
    CollectiveMeasurement row;
    row.collective = "all_reduce";
    row.ranks = run.size;
    row.machines = 2;
    row.asked_bytes = row.size_bytes = kMessage;
    row.bus_bandwidth_bytes_per_second = 2e9;
    row.checked_elements = 1000;
    row.wrong = none;
    collectives.measured.collectives.push_back(row);
    row.collective = "all_gather";
    row.size_bytes = kMessage - 16;
    row.wrong_from = none;
    collectives.measured.collectives.push_back(row);
    const ExperimentEnd finished{"finished", 0, 0, "", false, false, "", 1};
    seen.fabric_pairs = {{"fabric-pairs", finished, pairs}};
    seen.fabric_collectives = {{"fabric-collectives", finished, collectives}};
    run.ranks.push_back({rank, seen});
  }
  Observations o;
  o.run.stages = {Stage::kNccl};
  o.nccl_ranks = std::move(run);
  return o;
}

inline RankObservations& FabricAt(Observations& o, int rank) {
  return o.nccl_ranks.value().ranks[static_cast<std::size_t>(rank)].seen.value();
}
inline NodeFabric& NodeAt(Observations& o, int rank) {
  return FabricAt(o, rank).fabric_node[0].seen.value();
}
inline FabricMeasurements& PairsAt(Observations& o, int rank) {
  return FabricAt(o, rank).fabric_pairs[0].seen.value().measured;
}
inline FabricMeasurements& CollectivesAt(Observations& o, int rank) {
  return FabricAt(o, rank).fabric_collectives[0].seen.value().measured;
}
/// Every rank's copy of the row of a pair.
template <class Change>
void ChangePair(Observations& o, int a, int b, Change change) {
  for (const int rank : {a, b}) {
    for (PairMeasurement& pair : PairsAt(o, rank).pairs) {
      if (pair.rank_a == a && pair.rank_b == b) {
        change(pair);
      }
    }
  }
}
template <class Change>
void ChangeRows(Observations& o, const std::string& collective, Change change) {
  for (int rank = 0; rank < o.nccl_ranks.value().size; ++rank) {
    for (CollectiveMeasurement& row : CollectivesAt(o, rank).collectives) {
      if (row.collective == collective) {
        change(row);
      }
    }
  }
}

}  // namespace dlc::testing
