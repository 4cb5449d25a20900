#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "checks/check.h"
#include "checks/nccl_imports.h"
#include "tests/checks/nccl_run.h"
#include "tests/checks/rank_run.h"

namespace dlc {
namespace {

using testing::ChangeNccl;
using testing::GoodNccl;
using testing::kNcclBytes;
using testing::NcclAt;
using testing::NcclRankAt;
using testing::OfRule;
using testing::One;

constexpr const char* kBus = "nccl-bandwidth/bus-bandwidth";
constexpr const char* kShare = "nccl-bandwidth/uncalibrated-share";
constexpr const char* kPlausibleRule = "nccl-bandwidth/plausible";
constexpr const char* kControlRule = "nccl-bandwidth/tcp-control";
constexpr const char* kValid = "nccl-bandwidth/measurement-valid";

std::vector<Finding> Look(const Observations& o, const Policy& p = {}) {
  return FindCheck("nccl-bandwidth")->judge(o, p);
}

bool Has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

Policy Wants(double bytes_per_second, double share = 0) {
  Policy p;
  p.nccl.min_bus_bandwidth = {{"all_reduce", "float32", kNcclBytes, bytes_per_second, share}};
  return p;
}

Finding Limit(const Observations& o, const Policy& p, const char* rule = kBus) {
  for (const Finding& finding : Look(o, p)) {
    if (finding.rule == rule && finding.subject.name.starts_with("all_reduce of")) {
      return finding;
    }
  }
  FAIL("no finding of " << rule);
  return {};
}

TEST_CASE("nccl-bandwidth: the limit itself passes, a little more fails") {
  CHECK(Limit(GoodNccl(2), Wants(3e9)).verdict == Verdict::kPass);
  const Finding finding = Limit(GoodNccl(2), Wants(3.001e9));
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.severity == Severity::kRequired);
  SUBCASE("the slower of the two placements counts") {
    Observations o = GoodNccl(2);
    ChangeNccl(o, [](NcclExperiment& nccl, int) {
      CollectiveMeasurement row = nccl.measured.collectives[0];
      row.in_place = true;
      row.bus_bandwidth_bytes_per_second = 2e9;
      nccl.measured.collectives.push_back(row);
    });
    CHECK(Limit(o, Wants(3e9)).verdict == Verdict::kFail);
    CHECK(Limit(o, Wants(2e9)).verdict == Verdict::kPass);
  }
}

TEST_CASE("nccl-bandwidth: a share of the line rate, calibrated or not") {
  // g6.12xlarge: 40 Gbit/s are 5e9 bytes/s, and nobody has published what two of them reach.
  const Finding good = Limit(GoodNccl(2), Wants(0, 0.6), kShare);
  CHECK(good.verdict == Verdict::kPass);
  const Finding bad = Limit(GoodNccl(2), Wants(0, 0.61), kShare);
  CHECK(bad.verdict == Verdict::kFail);
  CHECK(bad.severity == Severity::kWarn);
  // p4d.24xlarge: 400 Gbit/s, calibrated
  const Finding p4d = Limit(GoodNccl(2, "p4d.24xlarge"), Wants(0, 0.06));
  CHECK(p4d.verdict == Verdict::kPass);
  CHECK(Limit(GoodNccl(2, "p4d.24xlarge"), Wants(0, 0.061)).verdict == Verdict::kFail);
  SUBCASE("a type that is not known, or not seen") {
    CHECK(Limit(GoodNccl(2, "x9.large"), Wants(0, 0.5)).verdict == Verdict::kUnknown);
    Observations o = GoodNccl(2);
    o.cluster = {};
    CHECK(Limit(o, Wants(0, 0.5)).verdict == Verdict::kUnknown);
  }
}

TEST_CASE("nccl-bandwidth: a row that is not there is unknown") {
  Observations o = GoodNccl(2);
  Policy p = Wants(1e9);
  p.nccl.min_bus_bandwidth[0].size_bytes = 1;
  CHECK(Limit(o, p).verdict == Verdict::kUnknown);
  SUBCASE("nor is one of ranks on one machine a row between nodes") {
    ChangeNccl(o, [](NcclExperiment& nccl, int) {
      for (CollectiveMeasurement& row : nccl.measured.collectives) {
        row.machines = 1;
      }
    });
    CHECK(Limit(o, Wants(1e9)).verdict == Verdict::kUnknown);
    const auto shown = OfRule(Look(o), kBus);
    REQUIRE_FALSE(shown.empty());
    CHECK(Has(shown[0].reason.message, "on one machine"));
  }
  SUBCASE("of a rank that was lost") {
    ChangeNccl(o, [](NcclExperiment& nccl, int) { nccl.measured.collectives.clear(); });
    NcclRankAt(o, 1).nccl_collectives[0].seen = Error{ErrorCode::kUnavailable, "killed", ""};
    CHECK(Limit(o, Wants(1e9)).verdict == Verdict::kUnknown);
  }
}

TEST_CASE("nccl-bandwidth: above what any algorithm can do the measurement is wrong") {
  // Two g6.12xlarge, one rank on each: 5e9 bytes/s.
  CHECK(BusBandwidthBound("all_reduce", 2, 2, 40) == doctest::Approx(5e9));
  // facts of two p4d: 93.75 GB/s; of two g6.12xlarge with four GPUs each: 8.75 GB/s
  CHECK(BusBandwidthBound("all_reduce", 16, 2, 400) == doctest::Approx(93.75e9));
  CHECK(BusBandwidthBound("all_gather", 8, 2, 40) == doctest::Approx(8.75e9));
  CHECK(BusBandwidthBound("broadcast", 8, 2, 40) == doctest::Approx(5e9));
  CHECK(BusBandwidthBound("all_reduce", 8, 1, 40) == 0);
  Observations o = GoodNccl(2);
  CHECK(One(Look(o), kPlausibleRule).verdict == Verdict::kPass);
  NcclAt(o, 0).measured.collectives[0].bus_bandwidth_bytes_per_second = 5.1e9;
  const Finding finding = One(Look(o), kPlausibleRule);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.severity == Severity::kRequired);
  o.cluster = {};
  CHECK(One(Look(o), kPlausibleRule).verdict == Verdict::kNotApplicable);
}

TEST_CASE("nccl-bandwidth: the control over sockets") {
  Observations o = GoodNccl(2);
  CHECK(OfRule(Look(o), kControlRule).empty());
  for (int rank = 0; rank < 2; ++rank) {
    auto control = NcclRankAt(o, rank).nccl_collectives.front();
    control.step = "nccl-over-tcp";
    control.seen.value().settings = {{"NCCL_NET", "Socket", "dlc-probe"}};
    for (CollectiveMeasurement& row : control.seen.value().measured.collectives) {
      row.bus_bandwidth_bytes_per_second = 1.5e9;
    }
    NcclRankAt(o, rank).nccl_collectives.push_back(control);
  }
  const Finding finding = One(Look(o), kControlRule);
  CHECK(finding.verdict == Verdict::kPass);
  CHECK(Has(finding.notes[0], "2.00 times"));
  // The control is no run of the job's: the limit is not held against it.
  CHECK(Limit(o, Wants(3e9)).verdict == Verdict::kPass);
  ChangeNccl(o, [](NcclExperiment& nccl, int) {
    for (CollectiveMeasurement& row : nccl.measured.collectives) {
      row.bus_bandwidth_bytes_per_second = 1.5e9;
    }
  });
  CHECK(One(Look(o), kControlRule).verdict == Verdict::kFail);
  CHECK(One(Look(o), kControlRule).severity == Severity::kWarn);
}

Observations Imported(const std::string& name) {
  std::ifstream file(std::string(DLC_TESTDATA "/nccl/nccl_tests/") + name);
  std::stringstream text;
  text << file.rdbuf();
  REQUIRE_FALSE(text.str().empty());
  Observations o;
  o.nccl_ranks = NotLookedAt{"imported output is judged", ""};
  o.nccl_tests = NcclTestsFile{name, Digest{"ab"}, ReadNcclTests(text.str())};
  return o;
}

TEST_CASE("nccl-bandwidth: imported output of nccl-tests") {
  Policy p = Wants(7.5e9);
  CHECK(One(Look(Imported("two_hosts.txt"), p), kValid).verdict == Verdict::kPass);
  CHECK(Limit(Imported("two_hosts.txt"), p).verdict == Verdict::kPass);
  CHECK(Limit(Imported("two_hosts.txt"), Wants(7.6e9)).verdict == Verdict::kFail);
  CHECK(Limit(Imported("two_hosts.txt"), Wants(0, 0.5)).verdict == Verdict::kUnknown);
  for (const char* bad :
       {"two_tables.txt", "not_finished.txt", "one_host.txt", "wrong.txt", "not_compared.txt"}) {
    CAPTURE(bad);
    const Finding valid = One(Look(Imported(bad), p), kValid);
    CHECK(valid.verdict == Verdict::kFail);
    CHECK_FALSE(valid.reason.message.empty());
    // A number of an invalid measurement is not reported, let alone passed.
    CHECK(Limit(Imported(bad), p).verdict == Verdict::kUnknown);
  }
  SUBCASE("another collective than the limit's") {
    p.nccl.min_bus_bandwidth[0].collective = "broadcast";
    const auto findings = Look(Imported("two_hosts.txt"), p);
    CHECK(std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
      return finding.subject.name.starts_with("broadcast") && finding.verdict == Verdict::kUnknown;
    }));
  }
}

}  // namespace
}  // namespace dlc
