#include <doctest/doctest.h>

#include <string>

#include "checks/check.h"

namespace dlc {
namespace {

std::vector<Finding> Judge1(const Observations& o, const Policy& p) {
  return FindCheck("coverage")->judge(o, p);
}

TEST_CASE("coverage: every stage of this version has checks") {
  Observations o;
  for (int i = 0; i < kStageCount; ++i) {
    o.run.stages.push_back(static_cast<Stage>(i));
  }
  for (const Finding& finding : Judge1(o, {})) {
    CHECK(finding.verdict == Verdict::kPass);
  }
}

TEST_CASE("coverage: a stage without checks is unknown, never a pass") {
  Observations o;
  o.run.stages = {static_cast<Stage>(kStageCount)};  // of a version to come
  const auto findings = Judge1(o, {});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].verdict == Verdict::kUnknown);
  CHECK(findings[0].reason.code == "unsupported");
  CHECK(Aggregate(findings, false) == Outcome::kIncomplete);
}

TEST_CASE("coverage: a stage that the policy wants and a flag left out is unknown") {
  Observations o;
  o.run.stages = {};
  Policy p;
  p.stages = {Stage::kNccl};
  const auto findings = Judge1(o, p);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].verdict == Verdict::kUnknown);
  CHECK(findings[0].reason.code == "not-selected");
}

/// A stage whose ranks ran, without and with a planted fault.
Observations WithRanks(const std::vector<PlantedFault>& faults) {
  Observations o;
  o.checkpoint_ranks = RankRun{1, "local", faults, {}};
  return o;
}

TEST_CASE("coverage: planted faults are told, and no policy makes such a run pass") {
  const auto findings = Judge1(WithRanks({{2, "fabric-pairs", "exit", ""}}), {});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].rule == "coverage/no-planted-faults");
  CHECK(findings[0].verdict == Verdict::kUnknown);
  CHECK(findings[0].reason.message ==
        "this run judges the tool, not the cluster: planted exit in rank 2, fabric-pairs");
  Policy p;
  p.severity["coverage"] = Severity::kOff;
  p.severity["coverage/no-planted-faults"] = Severity::kOff;
  auto still = Judge1(WithRanks({{2, "", "exit", ""}}), p);
  REQUIRE(still.size() == 1);
  CHECK(still[0].severity == Severity::kRequired);
  Finding good;
  good.check = "storage-shared";
  good.verdict = Verdict::kPass;
  still.push_back(good);
  CHECK(Aggregate(still, false) == Outcome::kIncomplete);
}

TEST_CASE("coverage: a rank's own word on planted faults counts too") {
  Observations o = WithRanks({});
  RankObservations seen;
  seen.planted_faults = {{0, "meet", "crash", ""}};
  o.checkpoint_ranks.value().ranks = {{0, seen}};
  CHECK(Judge1(o, {}).at(0).verdict == Verdict::kUnknown);
}

TEST_CASE("coverage: ranks without planted faults pass, and without ranks nothing is said") {
  const auto findings = Judge1(WithRanks({}), {});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].verdict == Verdict::kPass);
  CHECK(Aggregate(findings, false) == Outcome::kIncomplete);
  CHECK(Judge1({}, {}).empty());
}

}  // namespace
}  // namespace dlc
