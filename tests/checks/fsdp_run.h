#pragma once

#include <string>
#include <vector>

#include "checks/policy.h"
#include "probes/observations/observations.h"

namespace dlc::testing {

inline FsdpLayoutProof GoodProof(const std::string& model, const std::string& layout, int ranks) {
  FsdpLayoutProof proof;
  proof.model = model;
  proof.layout = layout;
  proof.copies = layout == "hsdp" && ranks > 2 ? 2 : 1;
  proof.shard_ranks = ranks / proof.copies;
  proof.type = "int32";
  proof.units = 4;
  proof.moved_units = proof.whole_units = 4;
  proof.model_elements = proof.moved_elements = 139'980;
  if (model != "qwen2-tiny") {
    proof.units = 29;
    proof.moved_units = 2;
    proof.whole_units = 1;
    proof.model_elements = 1'543'714'304;
    proof.step_bytes_bfloat16 = 6'596'651'520;
    proof.step_bytes_float32 = 8'912'222'976;
  }
  proof.compared_elements = 175'000;
  proof.sent_bytes = 1'000;
  proof.expected_bytes = 1'000 * ranks;
  for (const char* name : {"swapped-shards", "stale-shard", "flipped-bit", "dropped-rank"}) {
    const bool can = proof.shard_ranks > 1 || std::string(name) != "swapped-shards";
    proof.controls.push_back({name, can, can});
  }
  return proof;
}

/// A run in which every model of the policy, cut by every layout, is right.
inline Observations GoodFsdp(int ranks, const FsdpPolicy& policy = {}) {
  RankRun run;
  run.size = ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    FsdpLayoutExperiment experiment;
    for (const std::string& model : policy.models) {
      for (const std::string& layout : policy.layouts) {
        experiment.proofs.push_back(GoodProof(model, layout, ranks));
      }
    }
    RankObservations seen;
    seen.facts.rank = rank;
    seen.facts.host = "pod-" + std::to_string(rank);
    const ExperimentEnd finished{"finished", 0, 0, "", false, false, "", 1};
    seen.fsdp_layout = {{"fsdp-layout", finished, experiment}};
    run.ranks.push_back({rank, seen});
  }
  Observations o;
  o.run.stages = {Stage::kFsdp};
  o.fsdp_ranks = std::move(run);
  return o;
}

inline RankObservations& FsdpRankAt(Observations& o, int rank) {
  return o.fsdp_ranks.value().ranks[static_cast<std::size_t>(rank)].seen.value();
}
inline FsdpLayoutExperiment& FsdpAt(Observations& o, int rank) {
  return FsdpRankAt(o, rank).fsdp_layout[0].seen.value();
}
/// Of the first model; the layouts are in the policy's order.
inline FsdpLayoutProof& ProofAt(Observations& o, int rank, std::size_t layout = 0) {
  return FsdpAt(o, rank).proofs[layout];
}

}  // namespace dlc::testing
