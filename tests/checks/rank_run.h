#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "checks/check.h"
#include "probes/observations/observations.h"

namespace dlc::testing {

/// A run in which every rank saw all that is good. nodes[r] is the node of rank r.
inline Observations GoodRun(const std::vector<std::string>& nodes) {
  RankRun run;
  run.size = static_cast<int>(nodes.size());
  for (int rank = 0; rank < run.size; ++rank) {
    RankObservations seen;
    seen.facts.rank = rank;
    seen.facts.host = "pod-" + std::to_string(rank);
    seen.facts.node = nodes[static_cast<std::size_t>(rank)];
    StorageShared shared;
    shared.path = "/fsx";
    shared.uid = 1000;
    shared.file_uid = 1000;
    shared.mount = MountFacts{"/fsx", "10.0.0.1@tcp:/abc", "lustre", "/", "rw", "0:52", false};
    shared.space = SpaceFacts{1'000'000, 500'000, 1'000, 900};
    for (const char* name : {"create-directory", "create-exclusive", "refuse-existing", "write",
                             "read-owner", "fsync-file", "close", "rename", "fsync-directory",
                             "read-back", "replace", "read-replaced", "delete", "write-nonce"}) {
      shared.operations.push_back({name, "", ""});
    }
    std::vector<PeerFile> peers;
    for (int other = 0; other < run.size; ++other) {
      if (other != rank) {
        peers.push_back({other, "pod-" + std::to_string(other),
                         nodes[static_cast<std::size_t>(other)], "same", "", 0.5, 1, 0, "refused"});
      }
    }
    shared.peers = std::move(peers);
    seen.storage_shared = {{"share", {}, shared}};
    StorageSpeed speed;
    speed.path = "/fsx";
    speed.transfers = {{"write", 1000, 100, false, 0, 2.0, "", -1, "", ""},
                       {"read", 1000, 100, false, 0, 1.0, "other-node", 0, "", ""}};
    seen.storage_speed = {{"speed", {}, speed}};
    run.ranks.push_back({rank, seen});
  }
  Observations o;
  o.run.stages = {Stage::kCheckpoint};
  o.checkpoint_ranks = std::move(run);
  return o;
}

inline RankObservations& At(Observations& o, int rank) {
  return o.checkpoint_ranks.value().ranks[static_cast<std::size_t>(rank)].seen.value();
}
inline StorageShared& SharedAt(Observations& o, int rank) {
  return At(o, rank).storage_shared[0].seen.value();
}
inline PeerFile& PeerAt(Observations& o, int reader, int writer) {
  auto& peers = SharedAt(o, reader).peers.value();
  return *std::find_if(peers.begin(), peers.end(),
                       [&](const PeerFile& peer) { return peer.rank == writer; });
}

inline std::vector<Finding> OfRule(const std::vector<Finding>& findings, const std::string& rule) {
  std::vector<Finding> some;
  std::copy_if(findings.begin(), findings.end(), std::back_inserter(some),
               [&](const Finding& finding) { return finding.rule == rule; });
  return some;
}

/// The one finding of a rule.
inline Finding One(const std::vector<Finding>& findings, const std::string& rule) {
  const auto some = OfRule(findings, rule);
  CAPTURE(rule);
  REQUIRE(some.size() == 1);
  return some[0];
}

}  // namespace dlc::testing
