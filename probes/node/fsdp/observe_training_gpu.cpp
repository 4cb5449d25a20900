#include "probes/node/fsdp/observe_training_gpu.h"

#include <unistd.h>

#include <memory>
#include <utility>

#include "kernels/cuda_device.h"
#include "kernels/training/cuda_backend.h"
#include "probes/node/fsdp/nccl_collectives.h"
#include "probes/node/fsdp/run_training.h"
#include "probes/node/nccl/nccl_settings.h"
#include "probes/node/nccl/nccl_surroundings.h"
#include "probes/observations/nccl_log.h"

namespace dlc {
namespace {

Error OfDevice(const DeviceStatus& status) {
  return Error{ErrorCode::kUnavailable, status.call + ": " + status.name + ", " + status.text,
               "dlc-check gpu looks at this rank's GPUs"};
}

/// What a rank needs before it can meet the others.
struct GpuSide {
  std::shared_ptr<const NcclApi> api;
  std::unique_ptr<RankGpu> gpu;
  std::unique_ptr<TrainingBackend> backend;
};

Result<GpuSide> OpenSide(const std::string& library, int local_rank) {
  GpuSide side;
  auto api = NcclApi::Load(library);
  if (!api) {
    return api.error();
  }
  side.api = std::move(api).value();
  auto gpu = RankGpu::Open(local_rank);
  if (!gpu) {
    return gpu.error();
  }
  side.gpu = std::move(gpu).value();
  int count = 0;
  DeviceStatus status = CountCudaDevices(count);
  if (status.Good()) {
    side.backend = OpenCudaTrainingBackend(local_rank % count, status);
  }
  if (side.backend == nullptr) {
    return OfDevice(status);
  }
  return side;
}

NcclIntroduction IntroductionOf(const Result<GpuSide>& side, const RankFacts& me) {
  NcclIntroduction mine;
  mine.place = NcclPlace(me.host, me.node);
  if (!side) {
    mine.error = side.error();
    return mine;
  }
  mine.Name(side->api->Describe());
  mine.settings = SharedNcclSettings(NcclSettings(environ, NcclConfigurationFiles()));
  return mine;
}

}  // namespace

Result<void> TrainOnGpu(const TrainingSide& with, const RankFacts& me, Exchange& exchange,
                        Deadline deadline, const TrainingBody& body) {
  if (with.host_id_per_rank) {
    SetNcclSettings({NcclHostIdOf(me.rank)});
  }
  with.say("loading NCCL");
  auto side = OpenSide(with.library, me.local_rank);
  const NcclIntroduction mine = IntroductionOf(side, me);
  const auto met = IntroduceForNccl(mine, exchange, deadline);
  if (!side || !met) {
    return side ? met.error() : side.error();
  }
  with.say("making a communicator of NCCL " + mine.version);
  const auto group = NcclGroup::Open(side->api, *side->gpu, exchange, deadline, deadline, [] {});
  if (!group) {
    return group.error();
  }
  NcclCollectives collectives(**group, side->backend->Stream(TrainingQueue::kCommunication));
  // Ranks on one GPU share its memory.
  const TrainingRanks ranks{*side->backend, collectives, exchange,
                            me.node + " " + side->gpu->PciAddress(), with.say};
  body({"cuda", side->gpu->Name(), exchange.size() > 1 ? "NCCL " + mine.version : ""}, ranks);
  return {};
}

Result<FsdpTrainingExperiment> ObserveFsdpTrainingOnGpu(
    const FsdpTrainingParameters& parameters, TrainingFault fault, const RankFacts& me,
    Exchange& exchange, Deadline deadline, const std::function<void(const std::string&)>& say) {
  FsdpTrainingExperiment seen;
  const TrainingSide side{"", parameters.library, parameters.host_id_per_rank, "", say};
  const auto done = TrainOnGpu(
      side, me, exchange, deadline, [&](const TrainingPlace& place, const TrainingRanks& ranks) {
        seen.backend = place.backend;
        seen.device = place.device;
        seen.transport = place.transport;
        RunTraining(parameters, fault, DataType::kBfloat16, ranks, deadline, seen);
        return !seen.stopped_by;
      });
  return done ? Result<FsdpTrainingExperiment>(std::move(seen)) : done.error();
}

}  // namespace dlc
