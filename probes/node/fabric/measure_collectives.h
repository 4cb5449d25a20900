#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/bus_bandwidth.h"
#include "probes/node/communicator.h"
#include "probes/observations/fabric.h"

namespace dlc {

struct CollectiveOptions {
  std::vector<Collective> collectives = {Collective::kAllReduce, Collective::kAllGather,
                                         Collective::kReduceScatter, Collective::kBroadcast};
  /// As nccl-tests takes them: of the whole operation, see ShapeOfRow.
  std::vector<std::size_t> sizes_bytes = {8, 65536, 1 << 20, 64 << 20};
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int warm_up = 1;
  int iterations = 20;
  std::uint64_t seed = 1;
  /// For self-tests: this rank flips one bit of its part of the checked operation.
  int planted_bit_flip_on_rank = -1;
  std::chrono::milliseconds row_limit{60'000};
};

/// Rows as nccl-tests makes them, on host memory: out of place, then in place; one checked
/// operation, warm-up, barrier, host clock around `iterations` operations, mean over ranks (min and
/// max too). Buffers do not move from iteration to iteration as they do there. `ranks` tells which
/// machine each is on. All ranks together; each returns the same rows.
FabricMeasurements MeasureCollectives(Communicator& communicator,
                                      const std::vector<FabricRank>& ranks,
                                      const CollectiveOptions& options, Deadline deadline);

}  // namespace dlc
