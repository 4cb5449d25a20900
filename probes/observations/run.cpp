#include "probes/observations/run.h"

#include <string>

namespace dlc {

const char* StageName(Stage stage) {
  switch (stage) {
    case Stage::kImage:
      return "image";
    case Stage::kGpu:
      return "gpu";
    case Stage::kNccl:
      return "nccl";
    case Stage::kFsdp:
      return "fsdp";
    case Stage::kCheckpoint:
      return "checkpoint";
  }
  return "image";
}

Result<Stage> ParseStage(std::string_view name) {
  for (int i = 0; i < kStageCount; ++i) {
    const auto stage = static_cast<Stage>(i);
    if (name == StageName(stage)) {
      return stage;
    }
  }
  return Error{ErrorCode::kInvalidInput, "unknown stage '" + std::string(name) + "'",
               "stages are image, gpu, nccl, fsdp, checkpoint"};
}

}  // namespace dlc
