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
using testing::NcclRankAt;
using testing::OfRule;
using testing::One;

constexpr const char* kResults = "nccl-collectives/right-results";
constexpr const char* kDone = "nccl-collectives/completes";
constexpr const char* kLibrary = "nccl-collectives/same-library";
constexpr const char* kSettings = "nccl-collectives/same-settings";
constexpr const char* kProblem = "nccl-collectives/known-problem";

std::vector<Finding> Look(const Observations& o, const Policy& p = {}) {
  return FindCheck("nccl-collectives")->judge(o, p);
}

bool Has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

TEST_CASE("nccl-collectives: all that is right passes, for each type") {
  const auto findings = Look(GoodNccl(2));
  for (const char* rule : {kResults, kDone}) {
    const auto some = OfRule(findings, rule);
    REQUIRE(some.size() == 2);
    CHECK(some[0].verdict == Verdict::kPass);
    CHECK(some[1].verdict == Verdict::kPass);
  }
  CHECK(One(findings, kLibrary).verdict == Verdict::kPass);
  CHECK(One(findings, kSettings).verdict == Verdict::kPass);
}

TEST_CASE("nccl-collectives: a wrong element fails and names the ranks") {
  Observations o = GoodNccl(3);
  for (int rank = 0; rank < 3; ++rank) {
    NcclAt(o, rank).measured.collectives[1].wrong = {0, 7, 0};
    NcclAt(o, rank).measured.collectives[1].wrong_from = {0, 0, 7};
  }
  const Finding finding = OfRule(Look(o), kResults).front();
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(
      Has(finding.reason.message, "elements of rank 2 on pod-2 arrived wrong at rank 1 on pod-1"));
  CHECK(Has(finding.reason.message, "all_gather"));
  SUBCASE("also when the run stopped afterwards") {
    NcclAt(o, 0).measured.stopped_by = Error{ErrorCode::kUnavailable, "rank 0: gone", ""};
    CHECK(OfRule(Look(o), kResults).front().verdict == Verdict::kFail);
  }
}

TEST_CASE("nccl-collectives: nothing compared is no pass") {
  Observations o = GoodNccl(2);
  ChangeNccl(o, [](NcclExperiment& nccl, int) {
    for (CollectiveMeasurement& row : nccl.measured.collectives) {
      row.checked_elements = 0;
    }
  });
  CHECK(OfRule(Look(o), kResults).front().verdict == Verdict::kFail);
  ChangeNccl(o, [](NcclExperiment& nccl, int) { nccl.measured.collectives.clear(); });
  CHECK(OfRule(Look(o), kResults).front().verdict == Verdict::kFail);
}

TEST_CASE(
    "nccl-collectives: a collective that does not end fails, one that nobody ran is unknown") {
  Observations o = GoodNccl(2);
  SUBCASE("a hang, told by a rank") {
    for (int rank = 0; rank < 2; ++rank) {
      NcclAt(o, rank).measured.collectives.resize(3);
      NcclAt(o, rank).measured.stopped_by =
          Error{ErrorCode::kTimedOut, "rank 1 did not finish broadcast of 67108864 bytes", ""};
      NcclAt(o, rank).reached = {"timed", "broadcast", 64 << 20, false, 3};
      NcclAt(o, rank).ras = std::string("{}");
    }
    const Finding finding = OfRule(Look(o), kDone).front();
    CHECK(finding.verdict == Verdict::kFail);
    CHECK(Has(finding.reason.message, "rank 1 did not finish broadcast"));
    REQUIRE(finding.notes.size() >= 2);
    CHECK(Has(finding.notes[finding.notes.size() - 2],
              "rank 0 on pod-0, rank 1 on pod-1 reached timed of broadcast, 67108864 bytes, "
              "operation 3"));
    CHECK(Has(finding.notes.back(), "RAS"));
    CHECK(OfRule(Look(o), kResults).front().verdict == Verdict::kUnknown);
  }
  SUBCASE("a process that had to be ended") {
    NcclRankAt(o, 1).nccl_collectives[0].end.how = "timed-out";
    NcclRankAt(o, 1).nccl_collectives[0].seen =
        Error{ErrorCode::kTimedOut, "rank 1: ended after 60 s", ""};
    CHECK(OfRule(Look(o), kDone).front().verdict == Verdict::kFail);
  }
  SUBCASE("a rank that was killed: what it would have done is not known") {
    NcclRankAt(o, 1).nccl_collectives[0].end.how = "killed";
    NcclRankAt(o, 1).nccl_collectives[0].seen =
        Error{ErrorCode::kUnavailable, "rank 1: killed by SIGKILL", ""};
    const Finding finding = OfRule(Look(o), kDone).front();
    CHECK(finding.verdict == Verdict::kUnknown);
    CHECK(Has(finding.reason.message, "rank 1"));
  }
  SUBCASE("a collective that was not asked for") {
    ChangeNccl(o, [](NcclExperiment& nccl, int) { nccl.measured.collectives.resize(3); });
    const Finding finding = OfRule(Look(o), kDone).front();
    CHECK(finding.verdict == Verdict::kUnknown);
    CHECK(Has(finding.reason.message, "broadcast"));
  }
  SUBCASE("a type that was not asked for") {
    for (int rank = 0; rank < 2; ++rank) {
      NcclRankAt(o, rank).nccl_collectives.pop_back();
    }
    const auto some = OfRule(Look(o), kDone);
    REQUIRE(some.size() == 2);
    CHECK(some[1].verdict == Verdict::kUnknown);
    CHECK(Has(some[1].reason.message, "bfloat16"));
  }
}

TEST_CASE("nccl-collectives: one NCCL and one environment on all ranks") {
  Observations o = GoodNccl(3);
  SUBCASE("another version") {
    NcclAt(o, 2).library.library.version = "2.26.5";
    const Finding finding = One(Look(o), kLibrary);
    CHECK(finding.verdict == Verdict::kFail);
    CHECK(Has(finding.reason.message, "rank 2 on pod-2: NCCL 2.26.5"));
  }
  SUBCASE("another file of the same version") {
    NcclAt(o, 1).library.file = Digest{"cd"};
    CHECK(Has(One(Look(o), kLibrary).reason.message, "rank 1 on pod-1"));
  }
  SUBCASE("a file that could not be read") {
    NcclAt(o, 1).library.file = Error{ErrorCode::kPermissionDenied, "no right", ""};
    CHECK(One(Look(o), kLibrary).verdict != Verdict::kPass);
    ChangeNccl(o, [](NcclExperiment& nccl, int) {
      nccl.library.file = Error{ErrorCode::kPermissionDenied, "no right", ""};
    });
    CHECK(One(Look(o), kLibrary).verdict == Verdict::kUnknown);
  }
  SUBCASE("a rank that was not seen") {
    NcclRankAt(o, 1).nccl_collectives[0].seen = Error{ErrorCode::kUnavailable, "killed", ""};
    CHECK(One(Look(o), kLibrary).verdict == Verdict::kUnknown);
    CHECK(One(Look(o), kSettings).verdict == Verdict::kUnknown);
  }
  SUBCASE("another protocol") {
    NcclAt(o, 2).settings.push_back({"NCCL_PROTO", "LL", "environment"});
    const Finding finding = One(Look(o), kSettings);
    CHECK(finding.verdict == Verdict::kFail);
    CHECK(Has(finding.reason.message, "rank 2 on pod-2: FI_PROVIDER=efa NCCL_PROTO=LL"));
  }
  SUBCASE("another host id is no difference") {
    NcclAt(o, 2).settings.push_back({"NCCL_HOSTID", "x", "environment"});
    CHECK(One(Look(o), kSettings).verdict == Verdict::kPass);
  }
}

TEST_CASE("nccl-collectives: a release with a known hang is told even where it did not hang") {
  Observations o = GoodNccl(2);
  ChangeNccl(o, [](NcclExperiment& nccl, int) { nccl.log.value().plugin_version = "1.18.0"; });
  const Finding finding = One(Look(o), kProblem);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.severity == Severity::kWarn);
  CHECK(Has(finding.reason.message, "broadcast"));
  ChangeNccl(o, [](NcclExperiment& nccl, int) { nccl.log.value().plugin_version = "1.18.1"; });
  CHECK(One(Look(o), kProblem).verdict == Verdict::kPass);
}

TEST_CASE("nccl-collectives: the policy may ask for none, or demand that they ran") {
  Observations none;
  none.nccl_ranks = NotLookedAt{"the config has no target", ""};
  CHECK(One(Look(none), kResults).verdict == Verdict::kNotApplicable);
  Policy p;
  p.nccl.measure = "required";
  CHECK(One(Look(none, p), kResults).verdict == Verdict::kUnknown);
  p.nccl.measure = "no";
  CHECK(One(Look(GoodNccl(2), p), kResults).verdict == Verdict::kNotApplicable);
  p.nccl.measure = "with-ranks";
  p.gpu.devices = "no";
  CHECK(One(Look(GoodNccl(2), p), kResults).verdict == Verdict::kNotApplicable);
  p.nccl.measure = "required";
  CHECK(OfRule(Look(GoodNccl(2), p), kResults).size() == 2);
}

TEST_CASE("nccl-collectives: a run with planted faults says so in every finding") {
  Observations o = GoodNccl(2);
  o.nccl_ranks.value().planted_faults = {{1, "nccl-float32", "flip-bit", ""}};
  const auto findings = Look(o);
  REQUIRE_FALSE(findings.empty());
  for (const Finding& finding : findings) {
    REQUIRE_FALSE(finding.notes.empty());
    CHECK(Has(finding.notes.back(), "planted"));
  }
}

}  // namespace
}  // namespace dlc
