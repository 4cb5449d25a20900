#include <doctest/doctest.h>

#include <string>

#include "checks/check.h"
#include "tests/checks/nccl_run.h"
#include "tests/checks/rank_run.h"

namespace dlc {
namespace {

using testing::ChangeNccl;
using testing::GoodNccl;
using testing::NcclAt;
using testing::OfRule;

constexpr const char* kRule = "nccl-transport/inside-node";

Finding Inside(const Observations& o, const char* demand = "P2P") {
  Policy policy;
  policy.nccl.inside_node = demand;
  const auto some = OfRule(FindCheck("nccl-transport")->judge(o, policy), kRule);
  REQUIRE_FALSE(some.empty());
  return some.front();
}

NcclConnections Way(const char* transport, const char* detail) {
  NcclConnections one;
  one.transport = transport;
  (std::string(transport) == "NET" ? one.network : one.detail) = detail;
  one.others = 8;
  return one;
}

/// `ranks` ranks, `local` on each node; what connects them, whichever it is.
Observations Ranks(int ranks, int local, const std::vector<NcclConnections>& ways) {
  Observations o = GoodNccl(ranks);
  ChangeNccl(o, [&](NcclExperiment& nccl, int rank) {
    NcclLog log;
    log.lines = 30;
    log.processes = {"pod:1"};
    log.communicators = {{"0x1", rank, ranks, ranks / local, local, true}};
    log.connections = ways;
    nccl.log = log;
  });
  return o;
}

NcclLog& LogAt(Observations& o, int rank) {
  return NcclAt(o, rank).log.value();
}

bool Has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("nccl inside a node: P2P passes, alone and beside a network between nodes") {
  const Finding one = Inside(Ranks(4, 4, {Way("P2P", "CUMEM/read")}));
  CHECK(one.verdict == Verdict::kPass);
  CHECK(Has(one.notes.at(0), "P2P/CUMEM/read (8)"));
  CHECK(Inside(Ranks(4, 2, {Way("P2P", "IPC"), Way("NET", "AWS Libfabric")})).verdict ==
        Verdict::kPass);
}

TEST_CASE("nccl inside a node: host memory fails, and a network where there is one node") {
  Observations o = Ranks(2, 2, {Way("P2P", "CUMEM")});
  LogAt(o, 1).connections.push_back(Way("SHM", "direct/direct"));
  const Finding finding = Inside(o);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(Has(finding.reason.message, "rank 1"));
  CHECK(Has(finding.reason.message, "SHM/direct/direct (8)"));
  CHECK_FALSE(Has(finding.reason.message, "rank 0"));
  CHECK(Inside(Ranks(2, 2, {Way("P2P", "CUMEM"), Way("NET", "Socket")})).verdict == Verdict::kFail);
  CHECK(Inside(Ranks(4, 2, {Way("SHM", "direct/direct"), Way("NET", "Socket")})).verdict ==
        Verdict::kFail);
}

TEST_CASE("nccl inside a node: where nobody asks it is told, and no more") {
  const Finding finding = Inside(Ranks(2, 2, {Way("SHM", "direct/direct")}), "any");
  CHECK(finding.verdict == Verdict::kNotApplicable);
  CHECK(Has(finding.reason.message, "SHM/direct/direct (8)"));
}

TEST_CASE("nccl inside a node: one rank on each node has no neighbour") {
  CHECK(Inside(GoodNccl(2)).verdict == Verdict::kNotApplicable);
}

TEST_CASE("nccl inside a node: a log that is too little, damaged or absent is no pass") {
  const std::vector<NcclConnections> good = {Way("P2P", "CUMEM")};
  Observations none = Ranks(2, 2, good);
  LogAt(none, 1).connections.clear();  // two ranks, and nothing between them
  CHECK(Inside(none).verdict == Verdict::kUnknown);
  const auto damage = [&](auto change) {
    Observations o = Ranks(2, 2, good);
    change(LogAt(o, 0));
    return Inside(o).verdict;
  };
  CHECK(damage([](NcclLog& log) { log.unread_connections = 1; }) == Verdict::kUnknown);
  CHECK(damage([](NcclLog& log) { log.damaged_lines = 1; }) == Verdict::kUnknown);
  CHECK(damage([](NcclLog& log) { log.folded_lines = 1; }) == Verdict::kUnknown);
  CHECK(damage([](NcclLog& log) { log.dropped = 1; }) == Verdict::kUnknown);
  CHECK(damage([](NcclLog& log) { log.cut = true; }) == Verdict::kUnknown);
  CHECK(damage([](NcclLog& log) { log.communicators.clear(); }) == Verdict::kUnknown);
  Observations lost = Ranks(2, 2, good);
  NcclAt(lost, 1).log = Error{ErrorCode::kNotFound, "no file", ""};
  CHECK(Inside(lost).verdict == Verdict::kUnknown);
  // A fault that was seen is told all the same.
  LogAt(lost, 0).connections = {Way("SHM", "direct/direct")};
  CHECK(Inside(lost).verdict == Verdict::kFail);
}

TEST_CASE("nccl inside a node: NCCL that tells no number of nodes") {
  Observations o = Ranks(2, 2, {Way("P2P", "CUMEM")});
  LogAt(o, 0).communicators[0].nodes = LogAt(o, 0).communicators[0].local_ranks = 0;
  CHECK(Inside(o).verdict == Verdict::kPass);
  LogAt(o, 0).connections.push_back(Way("NET", "Socket"));
  CHECK(Inside(o).verdict == Verdict::kUnknown);
}

TEST_CASE("nccl inside a node: asked for, and no ranks ran") {
  Policy policy;
  policy.nccl.inside_node = "P2P";
  Observations o;
  o.nccl_ranks = NotLookedAt{"no ranks", ""};
  const auto findings = FindCheck("nccl-transport")->judge(o, policy);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].verdict == Verdict::kUnknown);
}

}  // namespace dlc
