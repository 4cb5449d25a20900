#include "probes/node/fsdp/layout_parameters.h"

#include <algorithm>
#include <utility>

#include "kernels/training/qwen2_shape.h"

namespace dlc {
namespace {

Error NotInPlan(std::string message, std::string hint = "") {
  return {ErrorCode::kInvalidInput, std::move(message), std::move(hint)};
}

}  // namespace

const std::vector<std::string>& FsdpLayoutNames() {
  static const std::vector<std::string> names = {"fsdp2", "hsdp", "fsdp1", "fsdp1-aligned",
                                                 "zero3"};
  return names;
}

Result<void> CheckFsdpLayout(const FsdpLayoutParameters& parameters) {
  if (parameters.models.empty() || parameters.layouts.empty()) {
    return NotInPlan("$.models and $.layouts: there is nothing to cut");
  }
  for (const std::string& model : parameters.models) {
    if (!Qwen2Preset(model)) {
      return NotInPlan("$.models: there is no model '" + model + "'",
                       "qwen2-tiny, qwen2.5-0.5b, qwen2.5-1.5b");
    }
  }
  const auto& names = FsdpLayoutNames();
  for (const std::string& layout : parameters.layouts) {
    if (std::find(names.begin(), names.end(), layout) == names.end()) {
      return NotInPlan("$.layouts: there is no layout '" + layout + "'",
                       "fsdp2, hsdp, fsdp1, fsdp1-aligned, zero3");
    }
  }
  if (parameters.shard_ranks < 0 || parameters.whole_elements < 0) {
    return NotInPlan("$.shardRanks and $.wholeElements: must not be negative");
  }
  return {};
}

}  // namespace dlc
