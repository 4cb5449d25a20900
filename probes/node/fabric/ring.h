#pragma once

#include <cstddef>

#include "kernels/element.h"
#include "probes/node/fabric/transport.h"

namespace dlc {

/// How rings cut what they move. A block (one rank's share) is cut into pieces; the pieces go round
/// in groups, so that a group's data stays in the cache from one hop to the next.
struct RingTuning {
  std::size_t piece_bytes = 512 << 10;
  std::size_t group = 8;  ///< pieces of each block going round together
};

/// Large messages: each rank sends to its successor and receives from its predecessor. Arguments
/// and in-place rules as in Communicator; size() > 1 and count > 0.
Result<void> RingAllReduce(FabricTransport& transport, const RingTuning& tuning, const void* send,
                           void* receive, std::size_t count, DataType type, ReduceOp op);
Result<void> RingReduceScatter(FabricTransport& transport, const RingTuning& tuning,
                               const void* send, void* receive, std::size_t receive_count,
                               DataType type, ReduceOp op);
/// `block_bytes` from each rank.
Result<void> RingAllGather(FabricTransport& transport, const RingTuning& tuning, const void* send,
                           void* receive, std::size_t block_bytes);
Result<void> ChainBroadcast(FabricTransport& transport, const RingTuning& tuning, const void* send,
                            void* receive, std::size_t bytes, int root);

}  // namespace dlc
