#include "probes/node/fsdp/observe_training.h"

#include <memory>
#include <utility>

#include "kernels/training/cpu_backend.h"
#include "probes/node/fabric/fabric_communicator.h"
#include "probes/node/fabric/node_facts.h"
#include "probes/node/fsdp/communicator_collectives.h"
#include "probes/node/fsdp/run_training.h"

namespace dlc {

Result<FsdpTrainingExperiment> ObserveFsdpTrainingOnCpu(
    const FsdpTrainingParameters& parameters, TrainingFault fault, const std::string& machine,
    Exchange& exchange, Deadline deadline, const std::function<void(const std::string&)>& say) {
  FsdpTrainingExperiment seen;
  seen.backend = "cpu";
  say("opening the fabric");
  // Always a ring: what it sends can be told beforehand.
  FabricTuning tuning;
  tuning.direct_all_reduce = 0;
  auto opened =
      FabricCommunicator::Open(ChooseFabric(parameters.provider), exchange, deadline, tuning);
  if (!opened) {
    return std::move(opened).error();
  }
  FabricCommunicator& communicator = **opened;
  if (exchange.size() > 1) {
    const auto rank = static_cast<std::size_t>(exchange.rank());
    seen.transport = "libfabric " + communicator.Transport().Ranks()[rank].provider.name;
  }
  CommunicatorCollectives collectives(communicator,
                                      [&] { return communicator.Transport().SentBytes(); });
  const auto backend = OpenCpuTrainingBackend();
  const TrainingRanks ranks{*backend, collectives, exchange, machine, say};
  RunTraining(parameters, fault, DataType::kFloat32, ranks, deadline, seen);
  if (!seen.stopped_by) {
    // A closed endpoint takes no more part in deliveries to slower ranks. A rank that is lost now
    // costs nothing that was seen.
    if (const auto met = exchange.Barrier(deadline); !met) {
      say(met.error().message);
    }
  }
  return seen;
}

}  // namespace dlc
