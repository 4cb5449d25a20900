#include "checks/checkpoint_sizes.h"

#include <algorithm>
#include <array>
#include <utility>

namespace dlc {
namespace {

constexpr std::array<std::pair<std::string_view, std::int64_t>, 3> kPresetParameters = {
    {{"qwen2-tiny", 139'980}, {"qwen2.5-0.5b", 494'032'768}, {"qwen2.5-1.5b", 1'543'714'304}}};

}  // namespace

const std::vector<std::string>& CheckpointPresetNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    all.reserve(kPresetParameters.size());
    for (const auto& [name, parameters] : kPresetParameters) {
      all.emplace_back(name);
    }
    return all;
  }();
  return names;
}

std::int64_t PresetParameterCount(std::string_view name) {
  const auto* found = std::find_if(kPresetParameters.begin(), kPresetParameters.end(),
                                   [&](const auto& preset) { return preset.first == name; });
  return found == kPresetParameters.end() ? 0 : found->second;
}

CheckpointModel PolicyModel(const StoragePolicy& storage) {
  if (storage.parameters > 0) {
    return {std::to_string(storage.parameters) + " parameters", storage.parameters};
  }
  CheckpointModel largest;
  for (const std::string& name : storage.predict) {
    if (const std::int64_t parameters = PresetParameterCount(name);
        parameters > largest.parameters) {
      largest = {name, parameters};
    }
  }
  return largest;
}

std::vector<CheckpointModel> PredictedModels(const StoragePolicy& storage) {
  std::vector<CheckpointModel> models = {PolicyModel(storage)};
  for (const std::string& name : storage.predict) {
    if (name != models.front().name) {
      models.push_back({name, PresetParameterCount(name)});
    }
  }
  return models;
}

std::int64_t TestBytesPerRank(const StoragePolicy& storage, int ranks, std::int64_t block_bytes) {
  const std::int64_t part = (PolicyModel(storage).StateBytes() + ranks - 1) / ranks;
  const std::int64_t whole_blocks = (part + block_bytes - 1) / block_bytes;
  const std::int64_t allowed = storage.max_bytes_per_rank / block_bytes;
  return std::max<std::int64_t>(std::min(whole_blocks, allowed), 1) * block_bytes;
}

}  // namespace dlc
