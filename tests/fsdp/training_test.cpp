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
    const bool nothing = one.what == "padding" && one.elements == 0;  // not every rank has some
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

/// Trouble of one rank with all its runs, and bytes against the formula.
std::string TrainingTrouble(Exchange& exchange, const FsdpTrainingParameters& parameters) {
  const auto seen = TrainOn(exchange, parameters);
  if (!seen) {
    return seen.error().message;
  }
  if (seen->stopped_by) {
    return seen->stopped_by->message;
  }
  std::string trouble = seen->runs.size() == 2 ? "" : "runs are missing; ";
  for (const FsdpTrainingRun& run : seen->runs) {
    trouble += RunTrouble(run);
    const auto all =
        exchange.AllGather(std::to_string(run.steps.front().sent_bytes) + " " +
                               std::to_string(run.own.front().elements) + " " + run.hash,
                           TrainedBy());
    if (!all) {
      return all.error().message;
    }
    std::int64_t sent = 0;
    std::int64_t padding = 0;
    for (const std::string& one : *all) {
      std::size_t end = 0;
      sent += std::stoll(one, &end);
      padding += std::stoll(one.substr(end));
      trouble += one.substr(one.rfind(' ') + 1) == run.hash ? "" : "hashes differ; ";
    }
    // In each of parameters, gradients and both moments.
    trouble += padding == 4 * run.padding ? "" : "not all padding was looked at; ";
    if (sent != run.expected_bytes) {
      trouble += run.name + " sent " + std::to_string(sent) + " bytes, expected " +
                 std::to_string(run.expected_bytes);
    }
  }
  return trouble;
}

TEST_CASE("training over shards is the unsharded model's, over any number of ranks") {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    CAPTURE(ranks);
    const auto outcomes = RunRanks(
        ranks, [](Exchange& exchange) { return TrainingTrouble(exchange, TinyTraining()); });
    CHECK(Trouble(outcomes) == "");
  }
}

TEST_CASE("bfloat16, micro-batches and an untied head are no different") {
  for (const int kind : {1, 2, 3}) {
    CAPTURE(kind);
    const auto outcomes = RunRanks(3, [kind](Exchange& exchange) {
      FsdpTrainingParameters parameters = TinyTraining();
      parameters.compute = kind == 2 ? "float32" : "bfloat16";
      parameters.gradients = kind == 1 ? "float32" : "bfloat16";
      parameters.micro_batches = kind;
      parameters.model = {"untied", 60, 2, 6, 2, 10, 148, 509, 10000, 1e-6, false};
      return TrainingTrouble(exchange, parameters);
    });
    CHECK(Trouble(outcomes) == "");
  }
}

/// The shards of one rank as units are laid out: nothing is copied, and one layer takes turns with
/// nobody.
TEST_CASE("one rank with sizes that need no filling uses its shards as they are") {
  for (const int batches : {1, 2}) {
    const auto outcomes = RunRanks(1, [batches](Exchange& exchange) -> std::string {
      FsdpTrainingParameters parameters = TinyTraining();
      parameters.micro_batches = batches;
      parameters.model = {"even", 64, 1, 4, 2, 16, 96, 256, 10000, 1e-6, true};
      const auto seen = TrainOn(exchange, parameters);
      if (!seen || seen->stopped_by) {
        return "it did not run";
      }
      std::string trouble;
      for (const FsdpTrainingRun& run : seen->runs) {
        trouble += RunTrouble(run);
        for (const FsdpComparison& one : run.reference.value()) {
          trouble += one.different == 0 || one.what == "gradient-norms" ? "" : one.what + " differ";
        }
      }
      return trouble;
    });
    CHECK(Trouble(outcomes) == "");
  }
}

/// What whole numbers show of a fault that rank 1 of three does: "explanation; comparisons".
std::string SeenOfFault(const FsdpTrainingRun& run) {
  std::string text = run.explanation;
  for (const FsdpComparison& one : run.own) {
    text += one.different > 0 ? "; " + one.what : "";
  }
  if (!run.reference.seen()) {
    return text + "; no reference";
  }
  for (const FsdpComparison& one : run.reference.value()) {
    text += one.different > 0 ? "; " + one.what : "";
  }
  return text;
}

TEST_CASE("each planted fault is found by whole numbers, at its rank, and named") {
  struct Planted {
    const char* fault;
    const char* at_faulty;  ///< what the rank itself shows
    const char* at_others;
  };
  const Planted all[] = {
      {"wrong-average", "wrong-average: ", ""},
      {"skipped-shard", "skipped-shard: ", ""},
      {"padding-leak", "; padding", "; padding"},
      {"stale-gather", "; gathered", ""},
      {"dropped-micro-batch", "dropped-micro-batch: of rank 1 ", "dropped-micro-batch: of rank 1 "},
  };
  for (const Planted& planted : all) {
    CAPTURE(planted.fault);
    const auto outcomes = RunRanks(3, [&](Exchange& exchange) -> std::string {
      const auto* kind = std::find_if(kTrainingFaults.begin(), kTrainingFaults.end(),
                                      [&](const auto& one) { return one.first == planted.fault; });
      const bool mine = exchange.rank() == 1;
      const auto seen =
          TrainOn(exchange, TinyTraining(), mine ? kind->second : TrainingFault::kNone);
      if (!seen || seen->stopped_by) {
        return "it did not run";
      }
      const std::string text = SeenOfFault(seen->runs[0]);
      const bool no_padding = seen->runs[0].own.front().elements == 0;
      const std::string wanted = mine ? planted.at_faulty : planted.at_others;
      if (no_padding && wanted == "; padding") {
        return text;
      }
      return wanted.empty() == text.empty() && text.find(wanted) != std::string::npos
                 ? ""
                 : "found '" + text + "'";
    });
    CHECK(Trouble(outcomes) == "");
  }
}

TEST_CASE(
    "a flipped bit of one rank's gradient is found where the element lives, and nowhere else") {
  const auto outcomes = RunRanks(3, [](Exchange& exchange) -> std::string {
    const bool mine = exchange.rank() == 2;
    const auto seen =
        TrainOn(exchange, TinyTraining(), mine ? TrainingFault::kFlippedBit : TrainingFault::kNone);
    if (!seen || seen->stopped_by) {
      return "it did not run";
    }
    const std::string text = SeenOfFault(seen->runs[0]);
    const bool found =
        text.find("flipped-bit: one element of model.layers.0.self_attn.q_proj.weight") == 0;
    return found == (exchange.rank() == 0) && (found || text.empty()) ? "" : text;
  });
  CHECK(Trouble(outcomes) == "");
}

TEST_CASE("the unsharded model finds faults in training itself") {
  for (const auto& [name, fault] : kTrainingFaults) {
    if (fault == TrainingFault::kFlippedBit) {
      continue;  // one bit of one element may be within what rounding does
    }
    const std::string kind(name);
    CAPTURE(kind);
    const auto outcomes = RunRanks(2, [fault = fault](Exchange& exchange) -> std::string {
      const auto seen =
          TrainOn(exchange, TinyTraining(), exchange.rank() == 1 ? fault : TrainingFault::kNone);
      if (!seen || seen->stopped_by) {
        return "it did not run";
      }
      const bool good = RunTrouble(seen->runs[1]).empty();
      return exchange.rank() == 1 && good ? "nothing was found" : "";
    });
    CHECK(Trouble(outcomes) == "");
  }
}

TEST_CASE("a model that cannot fit is not tried, and says what would do") {
  const auto outcomes = RunRanks(2, [](Exchange& exchange) -> std::string {
    FsdpTrainingParameters parameters = TinyTraining();
    parameters.exact = false;
    // 60 thousand million parameters in many small layers: a terabyte.
    parameters.model = {"huge", 2048, 1024, 16, 2, 128, 8192, 512, 1e6, 1e-6, true};
    const auto seen = TrainOn(exchange, parameters);
    if (!seen || seen->stopped_by) {
      return "it did not get so far";
    }
    const FsdpTrainingRun& run = seen->runs.front();
    const bool told =
        run.not_looked_at.find("rank 0 needs ") == 0 &&
        run.not_looked_at.find(" free for 2 ranks; would fit with ") != std::string::npos;
    return told && run.steps.empty() && run.taken_bytes == 0 ? "" : run.not_looked_at + "!";
  });
  CHECK(Trouble(outcomes) == "");
}

TEST_CASE("plans that cannot be trained are named") {
  const auto message = [](const FsdpTrainingParameters& parameters) {
    const auto good = CheckFsdpTraining(parameters);
    return good ? std::string() : good.error().message;
  };
  FsdpTrainingParameters parameters = TinyTraining();
  CHECK(message(parameters).empty());
  parameters.model.name = "gpt";
  CHECK(message(parameters) == "$.model.name: there is no model 'gpt'");
  parameters = TinyTraining();
  parameters.model.hidden = 60;
  CHECK(message(parameters) == "$.model.heads: must be from 1 to 16777216, not 0");
  parameters = TinyTraining();
  parameters.steps = 0;
  CHECK(message(parameters) == "$.microBatches and $.steps: must be from 1 to 1000");
  parameters = TinyTraining();
  parameters.compute = "float16";
  CHECK(message(parameters) == "$.compute: there is no 'float16'");
}

}  // namespace
}  // namespace dlc
