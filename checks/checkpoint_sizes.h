#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checks/policy.h"

namespace dlc {

/// A float32 parameter and AdamW's two moments, as FSDP's shards hold them.
inline constexpr std::int64_t kStateBytesPerParameter = 12;

/// A model whose checkpoint is asked about.
struct CheckpointModel {
  std::string name;  ///< "qwen2.5-1.5b", "7000000000 parameters"
  std::int64_t parameters = 0;

  std::int64_t StateBytes() const { return parameters * kStateBytesPerParameter; }
};

/// Names of the presets, ascending by size.
const std::vector<std::string>& CheckpointPresetNames();
/// Parameters of a preset, tied weights once; 0 for any other name.
std::int64_t PresetParameterCount(std::string_view name);

/// The policy's own model: `storage.parameters`, else the largest of `storage.predict`.
CheckpointModel PolicyModel(const StoragePolicy& storage);
/// The policy's own, then those of `storage.predict` that are others.
std::vector<CheckpointModel> PredictedModels(const StoragePolicy& storage);

/// Of each rank's test file: the rank's part of the policy's model, at most
/// storage.maxBytesPerRank; a multiple of `block_bytes` and at least one block.
std::int64_t TestBytesPerRank(const StoragePolicy& storage, int ranks, std::int64_t block_bytes);

}  // namespace dlc
