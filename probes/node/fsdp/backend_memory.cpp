#include "probes/node/fsdp/backend_memory.h"

#include <string>

namespace dlc {

namespace {
constexpr int kNoMemory = 2;  // cudaErrorMemoryAllocation
}  // namespace

Result<void> TrainingResult(const DeviceStatus& status) {
  if (status.Good()) {
    return {};
  }
  const std::string what = status.call.empty() ? "the device" : status.call;
  return Error{
      ErrorCode::kUnavailable,
      what + ": " + status.text + " (" + status.name + ", " + std::to_string(status.code) + ")",
      status.code == kNoMemory ? "free memory, or train a smaller model" : ""};
}

Result<void> TrainingMemory::Take(TrainingBackend& backend, std::int64_t elements, DataType type,
                                  std::int64_t& taken) {
  type_ = type;
  if (elements == 0) {
    return {};
  }
  const std::uint64_t bytes = static_cast<std::uint64_t>(elements) * ElementBytes(type);
  backend_ = &backend;
  taken += static_cast<std::int64_t>(bytes);
  return TrainingResult(backend.Allocate(bytes, &at_));
}

}  // namespace dlc
