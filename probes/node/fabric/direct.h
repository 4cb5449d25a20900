#pragma once

#include <cstddef>

#include "kernels/element.h"
#include "probes/node/fabric/transport.h"

namespace dlc {

/// Small messages: few rounds, whole messages. Arguments and in-place rules as in Communicator;
/// size() > 1 and count > 0.

/// Recursive doubling; ranks beyond the largest power of two hand their part to a neighbour and get
/// the result back. Both sides of a pair combine the same two operands in rank order, so that all
/// ranks hold the same bits.
Result<void> DoublingAllReduce(FabricTransport& transport, const void* send, void* receive,
                               std::size_t count, DataType type, ReduceOp op);
/// Each rank sends straight to each other; reduced in rank order.
Result<void> DirectReduceScatter(FabricTransport& transport, const void* send, void* receive,
                                 std::size_t receive_count, DataType type, ReduceOp op);
Result<void> DirectAllGather(FabricTransport& transport, const void* send, void* receive,
                             std::size_t block_bytes);
/// Binomial tree.
Result<void> TreeBroadcast(FabricTransport& transport, const void* send, void* receive,
                           std::size_t bytes, int root);
/// In round k each rank signals the one 2^k after it.
Result<void> DisseminationBarrier(FabricTransport& transport);

/// Both at once; `to` and `from` may be the same.
Result<void> SwapMessages(FabricTransport& transport, int to, const void* send,
                          std::size_t send_bytes, int from, void* receive,
                          std::size_t receive_bytes);

}  // namespace dlc
