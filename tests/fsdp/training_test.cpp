#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "probes/node/fsdp/observe_training.h"
#include "probes/node/fsdp/training_parameters.h"
#include "tests/fabric/forked_ranks.h"

namespace dlc {
namespace {

Deadline TrainedBy() {
  return Deadline::After(std::chrono::seconds(100));
}

FsdpTrainingParameters TinyTraining() {
  FsdpTrainingParameters parameters;
  parameters.backend = "cpu";
  parameters.model.name = "qwen2-tiny";
  parameters.rows = 2;
  parameters.sequence = 13;
  parameters.micro_batches = 1;
  parameters.steps = 3;
  parameters.seed = 5;
  parameters.exact = true;
  parameters.reference = "auto";
  parameters.predict = {"qwen2.5-1.5b"};
  return parameters;
}

Result<FsdpTrainingExperiment> TrainOn(Exchange& exchange, const FsdpTrainingParameters& parameters,
                                       TrainingFault fault = TrainingFault::kNone) {
  return ObserveFsdpTrainingOnCpu(parameters, fault, "here", exchange, TrainedBy(),
                                  [](const std::string&) {});
}

std::string ComparisonTrouble(const std::string& run, const FsdpComparison& one) {
  if (one.elements > 0 && one.not_finite == 0 && one.error <= one.bound) {
    return "";
  }
  return run + " " + one.what + ": error " + std::to_string(one.error) + " of bound " +
         std::to_string(one.bound) + " at " + one.worst + ", " + std::to_string(one.different) +
         " of " + std::to_string(one.elements) + " differ; ";
}

/// All that is not as it should be on one rank.
std::string RunTrouble(const FsdpTrainingRun& run) {
  std::string trouble;
  if (!run.not_looked_at.empty()) {
    return run.not_looked_at;
  }
  for (const FsdpComparison& one : run.own) {
    const bool nothing = one.what == "padding" && run.padding == 0;
    trouble += nothing ? "" : ComparisonTrouble(run.name, one);
  }
  if (!run.reference.seen()) {
    return trouble + "no reference";
  }
  for (const FsdpComparison& one : run.reference.value()) {
    trouble += ComparisonTrouble(run.name, one);
  }
  for (const FsdpTrainingStep& step : run.steps) {
    trouble += step.finite ? "" : "not finite; ";
  }
  for (const FsdpControl& control : run.controls) {
    const bool possible = run.ranks > 1 || control.name != "wrong-average";
    trouble += control.planted == possible && control.caught == possible ? "" : control.name;
  }
  return trouble;
}

TEST_CASE("show errors" * doctest::skip()) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    const auto outcomes = RunRanks(ranks, [](Exchange& exchange) -> std::string {
      const auto seen = TrainOn(exchange, TinyTraining());
      if (!seen) {
        return seen.error().message;
      }
      if (seen->stopped_by) {
        return seen->stopped_by->message;
      }
      std::string text;
      for (const auto& run : seen->runs) {
        text += "\n" + run.name + " hash " + run.hash;
        for (const auto& step : run.steps) {
          text += "\n  loss " + std::to_string(step.loss) + " norm " +
                  std::to_string(step.gradient_norm) + " s " + std::to_string(step.seconds) +
                  " exp " + std::to_string(step.exposed_seconds) + " opt " +
                  std::to_string(step.optimizer_seconds) + " sent " +
                  std::to_string(step.sent_bytes) + " of all " + std::to_string(run.expected_bytes);
        }
        text += "\n needed " + std::to_string(run.needed_bytes) + " taken " +
                std::to_string(run.taken_bytes);
        for (const auto& list : {run.own, run.reference.seen() ? run.reference.value() : run.own}) {
          for (const auto& one : list) {
            char line[300];
            snprintf(line, sizeof line, "\n   %s e=%.3g b=%.3g at %s diff %ld of %ld", one.what.c_str(), one.error,
                     one.bound, one.worst.c_str(), one.different, one.elements);
            text += line;
          }
        }
        text += RunTrouble(run);
      }
      return text;
    });
    MESSAGE(ranks << " ranks: " << outcomes[static_cast<std::size_t>(ranks) - 1].text);
  }
}

}  // namespace
}  // namespace dlc
