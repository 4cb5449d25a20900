#include "probes/observations/observations.h"

namespace dlc {
namespace {

template <class Seen>
auto PickRanks(Seen& seen, Stage stage) -> decltype(&seen.gpu_ranks) {
  switch (stage) {
    case Stage::kGpu:
      return &seen.gpu_ranks;
    case Stage::kNccl:
      return &seen.nccl_ranks;
    case Stage::kCheckpoint:
      return &seen.checkpoint_ranks;
    case Stage::kFsdp:
      return &seen.fsdp_ranks;
    case Stage::kImage:
      break;
  }
  return nullptr;
}

}  // namespace

const Observed<RankRun>* RanksOf(const Observations& observations, Stage stage) {
  return PickRanks(observations, stage);
}

Observed<RankRun>* RanksOf(Observations& observations, Stage stage) {
  return PickRanks(observations, stage);
}

}  // namespace dlc
