#include <doctest/doctest.h>

#include <string>

#include "checks/check.h"

namespace dlc {
namespace {

std::vector<Finding> Judge1(const Observations& o, const Policy& p) {
  return FindCheck("coverage")->judge(o, p);
}

TEST_CASE("coverage: a stage without checks is unknown, never a pass") {
  Observations o;
  o.run.stages = {Stage::kFsdp};
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

}  // namespace
}  // namespace dlc
