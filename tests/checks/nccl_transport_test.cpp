#include <doctest/doctest.h>

#include <string>

#include "checks/check.h"
#include "checks/nccl_evidence.h"
#include "tests/checks/nccl_run.h"
#include "tests/checks/rank_run.h"

namespace dlc {
namespace {

using testing::ChangeNccl;
using testing::GoodNccl;
using testing::NcclAt;
using testing::NcclLogOf;
using testing::NcclRankAt;
using testing::OfRule;
using testing::One;
using testing::SocketLog;

constexpr const char* kLevel = "nccl-transport/level";
constexpr const char* kGdr = "nccl-transport/gpu-direct";
constexpr const char* kNics = "nccl-transport/nics";
constexpr const char* kForcedRule = "nccl-transport/forced-network";
constexpr const char* kWireRule = "nccl-transport/bytes-on-the-wire";

std::vector<Finding> Look(const Observations& o, const Policy& p = {}) {
  return FindCheck("nccl-transport")->judge(o, p);
}

/// The level's finding of the first step.
Finding Level(const Observations& o, const Policy& p = {}) {
  const auto some = OfRule(Look(o, p), kLevel);
  REQUIRE_FALSE(some.empty());
  return some.front();
}

bool Has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

Policy Asks(const char* level) {
  Policy policy;
  policy.nccl.transport = level;
  return policy;
}

/// No cluster facts: only what the pods show.
Observations WithoutCluster(Observations o) {
  o.cluster = {};
  return o;
}

TEST_CASE("nccl-transport: a good log on an instance type with EFA passes, and says what is open") {
  const Finding finding = Level(GoodNccl(2));
  CHECK(finding.verdict == Verdict::kPass);
  CHECK(Has(finding.actual, "EFA_LOGGED"));
  CHECK(std::any_of(finding.notes.begin(), finding.notes.end(), [](const std::string& note) {
    return note.find("not checked: EFA counters") != std::string::npos;
  }));
  CHECK(OfRule(Look(GoodNccl(2)), kLevel).size() == 2);  // a step for each type
}

TEST_CASE("nccl-transport: sockets on one rank fail and name it, whatever the others do") {
  Observations o = GoodNccl(4);
  NcclAt(o, 2).log = SocketLog(2, 4);
  const Finding finding = Level(o);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.severity == Severity::kRequired);
  CHECK(Has(finding.reason.message, "rank 2 on pod-2: TCP_PROVEN"));
  CHECK_FALSE(Has(finding.reason.message, "EFA_LOGGED"));
  CHECK(Has(finding.actual, "ranks 0, 1 and 3: EFA_LOGGED"));
}

TEST_CASE("nccl-transport: whether EFA is asked for") {
  Observations o = GoodNccl(2);
  ChangeNccl(o, [](NcclExperiment& nccl, int rank) { nccl.log = SocketLog(rank, 2); });
  CHECK(Level(o).verdict == Verdict::kFail);  // g6.12xlarge has EFA
  SUBCASE("the policy says any") {
    CHECK(Level(o, Asks("any")).verdict == Verdict::kNotApplicable);
  }
  SUBCASE("the policy says any for this type only") {
    Policy p = Asks("EFA_LOGGED");
    p.nccl.transport_of_type = {{"g6.12xlarge", "any"}};
    CHECK(Level(o, p).verdict == Verdict::kNotApplicable);
    p.nccl.transport_of_type = {{"g6.24xlarge", "any"}};
    CHECK(Level(o, p).verdict == Verdict::kFail);
  }
  SUBCASE("the policy asks for no EFA") {
    Policy p;
    p.fabric.efa = "no";
    CHECK(Level(o, p).verdict == Verdict::kNotApplicable);
    p.nccl.transport = "EFA_LOGGED";
    CHECK(Level(o, p).verdict == Verdict::kFail);
  }
  SUBCASE("the type has none") {
    for (Node& node : o.cluster.nodes.value()) {
      node.instance_type = "g6.xlarge";
    }
    const Finding finding = Level(o);
    CHECK(finding.verdict == Verdict::kNotApplicable);
    CHECK(Has(finding.reason.message, "TCP_PROVEN"));
    Policy required;
    required.fabric.efa = "required";
    CHECK(Level(o, required).verdict == Verdict::kFail);
  }
  SUBCASE("the cluster was not seen: the pods' devices tell") {
    o = WithoutCluster(o);
    CHECK(Level(o).verdict == Verdict::kFail);
    for (int rank = 0; rank < 2; ++rank) {
      NodeFabric& fabric = NcclRankAt(o, rank).fabric_node[0].seen.value();
      fabric.rdma_devices.clear();
    }
    CHECK(Level(o).verdict == Verdict::kFail);  // the node has them, the pod does not
    for (int rank = 0; rank < 2; ++rank) {
      NcclRankAt(o, rank).fabric_node[0].seen.value().efa_functions = std::vector<EfaFunction>{};
    }
    CHECK(Level(o).verdict == Verdict::kNotApplicable);
  }
  SUBCASE("nothing tells: then it is not known, and no pass") {
    o = WithoutCluster(o);
    for (int rank = 0; rank < 2; ++rank) {
      NcclRankAt(o, rank).fabric_node.clear();
    }
    const Finding finding = Level(o);
    CHECK(finding.verdict == Verdict::kUnknown);
    CHECK(Has(finding.reason.message, "whether the node has EFA was not seen"));
  }
}

TEST_CASE("nccl-transport: too little evidence is unknown, evidence against fails") {
  Observations o = GoodNccl(2);
  SUBCASE("no log") {
    NcclAt(o, 1).log = Error{ErrorCode::kUnavailable, "NCCL wrote nothing", ""};
    const Finding finding = Level(o);
    CHECK(finding.verdict == Verdict::kUnknown);
    CHECK(Has(finding.reason.message, "rank 1 on pod-1: NOT_PROVEN (no log of NCCL"));
  }
  SUBCASE("a log that was cut") {
    NcclAt(o, 1).log.value().cut = true;
    CHECK(Level(o).verdict == Verdict::kUnknown);
  }
  SUBCASE("a rank that was lost") {
    o.nccl_ranks.value().ranks[1].seen = Error{ErrorCode::kUnavailable, "rank 1 was killed", ""};
    const Finding finding = Level(o);
    CHECK(finding.verdict == Verdict::kUnknown);
    CHECK(Has(finding.reason.message, "rank 1 was killed"));
  }
  SUBCASE("the plugin failed") {
    NcclAt(o, 1).log.value().plugin_failed = true;
    CHECK(Level(o).verdict == Verdict::kFail);
  }
  SUBCASE("as many bytes on TCP as the operations send") {
    ChangeNccl(o, [](NcclExperiment& nccl, int) {
      nccl.interfaces_after.value()[0].sent_bytes = std::int64_t{1} << 40;
    });
    CHECK(Level(o).verdict == Verdict::kFail);
    CHECK(Has(Level(o).reason.message, "TCP_PROVEN"));
  }
  SUBCASE("more bytes on TCP than NCCL's own talk, though not all") {
    ChangeNccl(o, [](NcclExperiment& nccl, int) {
      nccl.interfaces_after.value()[0].sent_bytes = std::int64_t{1} << 30;
    });
    CHECK(Level(o).verdict == Verdict::kFail);
  }
  SUBCASE("the policy asks for proof, and there is a log") {
    const Finding finding = Level(o, Asks("EFA_PROVEN"));
    CHECK(finding.verdict == Verdict::kUnknown);
  }
}

TEST_CASE("nccl-transport: on one node nothing goes between nodes") {
  Observations o = GoodNccl(2);
  ChangeNccl(o, [](NcclExperiment& nccl, int rank) {
    NcclLog log;
    log.lines = 3;
    log.processes = {"pod:1"};
    log.communicators = {{"0x1", rank, 2, 1, 2, true}};
    NcclConnections p2p;
    p2p.transport = "P2P";
    p2p.others = 4;
    log.connections = {p2p};
    nccl.log = log;
  });
  const Finding finding = Level(o);
  CHECK(finding.verdict == Verdict::kNotApplicable);
  CHECK(Has(finding.reason.message, "one node"));
  // Asked for by name it was not shown, and that is no pass.
  CHECK(Level(o, Asks("EFA_LOGGED")).verdict == Verdict::kUnknown);
  for (const Finding& wire : OfRule(Look(o), kWireRule)) {
    CHECK(wire.verdict == Verdict::kNotApplicable);
  }
}

TEST_CASE("nccl-transport: bytes over TCP are held against what the operations send") {
  Observations o = GoodNccl(2);
  ChangeNccl(o, [](NcclExperiment& nccl, int rank) { nccl.log = SocketLog(rank, 2); });
  // all_reduce and send_recv 2 S, all_gather, reduce_scatter and broadcast S, of both nodes
  const double all = 20.0 * 7 * static_cast<double>(testing::kNcclBytes);
  const auto sent = [&](double bytes) {
    ChangeNccl(o, [&](NcclExperiment& nccl, int) {
      nccl.interfaces_before = std::vector<InterfaceBytes>{{"eth0", 0, 500}};
      nccl.interfaces_after =
          std::vector<InterfaceBytes>{{"eth0", 0, 500 + static_cast<std::int64_t>(bytes / 2)}};
    });
    return OfRule(Look(o), kWireRule).front();
  };
  CHECK(sent(all).verdict == Verdict::kPass);
  CHECK(sent(all * 0.96).verdict == Verdict::kPass);
  CHECK(sent(all * 0.94).verdict == Verdict::kFail);
  CHECK(sent(all * 1.19).verdict == Verdict::kPass);
  CHECK(sent(all * 1.21).verdict == Verdict::kFail);
  CHECK(sent(all * 1.21).severity == Severity::kWarn);
  SUBCASE("in one network namespace loopback is the way, and is counted once") {
    ChangeNccl(o, [&](NcclExperiment& nccl, int) {
      nccl.measured.ranks[0].boot_id = "one";
      nccl.interfaces_before = std::vector<InterfaceBytes>{{"lo", 0, 0}};
      nccl.interfaces_after =
          std::vector<InterfaceBytes>{{"lo", 0, static_cast<std::int64_t>(all)}};
    });
    const Finding finding = OfRule(Look(o), kWireRule).front();
    CHECK(finding.verdict == Verdict::kPass);
    REQUIRE_FALSE(finding.notes.empty());
    CHECK(Has(finding.notes.back(), "loopback is counted"));
  }
  SUBCASE("counters that could not be read are no zero") {
    NcclAt(o, 1).interfaces_after = Error{ErrorCode::kUnavailable, "no /proc", ""};
    CHECK(OfRule(Look(o), kWireRule).front().verdict == Verdict::kUnknown);
  }
  SUBCASE("a run that stopped has sent nobody knows how much") {
    NcclAt(o, 1).measured.stopped_by = Error{ErrorCode::kTimedOut, "rank 1: timed out", ""};
    CHECK(OfRule(Look(o), kWireRule).front().verdict == Verdict::kUnknown);
  }
}

TEST_CASE("nccl-transport: the devices' own counters prove it, or speak against it") {
  Observations o = GoodNccl(2);
  const double all = 20.0 * 7 * static_cast<double>(testing::kNcclBytes);
  const auto sent = [&](double bytes) {
    ChangeNccl(o, [&](NcclExperiment& nccl, int) {
      nccl.efa_counters_before = std::vector<EfaPortCounters>{{"rdmap0s31", 700, 0, {}}};
      nccl.efa_counters_after = std::vector<EfaPortCounters>{
          {"rdmap0s31", 700 + static_cast<std::int64_t>(bytes / 2), 0, {}}};
    });
    return Level(o, Asks("EFA_PROVEN"));
  };
  CHECK(sent(all).verdict == Verdict::kPass);
  CHECK(Has(sent(all).actual, "EFA_PROVEN"));
  CHECK(OfRule(Look(o), kWireRule).front().verdict == Verdict::kPass);
  CHECK(sent(all * 0.9).verdict == Verdict::kFail);  // fewer than any algorithm needs
  CHECK(OfRule(Look(o), kWireRule).front().verdict == Verdict::kFail);
  CHECK(sent(all * 1.3).verdict == Verdict::kUnknown);  // somebody else's too
  SUBCASE("ranks of one node that see one device count it once") {
    NcclRankAt(o, 1).facts.node = NcclRankAt(o, 0).facts.node;
    CHECK(sent(all * 2).verdict == Verdict::kPass);
  }
  SUBCASE("counters of one rank are not all") {
    sent(all);
    NcclAt(o, 1).efa_counters_after = Error{ErrorCode::kPermissionDenied, "no counters here", ""};
    const Finding finding = Level(o, Asks("EFA_PROVEN"));
    CHECK(finding.verdict == Verdict::kUnknown);
    CHECK(Level(o, Asks("EFA_LOGGED")).verdict == Verdict::kPass);
  }
}

TEST_CASE("nccl-transport: GPUDirect where the type has it") {
  Observations o = GoodNccl(2, "p5.48xlarge");
  CHECK(OfRule(Look(o), kGdr).front().verdict == Verdict::kPass);
  SUBCASE("one rank without") {
    for (NcclConnections& one : NcclAt(o, 1).log.value().connections) {
      one.gpu_direct = false;
    }
    const Finding finding = OfRule(Look(o), kGdr).front();
    CHECK(finding.verdict == Verdict::kFail);
    CHECK(Has(finding.reason.message, "rank 1 on pod-1"));
    Policy none;
    none.nccl.gpu_direct = "no";
    CHECK(OfRule(Look(o, none), kGdr).front().verdict == Verdict::kNotApplicable);
  }
  SUBCASE("no log of one rank") {
    NcclAt(o, 1).log = Error{ErrorCode::kUnavailable, "gone", ""};
    CHECK(OfRule(Look(o), kGdr).front().verdict == Verdict::kUnknown);
  }
  SUBCASE("a type without") {
    Observations g6 = GoodNccl(2);
    CHECK(OfRule(Look(g6), kGdr).front().verdict == Verdict::kNotApplicable);
    for (NcclConnections& one : NcclAt(g6, 1).log.value().connections) {
      one.gpu_direct = false;
    }
    Policy required;
    required.nccl.gpu_direct = "required";
    CHECK(OfRule(Look(g6, required), kGdr).front().verdict == Verdict::kFail);
  }
}

TEST_CASE("nccl-transport: fewer NICs than devices is a warning") {
  Observations o = GoodNccl(2);
  ChangeNccl(o, [](NcclExperiment& nccl, int) { nccl.log.value().nics = 1; });
  CHECK(OfRule(Look(o), kNics).front().verdict == Verdict::kPass);
  auto& devices = NcclRankAt(o, 1).fabric_node[0].seen.value().rdma_devices;
  devices.push_back(devices.front());
  const auto nics = OfRule(Look(o), kNics);
  CHECK(nics[1].verdict == Verdict::kFail);
  CHECK(nics[1].severity == Severity::kWarn);
}

TEST_CASE("nccl-transport: a run that may take only the plugin says why it cannot") {
  Observations o = GoodNccl(2);
  for (int rank = 0; rank < 2; ++rank) {
    auto forced = NcclRankAt(o, rank).nccl_collectives.front();
    forced.step = "nccl-over-efa";
    forced.seen.value().settings = {{"NCCL_NET", "AWS Libfabric", "dlc-probe"}};
    NcclRankAt(o, rank).nccl_collectives.push_back(forced);
  }
  CHECK(One(Look(o), kForcedRule).verdict == Verdict::kPass);
  CHECK(OfRule(Look(o), kLevel).size() == 2);  // it is no run of the job's
  NcclExperiment& stopped = NcclAt(o, 1, 2);
  stopped.measured.collectives.clear();
  stopped.measured.stopped_by =
      Error{ErrorCode::kUnavailable, "rank 1: ncclCommInitRank: invalid usage (5)", ""};
  stopped.log.value().warnings = {"Error: network AWS Libfabric not found."};
  const Finding finding = One(Look(o), kForcedRule);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(Has(finding.reason.message, "network AWS Libfabric not found"));
  CHECK(Has(finding.reason.message, "rank 1"));
}

TEST_CASE("nccl-transport: without ranks") {
  Observations o;
  o.nccl_ranks = NotLookedAt{"the config has no target", ""};
  CHECK(Level(o).verdict == Verdict::kNotApplicable);
  CHECK(Level(o, Asks("EFA_LOGGED")).verdict == Verdict::kUnknown);
  o.nccl_ranks = Error{ErrorCode::kUnavailable, "no dlc-probe", ""};
  CHECK(Level(o).verdict == Verdict::kUnknown);
  o.nccl_ranks = NotLookedAt{"", "image-digest/x"};
  CHECK(Level(o).verdict == Verdict::kUnknown);
  SUBCASE("ranks that were asked for no collectives show nothing") {
    Observations other = GoodNccl(2);
    for (int rank = 0; rank < 2; ++rank) {
      NcclRankAt(other, rank).nccl_collectives.clear();
    }
    CHECK(Level(other).verdict == Verdict::kUnknown);
  }
}

std::vector<NcclLogFile> Logs(const std::string& folder, int ranks) {
  std::vector<NcclLogFile> files;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string name = "rank" + std::to_string(rank) + ".log";
    files.push_back({name, Digest{"ab"}, NcclLogOf(folder + "/" + name)});
  }
  return files;
}

TEST_CASE("nccl-transport: logs of an earlier run") {
  Observations o;
  o.nccl_ranks = NotLookedAt{"logs of an earlier run are judged", ""};
  SUBCASE("provider selected, then sockets, on half of the ranks") {
    o.nccl_logs = Logs("provider_selected_then_sockets", 8);
    const Finding finding = One(Look(o), kLevel);
    CHECK(finding.verdict == Verdict::kFail);
    CHECK_MESSAGE(finding.reason.message.starts_with("ranks 0, 1, 2 and 3: TCP_PROVEN"),
                  finding.reason.message);
    CHECK_MESSAGE(finding.actual.find("ranks 4, 5, 6 and 7: EFA_LOGGED") != std::string::npos,
                  finding.actual);
  }
  SUBCASE("healthy ones") {
    o.nccl_logs = Logs("new", 2);
    CHECK(One(Look(o, Asks("EFA_LOGGED")), kLevel).verdict == Verdict::kPass);
    // Nobody asked, and nobody knows what the nodes have: a good log is a good log.
    CHECK(One(Look(o), kLevel).verdict != Verdict::kFail);
    SUBCASE("of one rank only") {
      o.nccl_logs.value().pop_back();
      const Finding finding = One(Look(o, Asks("EFA_LOGGED")), kLevel);
      CHECK(finding.verdict == Verdict::kUnknown);
      CHECK(Has(finding.reason.message, "rank 1"));
    }
  }
  SUBCASE("folded by Ray, never a pass") {
    o.nccl_logs =
        std::vector<NcclLogFile>{{"driver.log", Digest{"ab"}, NcclLogOf("folded_by_ray.log")}};
    CHECK(One(Look(o, Asks("EFA_LOGGED")), kLevel).verdict != Verdict::kPass);
    CHECK(One(Look(o), kLevel).verdict != Verdict::kPass);
  }
  SUBCASE("without GPUDirect, where the policy asks for it") {
    o.nccl_logs = Logs("no_gpu_direct", 2);
    Policy p = Asks("EFA_LOGGED");
    CHECK(One(Look(o, p), kLevel).verdict == Verdict::kPass);
    p.nccl.gpu_direct = "required";
    CHECK(One(Look(o, p), kGdr).verdict == Verdict::kFail);
  }
}

}  // namespace
}  // namespace dlc
