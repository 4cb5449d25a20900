#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "kernels/training/cpu_backend.h"
#include "probes/node/fabric/fabric_communicator.h"
#include "probes/node/fabric/node_facts.h"
#include "probes/node/fsdp/communicator_collectives.h"
#include "probes/node/fsdp/run_training.h"
#include "tests/fabric/forked_ranks.h"
#include "tests/kernels/forwarding_backend.h"

// Memory that runs out although it was there when it was asked for: another process took it, or a
// library needs more than is known of it.
namespace dlc {
namespace {

constexpr int kNoMemory = 2;  // cudaErrorMemoryAllocation

/// The exchange of these tests tells nobody that a rank has gone: who is in a collective with it
/// waits for its own deadline.
constexpr std::chrono::seconds kPatienceOfOthers{10};

DeviceStatus OutOfMemory(const std::string& call) {
  return {kNoMemory, "cudaErrorMemoryAllocation", "out of memory", call};
}

/// Where a backend finds that there is no more.
struct Shortage {
  int allocation = 0;    ///< the n-th; 0: none
  bool prepare = false;  ///< the activations
  int forward = 0;       ///< the n-th layer of all steps; 0: none
};

class ShortOfMemory : public ForwardingBackend {
 public:
  explicit ShortOfMemory(const Shortage& shortage)
      : ForwardingBackend(OpenCpuTrainingBackend()), shortage_(shortage) {}

  DeviceStatus Allocate(std::uint64_t bytes, void** memory) override {
    return ++allocations_ == shortage_.allocation
               ? OutOfMemory("cudaMalloc of " + std::to_string(bytes) + " bytes")
               : ForwardingBackend::Allocate(bytes, memory);
  }
  DeviceStatus PrepareModel(const TrainingShape& shape) override {
    return shortage_.prepare ? OutOfMemory("cudaMalloc of activations")
                             : ForwardingBackend::PrepareModel(shape);
  }
  DeviceStatus ForwardLayer(int layer, const void* unit) override {
    return ++forwards_ == shortage_.forward ? OutOfMemory("cublasLtMatmul")
                                            : ForwardingBackend::ForwardLayer(layer, unit);
  }

 private:
  Shortage shortage_;
  int allocations_ = 0;
  int forwards_ = 0;
};

FsdpTrainingExperiment TrainShort(Exchange& exchange, const Shortage& shortage) {
  FsdpTrainingParameters parameters;
  parameters.model.name = "qwen2-tiny";
  parameters.rows = 1;
  parameters.sequence = 9;
  parameters.micro_batches = 1;
  parameters.steps = 3;
  parameters.reference = "no";
  FsdpTrainingExperiment seen;
  const Deadline deadline = Deadline::After(kPatienceOfOthers);
  const auto opened = FabricCommunicator::Open(ChooseFabric(""), exchange, deadline, {});
  if (!opened) {
    seen.stopped_by = opened.error();
    return seen;
  }
  CommunicatorCollectives collectives(**opened, [] { return std::int64_t{0}; });
  ShortOfMemory backend(exchange.rank() == 1 ? shortage : Shortage{});
  const TrainingRanks ranks{backend, collectives, exchange, "here", [](const std::string&) {}};
  RunTraining(parameters, TrainingFault::kNone, DataType::kFloat32, ranks, deadline, seen);
  return seen;
}

/// Both ranks of two; rank 1's own error holds `named`, and `steps` of its steps stand.
std::string ShortageTrouble(const Shortage& shortage, const std::string& named, std::size_t steps) {
  return Trouble(RunRanks(2, [&](Exchange& exchange) -> std::string {
    const FsdpTrainingExperiment seen = TrainShort(exchange, shortage);
    if (!seen.stopped_by) {
      return "nothing stopped it";
    }
    if (seen.runs.size() != 1 || seen.runs[0].reference.seen() || !seen.runs[0].own.empty()) {
      return "something was compared";
    }
    if (exchange.rank() == 0) {
      return "";  // that it ended, and with an error, is enough
    }
    const std::string& message = seen.stopped_by->message;
    if (message.find(named) == std::string::npos ||
        message.find("cudaErrorMemoryAllocation") == std::string::npos ||
        seen.stopped_by->hint != "free memory, or train a smaller model") {
      return message;
    }
    return seen.runs[0].steps.size() == steps ? "" : "the steps before it are lost";
  }));
}

TEST_CASE("memory that runs out is an error of that rank, stops all, and what was before stands") {
  CHECK(ShortageTrouble({1, false, 0}, "cudaMalloc of ", 0) == "");
  CHECK(ShortageTrouble({5, false, 0}, "cudaMalloc of ", 0) == "");
  CHECK(ShortageTrouble({0, true, 0}, "cudaMalloc of activations", 0) == "");
  // Three layers a step.
  CHECK(ShortageTrouble({0, false, 8}, "(step 3)", 2) == "");
}

TEST_CASE("with enough of it the same ranks train") {
  CHECK(Trouble(RunRanks(2, [](Exchange& exchange) -> std::string {
          const FsdpTrainingExperiment seen = TrainShort(exchange, {});
          return seen.stopped_by ? seen.stopped_by->message
                                 : std::string(seen.runs[0].steps.size() == 3 ? "" : "no steps");
        })) == "");
}

}  // namespace
}  // namespace dlc
