#pragma once

#include <cstdint>
#include <vector>

#include "probes/node/fsdp/layout_parts.h"
#include "probes/node/fsdp/layout_values.h"

namespace dlc {

/// What was found among elements, and the first that was wrong.
struct ComparedElements {
  std::int64_t compared = 0;
  std::int64_t wrong = 0;
  std::int64_t first_at = -1;  ///< in the buffer
  ShardRun first_run;          ///< that has it
  std::uint32_t expected = 0;
  std::uint32_t found = 0;
};

/// A part of a unit's shards in a buffer: shard s starts at s * stride. `first_index` is the
/// model's index of the unit's first parameter.
struct ShardBuffer {
  std::vector<ShardRun> runs;
  std::int64_t stride = 0;
  int first_index = 0;

  std::int64_t At(const ShardRun& run) const { return run.shard * stride + run.offset; }
};

void FillPart(const ShardBuffer& part, const PlaceValues& values, std::uint32_t* data);
ComparedElements ComparePart(const ShardBuffer& part, const PlaceValues& values,
                             const std::uint32_t* data);

}  // namespace dlc
