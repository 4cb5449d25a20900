#include "probes/observations/nccl_log.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace dlc {
namespace {

NcclLog LogFile(const std::string& name) {
  std::ifstream file(std::string(DLC_TESTDATA "/nccl/") + name);
  REQUIRE_MESSAGE(file, name);
  std::stringstream text;
  text << file.rdbuf();
  return ReadNcclLog(text.str());
}

/// The only connection of a log with one line.
NcclConnections Connection(const std::string& shape) {
  const NcclLog log = ReadNcclLog("h:1:2 [0] NCCL INFO " + shape + "\n");
  CAPTURE(shape);
  REQUIRE(log.connections.size() == 1);
  CHECK(log.unread_connections == 0);
  return log.connections.front();
}

TEST_CASE("nccl log: a network connection in each shape of 2.18 to 2.30") {
  struct Row {
    const char* via;
    const char* network;
    int device;
    bool proxy, gpu_direct, pci, shared;
  };
  const Row rows[] = {
      {"NET/AWS Libfabric/0/GDRDMA", "AWS Libfabric", 0, false, true, false, false},
      {"NET/Libfabric/3(2)/GDRDMA/Shared", "Libfabric", 3, true, true, false, true},
      {"NET/Libfabric/3/GDRDMA(PCI)", "Libfabric", 3, false, true, true, false},
      {"NET/Libfabric/15(0)/GDRDMA(PCI)/Shared", "Libfabric", 15, true, true, true, true},
      {"NET/Libfabric/0/Shared", "Libfabric", 0, false, false, false, true},
      {"NET/Socket/0", "Socket", 0, false, false, false, false},
      {"NET/IBext_v8/1", "IBext_v8", 1, false, false, false, false},
  };
  for (const Row& row : rows) {
    const auto one = Connection(std::string("Channel 00/0 : 1[0] -> 0[0] [send] via ") + row.via);
    CHECK(one == NcclConnections{"NET", row.network, row.device, "", row.proxy, row.gpu_direct,
                                 row.pci, row.shared, 1, 0, 0});
  }
  CHECK(Connection("Channel 15/1 : 7[3] -> 0[0] [receive] via NET/Libfabric/0").receives == 1);
  const auto collnet = Connection("CollNet 00/0 : 1 [send] via COLLNET/SHARP/0/GDRDMA");
  CHECK(collnet.transport == "COLLNET");
  CHECK(collnet.others == 1);
}

TEST_CASE("nccl log: what stays in a node") {
  for (const char* via : {"P2P/direct pointer", "P2P/direct pointer/read", "P2P/CUMEM",
                          "P2P/CUMEM/read/CE", "P2P/MNNVL", "P2P/IPC/read"}) {
    const auto one = Connection(std::string("Channel 01/0 : 0[0] -> 1[1] via ") + via);
    CHECK(one.transport == "P2P");
    CHECK(one.detail == std::string(via).substr(4));
    CHECK(one.others == 1);
  }
  CHECK(Connection("Channel 01/0 : 0[0] -> 1[1] via P2P/indirect/4[4]").detail == "indirect");
  // No "/K" behind the channel here.
  CHECK(Connection("Channel 01 : 0[0] -> 1[1] via SHM/direct/direct").detail == "direct/direct");
  CHECK(Connection("Channel 01 : 0[0] -> 1[1] via SHM/CE/direct").transport == "SHM");
}

TEST_CASE("nccl log: the order of a ring is no connection") {
  const NcclLog log = ReadNcclLog(
      "h:1:2 [0] NCCL INFO Channel 00/32 :    0   1   2   3\n"
      "h:1:2 [0] NCCL INFO Channel 00 :    0   1   3   2\n");
  CHECK(log.connections.empty());
  CHECK(log.unread_connections == 0);
}

TEST_CASE("nccl log: prefixes of mpirun, Ray, a container runtime and a time stamp") {
  const std::string line = "h-0:27:569 [6] NCCL INFO Using network AWS Libfabric\n";
  for (const char* prefix : {"", "[1,30]<stdout>:", "(TrainWorker pid=412, ip=10.0.0.5) ",
                             "  | 2025-05-16T16:39:55.218-07:00 | ", "[2026-12-02 01:02:03] ",
                             "2026-12-02T01:02:03.000000Z stdout F "}) {
    CAPTURE(prefix);
    const NcclLog log = ReadNcclLog(prefix + line);
    CHECK(log.networks == std::vector<std::string>{"AWS Libfabric"});
    CHECK(log.processes == std::vector<std::string>{"h-0:27"});
    CHECK(log.damaged_lines == 0);
  }
}

TEST_CASE("nccl log: a healthy rank, told by NCCL 2.18 with plugin 1.7") {
  const NcclLog log = LogFile("old/rank1.log");
  CHECK(log.version == "2.18.5+cuda12.2");
  CHECK(log.plugin_version == "1.7.4-aws");
  CHECK(log.providers == std::vector<std::string>{"efa"});
  CHECK(log.nics == 1);
  CHECK(log.networks == std::vector<std::string>{"AWS Libfabric"});
  REQUIRE(log.communicators.size() == 1);
  CHECK(log.communicators[0] == NcclLoggedCommunicator{"0x5630c1f2a001", 1, 2, 0, 0, true});
  REQUIRE(log.connections.size() == 1);
  CHECK(log.connections[0].sends == 3);
  CHECK(log.connections[0].receives == 3);
  CHECK(log.settings == std::vector<NcclSetting>{{"NCCL_PROTO", "simple", "plugin"}});
  CHECK(log.damaged_lines == 0);
  CHECK_FALSE(log.cut);
}

TEST_CASE("nccl log: a healthy rank, told by NCCL 2.29 with plugin 1.20") {
  const NcclLog log = LogFile("new/rank0.log");
  CHECK(log.version == "2.29.7+cuda13.0");
  CHECK(log.plugin_version == "1.20.0");
  CHECK(log.libfabric_version == "2.4");
  CHECK(log.fabric == "efa-direct");
  CHECK(log.nics == 32);
  CHECK(log.protocol == "RDMA");
  CHECK(log.dma_buf == true);
  REQUIRE(log.communicators.size() == 1);
  CHECK(log.communicators[0] == NcclLoggedCommunicator{"0x7f01c2a000", 0, 2, 2, 1, true});
  REQUIRE(log.connections.size() == 1);
  CHECK(log.connections[0].forced_pci);
}

TEST_CASE("nccl log: a plugin that selects EFA, then gives up") {
  const NcclLog log = LogFile("provider_selected_then_sockets/rank0.log");
  CHECK(log.providers == std::vector<std::string>{"efa"});
  CHECK(log.plugin_failed);
  CHECK(log.gpu_direct_refused);
  CHECK(log.networks == std::vector<std::string>{"Socket"});
  CHECK(log.interfaces == std::vector<std::string>{"eth0:10.0.0.5"});
  CHECK(log.warnings.size() == 3);
  CHECK(log.settings.front() == NcclSetting{"NCCL_SOCKET_IFNAME", "eth0", "environment"});
  const NcclLog healthy = LogFile("provider_selected_then_sockets/rank5.log");
  CHECK_FALSE(healthy.plugin_failed);
  CHECK(healthy.networks == std::vector<std::string>{"AWS Libfabric"});
}

TEST_CASE("nccl log: why a plugin was not loaded") {
  const auto why = [](const std::string& message) {
    return ReadNcclLog("h:1:2 [0] NCCL INFO " + message + "\n").plugin_not_loaded;
  };
  CHECK(why("NET/Plugin: Could not find: /nowhere.so") == "Could not find: /nowhere.so");
  CHECK(why("NET/Plugin: libnccl-net-ofi.so: undefined symbol: fi_x") ==
        "libnccl-net-ofi.so: undefined symbol: fi_x");
  CHECK(why("NET/Plugin : Plugin load (a.so) returned 2 : a.so: cannot open shared object file: No "
            "such file or directory")
            .starts_with("Plugin load (a.so) returned 2"));
  CHECK(why("NET/Plugin: Failed to find ncclCollNetPlugin_v10 symbol.").empty());
  CHECK(why("NET/Plugin: Loaded net plugin Libfabric (v10)").empty());
  CHECK(why("TUNER/Plugin: Could not find: libnccl-tuner.so").empty());
  CHECK(ReadNcclLog("h:1:2 [0] NCCL INFO NET/Plugin: Could not find: a.so\n"
                    "h:1:2 [0] NCCL INFO NET/Plugin: Could not find: b.so\n")
            .plugin_not_loaded == "Could not find: a.so");
}

TEST_CASE("nccl log: an init that has not completed, and an address used again") {
  const std::string start =
      "h:1:2 [0] NCCL INFO comm 0xab rank 0 nranks 2 cudaDev 0 - Init START\n";
  const std::string end =
      "h:1:2 [0] NCCL INFO comm 0xab rank 0 nranks 2 cudaDev 0 - Init COMPLETE\n";
  CHECK_FALSE(ReadNcclLog(start).communicators.at(0).complete);
  CHECK(ReadNcclLog(start + end).communicators.at(0).complete);
  CHECK_FALSE(ReadNcclLog(start + end + start).communicators.at(0).complete);
  const NcclLog other =
      ReadNcclLog(start + end + "h:1:2 [0] NCCL INFO comm 0xab rank 1 nranks 4 - Init START\n");
  REQUIRE(other.communicators.size() == 1);
  CHECK(other.communicators[0] == NcclLoggedCommunicator{"0xab", 1, 4, 0, 0, false});
}

}  // namespace
}  // namespace dlc
