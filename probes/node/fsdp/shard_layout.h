#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/training/qwen2_shape.h"
#include "kernels/training/training_backend.h"

namespace dlc {

/// How a unit's parameters are cut into one shard per rank. n is the number of ranks.
enum class ShardLayout : std::uint8_t {
  /// torch.distributed.fsdp.fully_shard: each parameter on dim 0 like torch.chunk(n), ceil(rows/n)
  /// rows a rank, the last ranks fewer or none; each part is filled with zeros to that many rows;
  /// the parts of all parameters of the unit, one behind the other.
  kFsdp2,
  /// FullyShardedDataParallel with use_orig_params=False: all parameters of the unit in one flat
  /// tensor, rank r has its r-th n-th; zeros at the end so that n divides it.
  kFsdp1,
  /// The same with use_orig_params=True: each parameter starts at a multiple of 16 bytes of
  /// float32,
  /// and what fills the gaps and the end is 42.
  kFsdp1Aligned,
  /// DeepSpeed's stage 3: each parameter by itself, flat, ceil(elements/n) a rank, the rest of the
  /// last parts is undefined there, zero here; the parts of all parameters one behind the other.
  kZero3,
};

/// "fsdp2", "fsdp1", "fsdp1-aligned", "zero3".
std::string_view ShardLayoutName(ShardLayout layout);
std::optional<ShardLayout> ParseShardLayout(std::string_view name);

/// Elements of one parameter that lie in one rank's shard, in the order of both.
struct OwnedPiece {
  int parameter = 0;        ///< index in the list that the layout was made from
  std::int64_t first = 0;   ///< element of the whole parameter, row by row
  std::int64_t count = 0;   ///< at least 1
  std::int64_t offset = 0;  ///< of the first in the shard

  bool operator==(const OwnedPiece&) const = default;
};

struct ElementRange {
  std::int64_t from = 0;
  std::int64_t count = 0;

  bool operator==(const ElementRange&) const = default;
};

/// One unit, cut into shards. All counts are elements. "Gathered" is the buffer of all shards by
/// rank, ranks * shard_elements: what an all-gather gives and a reduce-scatter takes. "Unit" is the
/// buffer that ModelParameter::unit_offset is in.
struct UnitLayout {
  int ranks = 0;
  std::int64_t shard_elements = 0;     ///< of every rank's shard, with what fills it
  float filling = 0;                   ///< the value of all that is no element of a parameter
  std::vector<OwnedPiece> owned;       ///< by this rank; empty where it has only filling
  std::vector<Piece> unshard;          ///< gathered -> unit; every element of the unit's parameters
  std::vector<Piece> pack_gradient;    ///< unit -> gathered: unshard, the other way
  std::vector<ElementRange> unfilled;  ///< of gathered, what pack_gradient leaves alone

  std::int64_t GatheredElements() const { return ranks * shard_elements; }
};

/// Of the parameters of `unit`. `rank` matters for `owned` only.
UnitLayout MakeUnitLayout(ShardLayout layout, const std::vector<ModelParameter>& parameters,
                          int unit, int ranks, int rank);
/// Of those parameters of `parameters` alone that `chosen` has the index of, in that order; all of
/// one unit.
UnitLayout MakeUnitLayoutOf(ShardLayout layout, const std::vector<ModelParameter>& parameters,
                            const std::vector<int>& chosen, int ranks, int rank);

inline UnitLayout Fsdp2Layout(const std::vector<ModelParameter>& parameters, int unit, int ranks,
                              int rank) {
  return MakeUnitLayout(ShardLayout::kFsdp2, parameters, unit, ranks, rank);
}

/// Indices of the unit's parameters.
std::vector<int> ParametersOf(const std::vector<ModelParameter>& parameters, int unit);

/// DeepSpeed's stage3_param_persistence_threshold: parameters of up to so many elements stay whole
/// between uses. Their partitions are gathered once a step, after the optimizer, in a collective of
/// their own; their gradients are reduce-scattered like all others.
inline constexpr std::int64_t kZero3PersistenceThreshold = 100000;

}  // namespace dlc
