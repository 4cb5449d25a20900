#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/bus_bandwidth.h"
#include "probes/node/exchange.h"
#include "probes/node/nccl/nccl_group.h"
#include "probes/observations/fabric.h"
#include "probes/observations/nccl.h"

namespace dlc {

struct NcclOptions {
  std::vector<Collective> collectives;
  std::vector<std::size_t> sizes_bytes;  ///< as nccl-tests takes them
  DataType type = DataType::kFloat32;    ///< or kBfloat16
  int warm_up = 1;
  int iterations = 20;
  std::uint64_t seed = 1;
  /// For self-tests: this rank flips one bit of its part of each checked operation.
  int planted_bit_flip_on_rank = -1;
  std::chrono::milliseconds row_limit{120'000};
  /// Before the warm-up of each; may be empty.
  std::function<void(const std::string& collective)> on_collective;
};

/// Rows as nccl-tests 2.19.6 makes them with its default options: of each collective a warm-up over
/// all sizes out of place; then out of place and in place, one operation with data that is compared
/// bit for bit (there: one that is not, and one that is), a barrier, the host's clock around
/// `iterations` operations and the wait for the last, at offsets that move from one to the next;
/// the mean over ranks (min and max too). Of more than 128 iterations each 128th is waited for. All
/// ranks together; each returns the same rows. `reached` is kept up to date: with `stopped_by` it
/// says where this rank stands.
FabricMeasurements MeasureNccl(NcclGroup& group, RankGpu& gpu, Exchange& exchange,
                               const std::vector<FabricRank>& ranks, const NcclOptions& options,
                               Deadline deadline, NcclProgress& reached);

}  // namespace dlc
