#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/checks/rank_run.h"

namespace dlc::testing {

inline CheckpointSave GoodSave(int rank, int ranks) {
  CheckpointSave save;
  save.training = {"cpu", "", ranks > 1 ? "libfabric tcp" : "", "qwen2-tiny", ranks, 1000, 10};
  save.strategy = "rename";
  save.step = 2;
  save.hash = "aa";
  save.tensors = 30;
  save.bytes = 4000;
  save.published = true;
  save.seconds = 0.5;
  save.losses = {6.25 + rank, 6.125 + rank};
  save.continued_hash = "bb";
  if (rank == 0) {
    for (const char* name : {"partial", "damaged", "swapped", "stale", "mixed-run"}) {
      save.refusals.push_back({name, true, true, std::string(name) + ": refused"});
    }
  }
  return save;
}

inline CheckpointLoad GoodLoad(int role, int ranks, bool other_node) {
  CheckpointLoad load;
  load.training = {"cpu", "", ranks > 1 ? "libfabric tcp" : "", "qwen2-tiny", ranks, 1000, 20};
  load.role = role;
  load.other_node = other_node;
  load.step = 2;
  load.bytes = 4000;
  load.seconds = 0.25;
  load.cold_because = other_node ? "other-node" : "evicted";
  load.hash = "aa";
  for (const int other : {1, 2, 3, 5}) {
    if (other != ranks) {
      load.reshards.push_back({other, "aa", ""});
    }
  }
  load.losses = {6.25 + role, 6.125 + role};
  load.resumed_hash = "bb";
  return load;
}

/// A run in which every rank saved, loaded the next rank's file and went on as that rank.
/// nodes[r] is the node of rank r.
inline Observations GoodCheckpoints(const std::vector<std::string>& nodes) {
  Observations o = GoodRun(nodes);
  const auto ranks = static_cast<int>(nodes.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const int role = (rank + 1) % ranks;
    const bool other =
        nodes[static_cast<std::size_t>(rank)] != nodes[static_cast<std::size_t>(role)];
    At(o, rank).checkpoint_save = {{"checkpoint-save", {}, GoodSave(rank, ranks)}};
    At(o, rank).checkpoint_load = {{"checkpoint-load", {}, GoodLoad(role, ranks, other)}};
  }
  return o;
}

inline CheckpointSave& SaveAt(Observations& o, int rank) {
  return At(o, rank).checkpoint_save[0].seen.value();
}
inline CheckpointLoad& LoadAt(Observations& o, int rank) {
  return At(o, rank).checkpoint_load[0].seen.value();
}

inline bool Says(const Finding& finding, const std::string& part) {
  return finding.reason.message.find(part) != std::string::npos;
}

}  // namespace dlc::testing
