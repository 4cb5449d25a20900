#include "checks/fsdp_ranks.h"

#include "checks/rank_results.h"
#include "checks/wording.h"

namespace dlc {

bool JudgeWithoutFsdp(const Observations& observations, const Policy& policy, std::string_view rule,
                      std::string_view what, std::string_view asks_none, Judge& judge) {
  const bool no_models = policy.fsdp.measure == "no";
  if (no_models || !asks_none.empty()) {
    judge.NotApplicable(rule, {"run", "ranks"},
                        no_models ? "the policy asks for no sharded models (fsdp.measure: no)"
                                  : std::string(asks_none));
    return true;
  }
  return JudgeWithoutRanks(observations, observations.fsdp_ranks, rule, what,
                           policy.fsdp.measure == "required" ? "" : kNothingDemanded, judge);
}

void FsdpPlanted::Add(const FsdpControlSeen& seen, bool possible, const std::string& told) {
  planted += seen.planted ? 1 : 0;
  if (seen.missed) {
    missed.push_back(told);
  } else if (possible && !seen.planted) {
    absent.push_back(told);
  }
}

Finding* JudgeFsdpPlanted(std::string_view rule, const Subject& subject, const FsdpPlanted& all,
                          const char* source, Judge& judge) {
  if (all.missed.empty() && !all.absent.empty()) {
    judge.Unknown(rule, subject, {"not-looked-at", "not planted: " + NameSome(all.absent), ""});
    return nullptr;
  }
  Finding& finding =
      judge.Decide(rule, subject,
                   {{"planted faults that were not found", Op::kSubset, std::vector<std::string>{},
                     all.missed, "", source},
                    {"faults planted", Op::kGe, std::int64_t{1}, all.planted, "", source}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = "it did not find " + NameSome(all.missed);
  } else if (finding.verdict == Verdict::kPass) {
    finding.expected = "all that is planted is found";
  }
  return &finding;
}

}  // namespace dlc
