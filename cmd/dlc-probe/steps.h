#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "probes/node/exchange.h"
#include "probes/node/process/experiment.h"
#include "probes/observations/deadline.h"
#include "probes/observations/plan.h"
#include "probes/observations/ranks.h"

namespace dlc {

/// What a step's function has to work with, in the step's own process.
struct StepContext {
  const RankPlan& plan;
  const PlanStep& step;
  const RankFacts& me;
  Exchange* exchange = nullptr;  ///< nullptr for kinds that are not collective
  Deadline deadline;             ///< of the step; its process is killed a second after it
  const Progress& progress;
  const std::string& address;           ///< of rank 0, as the others know it
  const PlantedFault* fault = nullptr;  ///< nullptr: none; the process-level ones are done already
};

/// To add a kind of step: its struct and field table in probes/observations/, one function, one row
/// in steps.cpp.
struct StepKind {
  std::string_view name;
  /// Its processes meet first, in a group of their own.
  bool collective;
  /// The result is FactsToJson of the kind's struct.
  Result<std::string> (*run)(const StepContext& context);
  /// Puts what came of it into the kind's list.
  void (*adopt)(const std::string& step, ExperimentReport report, RankObservations& into);
  /// Whether the step's parameters can be read; names what cannot.
  Result<void> (*check)(const std::string& parameters);
  /// The path that the step works at and may make a run directory in, or "".
  std::string (*scratch_path)(const std::string& parameters);
};

std::span<const StepKind> StepKinds();
/// nullptr: this dlc-probe has none of that name.
const StepKind* FindStepKind(std::string_view name);

}  // namespace dlc
