#pragma once

#include <cstdint>
#include <vector>

#include "probes/node/fsdp/shard_layout.h"

namespace dlc {

/// Consecutive elements of one rank's shard that are of one parameter, or of none.
struct ShardRun {
  int shard = 0;            ///< the rank that has them
  int parameter = 0;        ///< index among the unit's; kFilling: of none
  std::int64_t first = 0;   ///< element of the parameter; of filling the offset in the shard
  std::int64_t offset = 0;  ///< of the first in the shard, or in what is moved of it
  std::int64_t count = 0;

  static constexpr int kFilling = -1;

  bool operator==(const ShardRun&) const = default;
};

/// A unit's shards, as runs: every element of every shard, by rank and offset.
struct UnitRuns {
  int ranks = 0;
  std::int64_t shard_elements = 0;
  std::vector<ShardRun> runs;
};

/// How many pieces of `layout` do not lie where the definition puts them, and the first of those.
struct MisplacedPieces {
  std::int64_t count = 0;
  ShardRun first;
};
/// Also of the shard's size, of pieces that are missing and of lists that contradict each other.
/// `unit` are the parameters that `layout` was made of, whose pieces' indices start at
/// `first_index`.
MisplacedPieces FindMisplaced(ShardLayout definition, const UnitLayout& layout,
                              const std::vector<ModelParameter>& unit, int first_index, int rank);

/// Precondition: nothing is misplaced.
UnitRuns RunsOf(const UnitLayout& layout, const std::vector<ModelParameter>& unit);

/// The ranges of a shard that are moved, one after the other, each of at most `most` elements:
/// all of it, or what lies `around` each start and end of a run, on any rank.
std::vector<ElementRange> WholeShard(const UnitRuns& unit, std::int64_t most);
std::vector<ElementRange> AroundCuts(const UnitRuns& unit, std::int64_t around, std::int64_t most);

/// The runs of that range of every shard; offsets are counted from its start.
std::vector<ShardRun> RunsOfRange(const UnitRuns& unit, const ElementRange& range);

}  // namespace dlc
