#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/training/qwen2_shape.h"
#include "probes/node/communicator.h"
#include "probes/node/fsdp/shard_layout.h"
#include "probes/observations/deadline.h"
#include "probes/observations/fsdp.h"
#include "probes/observations/result.h"

namespace dlc {

/// The ranks that a model is cut over. Ranks of `shard` hold one copy together; where there are
/// several copies, `copies` joins the ranks that hold the same shard. Of the run's ranks, copy c
/// has c * shard.size() to (c + 1) * shard.size() - 1.
struct ShardedRanks {
  Communicator& shard;
  Communicator* copies = nullptr;  ///< nullptr: one copy
  int rank = 0;                    ///< of the run
  int size = 0;
  std::function<std::int64_t()> sent_bytes;  ///< payload of this rank's messages so far
};

using LayoutMaker = std::function<UnitLayout(
    ShardLayout, const std::vector<ModelParameter>& parameters, int unit, int ranks, int rank)>;

struct LayoutProofOptions {
  std::string model;                       ///< its name, to be told
  std::vector<ModelParameter> parameters;  ///< of Qwen2Parameters
  std::string layout;                      ///< its name, to be told
  ShardLayout cut = ShardLayout::kFsdp2;
  bool every_unit = false;               ///< else of large models the first layer and the root
  std::int64_t part_elements = 4 << 20;  ///< that are gathered at once, at most
  /// This rank flips a bit of what it gives to the first gather.
  bool plant_bit_flip = false;
  LayoutMaker make = MakeUnitLayout;  ///< for tests of what finds a wrong one
};

/// Cuts the model, gathers its shards and compares each element with what its place says; then
/// gives each rank's gradients to a reduce-scatter, and compares the sums that the owners get.
/// What arrived right is then damaged in four ways and compared again. Values are int32; memory is
/// bounded by part_elements, for what is large is moved part by part. `whole_elements` is how many
/// elements of units may still be moved whole; what is taken is subtracted. The same arguments on
/// all ranks, but for plant_bit_flip.
Result<FsdpLayoutProof> ProveLayout(const ShardedRanks& ranks, const LayoutProofOptions& options,
                                    std::int64_t& whole_elements, Deadline deadline);

/// Models of up to so many parameters are moved whole, whatever is left to be.
inline constexpr std::int64_t kSmallModel = 1'000'000;

}  // namespace dlc
