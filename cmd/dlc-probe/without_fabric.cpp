#include "cmd/dlc-probe/checkpoint_steps.h"
#include "cmd/dlc-probe/fabric_steps.h"
#include "cmd/dlc-probe/fsdp_steps.h"

namespace dlc {
namespace {

Error BuiltWithout() {
  return {ErrorCode::kUnsupported, "this dlc-probe was built without libfabric's headers",
          "build it where libfabric-dev is installed"};
}

}  // namespace

Result<std::string> RunFabricNode(const StepContext& /*context*/) {
  return BuiltWithout();
}

Result<std::string> RunFabricPairs(const StepContext& /*context*/) {
  return BuiltWithout();
}

Result<std::string> RunFabricCollectives(const StepContext& /*context*/) {
  return BuiltWithout();
}

Result<std::string> RunFsdpLayout(const StepContext& /*context*/) {
  return BuiltWithout();
}

Result<std::string> RunFsdpTraining(const StepContext& /*context*/) {
  return BuiltWithout();
}

Result<std::string> RunCheckpointSave(const StepContext& /*context*/) {
  return BuiltWithout();
}

Result<std::string> RunCheckpointLoad(const StepContext& /*context*/) {
  return BuiltWithout();
}

}  // namespace dlc
