#pragma once

#include <string>
#include <string_view>

#include "probes/observations/plan.h"
#include "probes/observations/ranks.h"
#include "probes/observations/result.h"

namespace dlc {

/// apiVersion of what dlc-probe writes and of what it reads; a reader refuses any other.
inline constexpr std::string_view kRankObservationsApiVersion = "dlc-check/rank-observations/v1";
inline constexpr std::string_view kRankPlanApiVersion = "dlc-check/rank-plan/v1";

/// One line each. Readers are strict, as ParseObservations is; writers turn invalid UTF-8 into
/// U+FFFD.
std::string RankRunToJson(const RankRun& run);
Result<RankRun> ParseRankRun(std::string_view json);
std::string RankPlanToJson(const RankPlan& plan);
/// Also refuses what no run could do: no steps, a step without deadline, two of one name, a run id
/// that is not 16 hex digits. Does not know which kinds of steps and parameters there are.
Result<RankPlan> ParseRankPlan(std::string_view json);
std::string RankEventToJson(const RankEvent& event);
Result<RankEvent> ParseRankEvent(std::string_view json);

/// A struct that has a table in ranks_fields.h, as one line of JSON and back. Instantiated in
/// ranks_json.cpp for the results and parameters of every kind of step.
template <class T>
std::string FactsToJson(const T& facts);
template <class T>
Result<T> ParseFacts(std::string_view json);

}  // namespace dlc
