#include "probes/node/resume/train_steps.h"

#include <doctest/doctest.h>

#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include "kernels/training/cpu_backend.h"
#include "probes/node/fabric/fabric_communicator.h"
#include "probes/node/fabric/node_facts.h"
#include "probes/node/fsdp/communicator_collectives.h"
#include "tests/fabric/forked_ranks.h"

namespace dlc {
namespace {

/// Three steps of two ranks at this learning rate: what stopped them, or "".
std::string Stopped(Exchange& exchange, float rate, std::vector<double>& losses) {
  const Deadline deadline = Deadline::After(std::chrono::seconds(30));
  const auto opened = FabricCommunicator::Open(ChooseFabric(""), exchange, deadline, {});
  if (!opened) {
    return opened.error().message;
  }
  CommunicatorCollectives collectives(**opened, [] { return std::int64_t{0}; });
  const auto backend = OpenCpuTrainingBackend();
  const TrainingRanks ranks{*backend, collectives, exchange, "here", [](const std::string&) {}};
  TrainingOptions options;
  options.shape.model = {4, 1, 2, 1, 2, 6, 7, 10000, 1e-6, false};
  options.shape.rows = 1;
  options.shape.sequence = 5;
  options.steps = 3;
  options.adam.rate = rate;
  auto model = OpenForTraining(ranks, options, deadline);
  if (!model) {
    return model.error().message;
  }
  const auto done = TrainSteps(ranks, **model, 3, deadline, losses);
  return done ? "" : done.error().message;
}

TEST_CASE("train steps: a loss of each") {
  CHECK(Trouble(RunRanks(2, [](Exchange& exchange) -> std::string {
          std::vector<double> losses;
          const std::string stopped = Stopped(exchange, 1e-3F, losses);
          return stopped.empty() && losses.size() != 3 ? "no losses" : stopped;
        })) == "");
}

TEST_CASE("train steps: a loss that is not finite stops them, and those before it stand") {
  CHECK(Trouble(RunRanks(2, [](Exchange& exchange) -> std::string {
          std::vector<double> losses;
          const std::string stopped =
              Stopped(exchange, std::numeric_limits<float>::quiet_NaN(), losses);
          if (stopped.find("the loss of step 2 of 3 is not finite, or") == std::string::npos) {
            return "not told: " + stopped;
          }
          return losses.size() == 1 ? "" : "the step before it is lost";
        })) == "");
}

}  // namespace
}  // namespace dlc
