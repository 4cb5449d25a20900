#include <algorithm>
#include <string>

#include "checks/check.h"

namespace dlc {

extern const Check kCoverage;  // the table in check_list.cpp finds it by this name

namespace {

constexpr Rule kRules[] = {
    {"coverage/stage-has-checks", Severity::kRequired, false,
     "every selected stage has checks in this version",
     "this version has at least one check for the stage",
     "that the stage's checks passed, nor that they see all that can go wrong",
     "select the stages that this version covers (--only, or `stages:` in the policy), or use a "
     "version that covers more"},
    {"coverage/policy-stages-selected", Severity::kRequired, false,
     "every stage that the policy asks for was selected",
     "no stage of the policy was left out by a flag", "that the stage's checks passed",
     "run without --only, or take the stage out of the policy's `stages:`"},
};

std::int64_t CountChecks(Stage stage) {
  const auto all = AllChecks();
  return std::count_if(all.begin(), all.end(), [&](const Check* check) {
    return !check->cross_cutting && check->stage == stage;
  });
}

std::vector<Finding> JudgeCoverage(const Observations& observations, const Policy& policy) {
  Judge judge(kCoverage, policy);
  const auto& selected = observations.run.stages;
  for (const Stage stage : selected) {
    const std::int64_t count = CountChecks(stage);
    const Subject subject{"stage", StageName(stage)};
    if (count == 0) {
      judge.Unknown(
          kRules[0].id, subject,
          {"unsupported", "this version has no check for the stage, so nothing was looked at", ""});
    } else {
      judge.Decide(kRules[0].id, subject,
                   {{"checks of the stage", Op::kGe, std::int64_t{1}, count, "", "constant"}});
    }
  }
  for (const Stage stage : policy.stages) {
    if (std::find(selected.begin(), selected.end(), stage) == selected.end()) {
      judge.Unknown(kRules[1].id, {"stage", StageName(stage)},
                    {"not-selected", "the policy asks for this stage and it was not selected", ""});
    }
  }
  return judge.Take();
}

}  // namespace

constinit const Check kCoverage{
    "coverage",
    Stage::kImage,
    true,
    "what was asked for was looked at",
    "stages selected by flags and policy against the checks of this version",
    kRules,
    JudgeCoverage,
};

}  // namespace dlc
