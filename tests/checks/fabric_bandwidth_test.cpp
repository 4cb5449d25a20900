#include <doctest/doctest.h>

#include <string>

#include "checks/check.h"
#include "tests/checks/fabric_run.h"
#include "tests/checks/rank_run.h"

namespace dlc {
namespace {

using testing::ChangePair;
using testing::ChangeRows;
using testing::CollectivesAt;
using testing::FabricAt;
using testing::GoodFabric;
using testing::kMessage;
using testing::NodeAt;
using testing::OfRule;
using testing::One;
using testing::PairsAt;

constexpr const char* kData = "fabric-bandwidth/right-data";
constexpr const char* kLibrary = "fabric-bandwidth/same-library";
constexpr const char* kProvider = "fabric-bandwidth/provider";
constexpr const char* kLatency = "fabric-bandwidth/pair-latency";
constexpr const char* kBandwidth = "fabric-bandwidth/pair-bandwidth";
constexpr const char* kBus = "fabric-bandwidth/bus-bandwidth";

std::vector<Finding> Look(const Observations& o, const Policy& p = {}) {
  return FindCheck("fabric-bandwidth")->judge(o, p);
}

Finding Of(const std::vector<Finding>& findings, const char* rule, const std::string& subject) {
  for (const Finding& finding : findings) {
    if (finding.rule == rule && finding.subject.name == subject) {
      return finding;
    }
  }
  FAIL("no finding of " << rule << " for " << subject);
  return {};
}

bool Has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

/// Demands exactly what the good run reaches.
Policy AtTheLimit() {
  Policy p;
  p.fabric.provider = "net";
  p.fabric.min_pair_bandwidth = PairBandwidthLimit{kMessage, 1e9};
  p.fabric.max_pair_latency = PairLatencyLimit{kMessage, 20e-6};
  p.fabric.min_bus_bandwidth = {{"all_reduce", kMessage, 2e9}, {"all_gather", kMessage, 2e9}};
  return p;
}

TEST_CASE("fabric-bandwidth: at the limits all passes") {
  const auto findings = Look(GoodFabric({"a", "b", "c"}), AtTheLimit());
  CHECK(findings.size() == 8);
  for (const Finding& finding : findings) {
    CAPTURE(finding.rule);
    CAPTURE(finding.reason.message);
    CHECK(finding.verdict == Verdict::kPass);
  }
  CHECK(Aggregate(findings, false) == Outcome::kPassed);
}

TEST_CASE("fabric-bandwidth: just beyond each limit fails and names the pair or the collective") {
  const auto verdict = [](Observations o, const Policy& p, const char* rule,
                          const std::string& part) {
    const auto findings = OfRule(Look(o, p), rule);
    REQUIRE_FALSE(findings.empty());
    CHECK(findings[0].verdict == Verdict::kFail);
    CHECK(Has(findings[0].reason.message, part));
  };
  Observations o = GoodFabric({"a", "b", "c"});
  ChangePair(o, 0, 2, [](auto& pair) { pair.bandwidth_bytes_per_second = 999'999'999; });
  verdict(o, AtTheLimit(), kBandwidth, "ranks 0 and 2");
  o = GoodFabric({"a", "b", "c"});
  ChangePair(o, 1, 2, [](auto& pair) { pair.reverse_bandwidth_bytes_per_second = 999'999'999; });
  verdict(o, AtTheLimit(), kBandwidth, "ranks 1 and 2");
  o = GoodFabric({"a", "b", "c"});
  ChangePair(o, 0, 1, [](auto& pair) { pair.latency_seconds = 20.1e-6; });
  verdict(o, AtTheLimit(), kLatency, "ranks 0 and 1");
  o = GoodFabric({"a", "b", "c"});
  ChangeRows(o, "all_reduce", [](auto& row) { row.bus_bandwidth_bytes_per_second = 1.999e9; });
  verdict(o, AtTheLimit(), kBus, "all_reduce");
  Policy efa = AtTheLimit();
  efa.fabric.provider = "efa";
  verdict(GoodFabric({"a", "b"}), efa, kProvider, "expected efa, found ranks 0 and 1: net");
}

TEST_CASE("fabric-bandwidth: the slower placement of a collective counts") {
  Observations o = GoodFabric({"a", "b"});
  for (int rank : {0, 1}) {
    auto& rows = CollectivesAt(o, rank).collectives;
    rows.push_back(rows.front());
    rows.back().in_place = true;
    rows.back().bus_bandwidth_bytes_per_second = 1e9;
  }
  const auto findings = Look(o, AtTheLimit());
  CHECK(Of(findings, kBus, "all_reduce of 1048576 bytes").verdict == Verdict::kFail);
  CHECK(Of(findings, kBus, "all_gather of 1048576 bytes").verdict == Verdict::kPass);
}

TEST_CASE("fabric-bandwidth: a limit at a size that nobody measured is unknown") {
  Policy p;
  p.fabric.min_pair_bandwidth = PairBandwidthLimit{8, 1};
  p.fabric.max_pair_latency = PairLatencyLimit{8, 1};
  p.fabric.min_bus_bandwidth = {{"all_reduce", 8, 1}, {"broadcast", kMessage, 1}};
  const auto findings = Look(GoodFabric({"a", "b"}), p);
  for (const char* rule : {kBandwidth, kLatency, kBus}) {
    for (const Finding& finding : OfRule(findings, rule)) {
      CHECK(finding.verdict == Verdict::kUnknown);
    }
  }
  CHECK(OfRule(findings, kBus).size() == 2);
  CHECK(Aggregate(findings, false) == Outcome::kIncomplete);
}

TEST_CASE("fabric-bandwidth: loopback is shown and held against no limit, which then is unknown") {
  Observations o = GoodFabric({"a", "a"});
  ChangeRows(o, "all_reduce", [](auto& row) { row.machines = 1; });
  ChangeRows(o, "all_gather", [](auto& row) { row.machines = 1; });
  const auto demanded = Look(o, AtTheLimit());
  const Finding loopback = Of(demanded, kBandwidth, "pairs on one machine");
  CHECK(loopback.verdict == Verdict::kNotApplicable);
  CHECK(Has(loopback.reason.message, "loopback is no fabric"));
  CHECK(Has(loopback.notes.at(0), "over net on eth0 (provider 117.0, libfabric 1.17)"));
  CHECK(Has(loopback.notes.at(1), "ranks 0 and 1, 1048576 bytes: 1000.0 MB/s, back 1250.0 MB/s"));
  CHECK(Of(demanded, kBandwidth, "pairs on different machines").verdict == Verdict::kUnknown);
  CHECK(Of(demanded, kLatency, "pairs on different machines").verdict == Verdict::kUnknown);
  CHECK(Of(demanded, kBus, "all_reduce of 1048576 bytes").verdict == Verdict::kUnknown);
  // Nobody asked: nothing is missing, and the data was right.
  const auto findings = Look(o);
  CHECK(One(findings, kLatency).verdict == Verdict::kNotApplicable);
  CHECK(One(findings, kBus).verdict == Verdict::kNotApplicable);
  CHECK(Aggregate(findings, false) == Outcome::kPassed);
}

TEST_CASE("fabric-bandwidth: more ranks than CPUs are shown as such and held against no limit") {
  Observations o = GoodFabric({"a", "a", "b"});
  for (int rank : {0, 1}) {
    PairsAt(o, rank).ranks[0].usable_cpus = 1;
  }
  ChangeRows(o, "all_reduce", [](auto& row) { row.oversubscribed = true; });
  const auto findings = Look(o, AtTheLimit());
  CHECK(Has(Of(findings, kLatency, "pairs on one machine").reason.message, "oversubscribed"));
  CHECK(Of(findings, kLatency, "pairs on oversubscribed machines").verdict ==
        Verdict::kNotApplicable);
  CHECK(Of(findings, kLatency, "pairs on different machines").verdict == Verdict::kUnknown);
  CHECK(Of(findings, kBus, "all_reduce of 1048576 bytes").verdict == Verdict::kUnknown);
}

TEST_CASE("fabric-bandwidth: wrong elements fail and name who sent them") {
  Observations o = GoodFabric({"a", "b", "c"});
  ChangePair(o, 0, 1, [](auto& pair) { pair.wrong_at_a = 1; });
  ChangePair(o, 1, 2, [](auto& pair) { pair.wrong_at_b = 1; });
  const Finding pairs = Of(Look(o), kData, "pairs of ranks");
  CHECK(pairs.verdict == Verdict::kFail);
  CHECK(pairs.reason.message ==
        "what rank 1 on pod-1 sent arrived wrong at ranks 0 and 2 (2 elements)");
  // The same receiver from everybody: then it is the receiver.
  o = GoodFabric({"a", "b", "c"});
  ChangePair(o, 0, 1, [](auto& pair) { pair.wrong_at_b = 1; });
  ChangePair(o, 1, 2, [](auto& pair) { pair.wrong_at_a = 1; });
  CHECK(Of(Look(o), kData, "pairs of ranks").reason.message ==
        "rank 1 on pod-1 received wrong what ranks 0 and 2 sent (2 elements)");
}

TEST_CASE("fabric-bandwidth: wrong elements of collectives name whose they were where it shows") {
  Observations o = GoodFabric({"a", "b", "c"});
  ChangeRows(o, "all_reduce", [](auto& row) { row.wrong = {1, 1, 1}; });
  CHECK(Of(Look(o), kData, "collectives").reason.message ==
        "elements arrived wrong at ranks 0, 1 and 2 (3 elements; all_reduce)");
  ChangeRows(o, "all_gather", [](auto& row) {
    row.wrong = {1, 0, 1};
    row.wrong_from = {0, 2, 0};
  });
  const Finding finding = Of(Look(o), kData, "collectives");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.reason.message ==
        "elements of rank 1 on pod-1 arrived wrong at ranks 0, 1 and 2 (5 elements; all_gather, "
        "all_reduce)");
}

TEST_CASE("fabric-bandwidth: a run that was stopped is unknown and names the culprit") {
  Observations o = GoodFabric({"a", "b", "c"});
  for (int rank : {0, 2}) {
    FabricAt(o, rank).fabric_pairs[0].seen =
        Error{ErrorCode::kUnavailable, "rank 1 on pod-1 was lost (fabric-pairs)", ""};
  }
  FabricAt(o, 1).fabric_pairs[0].end.how = "exited";
  FabricAt(o, 1).fabric_pairs[0].seen =
      Error{ErrorCode::kUnavailable, "the experiment exited with code 1 and no result", ""};
  const auto findings = Look(o, AtTheLimit());
  const Finding data = Of(findings, kData, "pairs of ranks");
  CHECK(data.verdict == Verdict::kUnknown);
  CHECK(Has(data.reason.message, "rank 1 on pod-1: the experiment exited with code 1"));
  CHECK(Of(findings, kBandwidth, "pairs on different machines").verdict == Verdict::kUnknown);
  CHECK(One(findings, kProvider).verdict == Verdict::kUnknown);
  // The collectives came to their end nevertheless.
  CHECK(Of(findings, kData, "collectives").verdict == Verdict::kPass);
}

TEST_CASE("fabric-bandwidth: rows before the end of a stopped run can fail and never pass") {
  Observations o = GoodFabric({"a", "b", "c"});
  for (int rank : {0, 1, 2}) {
    PairsAt(o, rank).stopped_by = Error{ErrorCode::kTimedOut, "rank 2 did not answer", "look"};
  }
  auto findings = Look(o, AtTheLimit());
  const Finding data = Of(findings, kData, "pairs of ranks");
  CHECK(data.verdict == Verdict::kUnknown);
  CHECK(data.reason.code == "timeout");
  CHECK(Has(data.reason.message, "rank 2 did not answer"));
  CHECK(One(findings, kBandwidth).verdict == Verdict::kUnknown);
  ChangePair(o, 0, 1, [](auto& pair) {
    pair.wrong_at_a = 1;
    pair.bandwidth_bytes_per_second = 1;
  });
  findings = Look(o, AtTheLimit());
  CHECK(Of(findings, kData, "pairs of ranks").verdict == Verdict::kFail);
  CHECK(One(findings, kBandwidth).verdict == Verdict::kFail);
}

TEST_CASE("fabric-bandwidth: a lost rank is the culprit before all who waited for it") {
  Observations o = GoodFabric({"a", "b"});
  FabricAt(o, 0).fabric_pairs[0].seen = Error{ErrorCode::kTimedOut, "rank 1 was late", ""};
  o.nccl_ranks.value().ranks[1].seen =
      Error{ErrorCode::kUnavailable, "rank 1 was killed by SIGKILL", ""};
  const auto findings = Look(o);
  CHECK(Has(Of(findings, kData, "pairs of ranks").reason.message, "rank 1 was killed by SIGKILL"));
  CHECK(One(findings, kLibrary).verdict == Verdict::kUnknown);
}

TEST_CASE("fabric-bandwidth: pairs that are missing without a word are no pass") {
  Observations o = GoodFabric({"a", "b", "c"});
  for (int rank : {0, 1, 2}) {
    std::erase_if(PairsAt(o, rank).pairs, [](const auto& pair) { return pair.rank_b == 2; });
  }
  CHECK(Of(Look(o), kData, "pairs of ranks").verdict == Verdict::kFail);
  for (int rank : {0, 1, 2}) {
    CollectivesAt(o, rank).collectives.clear();
  }
  CHECK(Of(Look(o), kData, "collectives").verdict == Verdict::kFail);
}

TEST_CASE("fabric-bandwidth: another library or provider names the odd rank") {
  Observations o = GoodFabric({"a", "b", "c"});
  NodeAt(o, 2).libfabric = LoadedLibrary{"/opt/x.so", "1.18", "abcdef"};
  Finding finding = One(Look(o), kLibrary);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.reason.message ==
        "rank 2 on pod-2: libfabric 1.18 (abcdef); ranks 0 and 1: libfabric 1.17 (abcdef)");
  o = GoodFabric({"a", "b", "c"});
  NodeAt(o, 0).libfabric.value().build_id = "other";
  CHECK(One(Look(o), kLibrary).verdict == Verdict::kFail);
  o = GoodFabric({"a", "b", "c"});
  NodeAt(o, 1).providers.value().push_back({"efa", "rdmap0s6-rdm", "efa", "204.0", "", "", {}});
  finding = One(Look(o), kLibrary);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(Has(finding.reason.message, "rank 1 on pod-1: efa 204.0, net 117.0; ranks 0 and 2: net"));
  o = GoodFabric({"a", "b", "c"});
  NodeAt(o, 1).libfabric = Error{ErrorCode::kNotFound, "no libfabric", "install it"};
  CHECK(Has(One(Look(o), kLibrary).reason.message, "rank 1 on pod-1: no libfabric"));
  for (int rank : {0, 2}) {
    NodeAt(o, rank).libfabric = Error{ErrorCode::kNotFound, "no libfabric", "install it"};
  }
  CHECK(One(Look(o), kLibrary).verdict == Verdict::kUnknown);
}

TEST_CASE("fabric-bandwidth: one rank proves nothing, which is unknown where something is asked") {
  const auto findings = Look(GoodFabric({"a"}));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].verdict == Verdict::kNotApplicable);
  CHECK(Aggregate(findings, false) == Outcome::kIncomplete);
  CHECK(One(Look(GoodFabric({"a"}), AtTheLimit()), kProvider).verdict == Verdict::kUnknown);
}

TEST_CASE("fabric-bandwidth: no ranks are unknown where something is asked, else not applicable") {
  Observations o;
  o.nccl_ranks = NotLookedAt{"the config has no target to run ranks on", ""};
  const Finding idle = One(Look(o), kData);
  CHECK(idle.verdict == Verdict::kNotApplicable);
  CHECK(Has(idle.reason.message, "no target to run ranks on"));
  CHECK(One(Look(o, AtTheLimit()), kData).verdict == Verdict::kUnknown);
  o.run.interrupted = true;
  CHECK(One(Look(o), kData).verdict == Verdict::kUnknown);
  o.run.interrupted = false;
  o.nccl_ranks = NotLookedAt{"", "image-digest/x (pod y)"};
  CHECK(One(Look(o), kData).reason.code == "prerequisite-failed");
  o.nccl_ranks = Error{ErrorCode::kNotFound, "no dlc-probe", ""};
  CHECK(One(Look(o), kData).reason.code == "not-found");
  o.nccl_ranks = RankRun{};
  CHECK(One(Look(o), kData).verdict == Verdict::kUnknown);
}

TEST_CASE("fabric-bandwidth: a plan without the steps is unknown, not a pass") {
  Observations o = GoodFabric({"a", "b"});
  for (int rank : {0, 1}) {
    FabricAt(o, rank).fabric_pairs.clear();
    FabricAt(o, rank).fabric_collectives.clear();
    FabricAt(o, rank).fabric_node.clear();
  }
  const std::vector<Finding> findings = Look(o, AtTheLimit());
  REQUIRE_FALSE(findings.empty());
  for (const Finding& finding : findings) {
    CAPTURE(finding.rule);
    CHECK(finding.verdict == Verdict::kUnknown);
  }
}

TEST_CASE("fabric-bandwidth: planted faults are remarked on every finding") {
  Observations o = GoodFabric({"a", "b"});
  o.nccl_ranks.value().planted_faults = {{1, "fabric-pairs", "flip-bit", ""}};
  const std::vector<Finding> findings = Look(o);
  REQUIRE_FALSE(findings.empty());
  for (const Finding& finding : findings) {
    CHECK(Has(finding.notes.back(), "faults were planted in this run: flip-bit in rank 1"));
  }
}

TEST_CASE("fabric-bandwidth: rules that the policy switches off are not judged") {
  Policy p = AtTheLimit();
  p.severity["fabric-bandwidth"] = Severity::kOff;
  Observations o = GoodFabric({"a", "b"});
  ChangePair(o, 0, 1, [](auto& pair) { pair.wrong_at_a = 1; });
  const std::vector<Finding> findings = Look(o, p);
  REQUIRE_FALSE(findings.empty());
  for (const Finding& finding : findings) {
    CHECK(finding.verdict == Verdict::kNotApplicable);
  }
}

}  // namespace
}  // namespace dlc
