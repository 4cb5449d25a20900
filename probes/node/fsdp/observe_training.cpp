#include "probes/node/fsdp/observe_training.h"

#include <memory>
#include <utility>

#include "kernels/training/cpu_backend.h"
#include "probes/node/fabric/fabric_communicator.h"
#include "probes/node/fabric/node_facts.h"
#include "probes/node/fsdp/communicator_collectives.h"
#include "probes/node/fsdp/run_training.h"

namespace dlc {

Result<void> TrainOnCpu(const TrainingSide& side, Exchange& exchange, Deadline deadline,
                        const TrainingBody& body) {
  side.say("opening the fabric");
  // Always a ring: what it sends can be told beforehand.
  FabricTuning tuning;
  tuning.direct_all_reduce = 0;
  auto opened = FabricCommunicator::Open(ChooseFabric(side.provider), exchange, deadline, tuning);
  if (!opened) {
    return std::move(opened).error();
  }
  FabricCommunicator& communicator = **opened;
  TrainingPlace place{"cpu", "", ""};
  if (exchange.size() > 1) {
    const auto rank = static_cast<std::size_t>(exchange.rank());
    place.transport = "libfabric " + communicator.Transport().Ranks()[rank].provider.name;
  }
  CommunicatorCollectives collectives(communicator,
                                      [&] { return communicator.Transport().SentBytes(); });
  const auto backend = OpenCpuTrainingBackend();
  const TrainingRanks ranks{*backend, collectives, exchange, side.machine, side.say};
  if (body(place, ranks)) {
    // A closed endpoint takes no more part in deliveries to slower ranks. A rank that is lost now
    // costs nothing that was seen.
    if (const auto met = exchange.Barrier(deadline); !met) {
      side.say(met.error().message);
    }
  }
  return {};
}

Result<FsdpTrainingExperiment> ObserveFsdpTrainingOnCpu(
    const FsdpTrainingParameters& parameters, TrainingFault fault, const std::string& machine,
    Exchange& exchange, Deadline deadline, const std::function<void(const std::string&)>& say) {
  FsdpTrainingExperiment seen;
  const TrainingSide side{parameters.provider, "", false, machine, say};
  const auto done = TrainOnCpu(
      side, exchange, deadline, [&](const TrainingPlace& place, const TrainingRanks& ranks) {
        seen.backend = place.backend;
        seen.transport = place.transport;
        RunTraining(parameters, fault, DataType::kFloat32, ranks, deadline, seen);
        return !seen.stopped_by;
      });
  return done ? Result<FsdpTrainingExperiment>(std::move(seen)) : done.error();
}

}  // namespace dlc
