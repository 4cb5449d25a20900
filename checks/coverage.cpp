#include <algorithm>
#include <string>

#include "checks/check.h"
#include "checks/rank_results.h"
#include "checks/wording.h"

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
    {"coverage/no-planted-faults", Severity::kRequired, false, "no fault was planted in the run",
     "the ranks were not told to fail: what they saw is of the cluster",
     "that the cluster has no faults of its own",
     "take target.plantedFaults out of the config to judge the cluster", true},
};

std::int64_t CountChecks(Stage stage) {
  const auto all = AllChecks();
  return std::count_if(all.begin(), all.end(), [&](const Check* check) {
    return !check->cross_cutting && check->stage == stage;
  });
}

/// Of a run without ranks there is nothing to say.
void JudgePlantedFaults(const Observations& observations, Judge& judge) {
  bool ranks_ran = false;
  std::vector<std::string> planted;
  for (int i = 0; i < kStageCount; ++i) {
    const auto stage = static_cast<Stage>(i);
    const Observed<RankRun>* ranks = RanksOf(observations, stage);
    if (ranks == nullptr || !ranks->seen()) {
      continue;
    }
    ranks_ran = true;
    for (const PlantedFault& fault : PlantedFaultsOf(ranks->value())) {
      planted.push_back(fault.kind + " in rank " + std::to_string(fault.rank) + ", " +
                        (fault.step.empty() ? std::string(StageName(stage)) : fault.step));
    }
  }
  const Subject subject{"run", "this run"};
  if (!planted.empty()) {
    judge.Unknown(kRules[2].id, subject,
                  {"planted-faults",
                   "this run judges the tool, not the cluster: planted " + NameSome(planted), ""});
  } else if (ranks_ran) {
    judge.Decide(kRules[2].id, subject,
                 {{"planted faults", Op::kSubset, std::vector<std::string>{}, planted, "",
                   "observation:ranks.planted_faults"}});
  }
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
  JudgePlantedFaults(observations, judge);
  return judge.Take();
}

}  // namespace

constinit const Check kCoverage{
    "coverage",
    Stage::kImage,
    true,
    "what was asked for was looked at",
    "stages selected by flags and policy against the checks of this version; faults planted in "
    "ranks",
    kRules,
    JudgeCoverage,
};

}  // namespace dlc
