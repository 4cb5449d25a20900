#include "probes/node/checkpoint/checkpoint_set.h"

#include <charconv>
#include <cstddef>
#include <system_error>

#include "probes/node/safetensors/safetensors.h"

namespace dlc {
namespace {

constexpr std::string_view kStepPrefix = "step-";

std::string Padded(std::int64_t number, std::size_t digits) {
  const std::string text = std::to_string(number);
  return std::string(text.size() < digits ? digits - text.size() : 0, '0') + text;
}

}  // namespace

const char* CheckpointFaultName(CheckpointFault fault) {
  switch (fault) {
    case CheckpointFault::kPartial:
      return "partial";
    case CheckpointFault::kDamaged:
      return "damaged";
    case CheckpointFault::kSwapped:
      return "swapped";
    case CheckpointFault::kStale:
      return "stale";
    case CheckpointFault::kMixedRun:
      return "mixed-run";
    case CheckpointFault::kUnavailable:
      return "unavailable";
    case CheckpointFault::kTimedOut:
      return "timed-out";
    case CheckpointFault::kInvalid:
      return "invalid";
    case CheckpointFault::kCaller:
      return "caller";
  }
  return "invalid";
}

Error ErrorOf(const CheckpointFailure& failure) {
  switch (failure.fault) {
    case CheckpointFault::kUnavailable:
      return {ErrorCode::kUnavailable, failure.message, ""};
    case CheckpointFault::kTimedOut:
      return {ErrorCode::kTimedOut, failure.message, ""};
    case CheckpointFault::kInvalid:
    case CheckpointFault::kCaller:
      return {ErrorCode::kInternal, failure.message, ""};
    default:
      return {ErrorCode::kInvalidInput,
              std::string(CheckpointFaultName(failure.fault)) + ": " + failure.message, ""};
  }
}

std::int64_t BytesOfRows(const CheckpointTensor& tensor, std::int64_t rows) {
  std::vector<std::int64_t> shape = tensor.shape;
  if (shape.empty()) {
    return 0;
  }
  shape[0] = rows;
  const auto bytes = SafetensorsBytesOf(tensor.dtype, shape);
  return bytes ? *bytes : 0;
}

std::string CheckpointStepName(std::int64_t step) {
  constexpr std::size_t kDigits = 8;
  return std::string(kStepPrefix) + Padded(step, kDigits);
}

std::int64_t StepOfCheckpointName(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) {
    return -1;
  }
  const std::string_view digits = name.substr(kStepPrefix.size());
  std::int64_t step = -1;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  const bool whole = status == std::errc() && end == digits.data() + digits.size() && step >= 0;
  // One name for each step: no shorter and no longer number, no sign.
  return whole && CheckpointStepName(step) == name ? step : -1;
}

std::string CheckpointShardName(int rank, int ranks) {
  constexpr std::size_t kDigits = 5;
  return "rank-" + Padded(rank, kDigits) + "-of-" + Padded(ranks, kDigits) + ".safetensors";
}

}  // namespace dlc
