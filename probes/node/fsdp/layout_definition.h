#pragma once

#include <cstdint>
#include <vector>

#include "kernels/training/qwen2_shape.h"
#include "probes/node/fsdp/shard_layout.h"

namespace dlc {

/// Where the layout's definition puts one element, element by element and without the lists of
/// shard_layout.cpp, which this is to be held against.
struct ShardPlace {
  std::int64_t rank = 0;
  std::int64_t offset = 0;  ///< in the rank's shard

  bool operator==(const ShardPlace&) const = default;
};

/// `unit` are the parameters of one unit in their order, `index` one of them.
ShardPlace DefinedPlace(ShardLayout layout, const std::vector<ModelParameter>& unit,
                        std::size_t index, std::int64_t element, int ranks);
std::int64_t DefinedShardElements(ShardLayout layout, const std::vector<ModelParameter>& unit,
                                  int ranks);

}  // namespace dlc
