#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "probes/observations/nccl_log.h"
#include "probes/observations/observations.h"

namespace dlc::testing {

inline NcclLog NcclLogOf(const std::string& name) {
  std::ifstream file(std::string(DLC_TESTDATA "/nccl/") + name);
  std::stringstream text;
  text << file.rdbuf();
  REQUIRE_FALSE(text.str().empty());
  return ReadNcclLog(text.str());
}

/// A log that says EFA with GPUDirect from beginning to end.
inline NcclLog EfaLog(int rank, int ranks) {
  NcclLog log = NcclLogOf("new/rank0.log");
  log.communicators = {{"0x1", rank, ranks, ranks, 1, true}};
  return log;
}
inline NcclLog SocketLog(int rank, int ranks) {
  NcclLog log;
  log.lines = 40;
  log.processes = {"pod:1"};
  log.communicators = {{"0x1", rank, ranks, ranks, 1, true}};
  log.networks = {"Socket"};
  NcclConnections socket;
  socket.transport = "NET";
  socket.network = "Socket";
  socket.sends = socket.receives = 4;
  log.connections = {socket};
  return log;
}

constexpr std::int64_t kNcclBytes = std::int64_t{64} << 20;
constexpr const char* kNcclCollectives[] = {"all_reduce", "all_gather", "reduce_scatter",
                                            "broadcast", "send_recv"};

inline CollectiveMeasurement NcclRow(const std::string& collective, const std::string& type,
                                     int ranks) {
  CollectiveMeasurement row;
  row.collective = collective;
  row.type = type;
  row.ranks = row.machines = ranks;
  row.asked_bytes = row.size_bytes = kNcclBytes;
  row.iterations = 18;
  row.operations = 20;
  row.mean_seconds = row.min_seconds = row.max_seconds = 0.02;
  row.bus_bandwidth_bytes_per_second = 3e9;
  row.checked_elements = 1000;
  row.wrong.assign(static_cast<std::size_t>(ranks), 0);
  return row;
}

/// Ranks of g6.12xlarge nodes, one on each, on which NCCL does all that is good, over EFA. Host
/// names are "pod-<rank>".
inline Observations GoodNccl(int ranks, const std::string& type = "g6.12xlarge") {
  RankRun run;
  run.size = ranks;
  std::vector<Pod> pods;
  std::vector<Node> nodes;
  const ExperimentEnd finished{"finished", 0, 0, "", false, false, "", 1};
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string number = std::to_string(rank);
    RankObservations seen;
    seen.facts.rank = rank;
    seen.facts.host = "pod-" + number;
    seen.facts.node = "boot-" + number;
    NodeFabric fabric;
    fabric.efa_functions = std::vector<EfaFunction>{{"0000:00:1f.0", "efa1", "efa"}};
    fabric.rdma_devices = {{"rdmap0s31", "0000:00:1f.0", "1d0f", "efa1", "uverbs0", true, ""}};
    seen.fabric_node = {{"fabric-node", finished, fabric}};
    for (const char* name : {"float32", "bfloat16"}) {
      NcclExperiment nccl;
      nccl.library = {{"/opt/venv/libnccl.so.2", "2.29.7", ""}, 22907, Digest{"ab"}, ""};
      nccl.measured.ranks = {{rank, seen.facts.host, seen.facts.node, "net:[1]", 8, {}}};
      for (const char* collective : kNcclCollectives) {
        nccl.measured.collectives.push_back(NcclRow(collective, name, ranks));
      }
      nccl.settings = {{"FI_PROVIDER", "efa", "environment"}};
      nccl.log = EfaLog(rank, ranks);
      nccl.interfaces_before = std::vector<InterfaceBytes>{{"eth0", 0, 1000}, {"lo", 0, 1000}};
      nccl.interfaces_after = std::vector<InterfaceBytes>{{"eth0", 0, 9000}, {"lo", 0, 1 << 30}};
      seen.nccl_collectives.push_back({std::string("nccl-") + name, finished, nccl});
    }
    run.ranks.push_back({rank, seen});
    Pod pod;
    pod.name = seen.facts.host;
    pod.node = "node-" + number;
    pods.push_back(pod);
    Node node;
    node.name = pod.node;
    node.instance_type = type;
    nodes.push_back(node);
  }
  Observations o;
  o.run.stages = {Stage::kNccl};
  o.nccl_ranks = std::move(run);
  o.cluster.pods = std::move(pods);
  o.cluster.nodes = std::move(nodes);
  return o;
}

inline RankObservations& NcclRankAt(Observations& o, int rank) {
  return o.nccl_ranks.value().ranks[static_cast<std::size_t>(rank)].seen.value();
}
inline NcclExperiment& NcclAt(Observations& o, int rank, std::size_t step = 0) {
  return NcclRankAt(o, rank).nccl_collectives[step].seen.value();
}
/// Every rank's experiment, in every step.
template <class Change>
void ChangeNccl(Observations& o, Change change) {
  for (int rank = 0; rank < o.nccl_ranks.value().size; ++rank) {
    for (auto& step : NcclRankAt(o, rank).nccl_collectives) {
      change(step.seen.value(), rank);
    }
  }
}

}  // namespace dlc::testing
