#include "probes/node/fabric/direct.h"

#include <cstring>
#include <vector>

#include "kernels/reduction.h"

namespace dlc {
namespace {

Result<void> SendWhole(FabricTransport& transport, int to, const void* memory, std::size_t bytes) {
  auto request = transport.StartSend(to, memory, bytes);
  if (!request) {
    return std::move(request).error();
  }
  return transport.WaitAndRelease(*request);
}

Result<void> ReceiveWhole(FabricTransport& transport, int from, void* memory, std::size_t bytes) {
  auto request = transport.StartReceive(from, memory, bytes);
  if (!request) {
    return std::move(request).error();
  }
  return transport.WaitAndRelease(*request);
}

/// into = lower rank's op higher rank's.
void Combine(DataType type, ReduceOp op, void* into, const void* other, std::size_t count,
             bool other_is_lower) {
  Reduce(type, op, into, other_is_lower ? other : into, other_is_lower ? into : other, count);
}

Result<void> WaitAll(FabricTransport& transport, const std::vector<FabricRequest*>& requests) {
  for (FabricRequest* request : requests) {
    if (auto done = transport.WaitAndRelease(request); !done) {
      return done;
    }
  }
  return {};
}

}  // namespace

Result<void> SwapMessages(FabricTransport& transport, int to, const void* send,
                          std::size_t send_bytes, int from, void* receive,
                          std::size_t receive_bytes) {
  auto incoming = transport.StartReceive(from, receive, receive_bytes);
  if (!incoming) {
    return std::move(incoming).error();
  }
  auto outgoing = transport.StartSend(to, send, send_bytes);
  if (!outgoing) {
    return std::move(outgoing).error();
  }
  if (auto done = transport.WaitAndRelease(*incoming); !done) {
    return done;
  }
  return transport.WaitAndRelease(*outgoing);
}

Result<void> DoublingAllReduce(FabricTransport& transport, const void* send, void* receive,
                               std::size_t count, DataType type, ReduceOp op) {
  const std::size_t bytes = count * ElementBytes(type);
  const int rank = transport.rank();
  const int size = transport.size();
  int power = 1;
  while (power * 2 <= size) {
    power *= 2;
  }
  const int extra = size - power;  // ranks 0 .. 2 * extra - 1 work in pairs (even, odd)
  auto scratch = transport.Scratch(bytes);
  if (!scratch) {
    return std::move(scratch).error();
  }
  if (receive != send) {
    std::memcpy(receive, send, bytes);
  }
  const bool paired = rank < 2 * extra;
  if (paired && rank % 2 == 0) {
    if (auto sent = SendWhole(transport, rank + 1, receive, bytes); !sent) {
      return sent;
    }
    return ReceiveWhole(transport, rank + 1, receive, bytes);
  }
  if (paired) {
    if (auto got = ReceiveWhole(transport, rank - 1, *scratch, bytes); !got) {
      return got;
    }
    Combine(type, op, receive, *scratch, count, true);
  }
  const int place = paired ? rank / 2 : rank - extra;
  for (int distance = 1; distance < power; distance *= 2) {
    const int other_place = place ^ distance;
    const int other = other_place < extra ? 2 * other_place + 1 : other_place + extra;
    auto swapped = SwapMessages(transport, other, receive, bytes, other, *scratch, bytes);
    if (!swapped) {
      return swapped;
    }
    Combine(type, op, receive, *scratch, count, other < rank);
  }
  if (op == ReduceOp::kAvg) {
    DivideBy(type, receive, count, size);
  }
  return paired ? SendWhole(transport, rank - 1, receive, bytes) : Result<void>();
}

Result<void> DirectReduceScatter(FabricTransport& transport, const void* send, void* receive,
                                 std::size_t receive_count, DataType type, ReduceOp op) {
  const std::size_t bytes = receive_count * ElementBytes(type);
  const auto size = static_cast<std::size_t>(transport.size());
  const auto rank = static_cast<std::size_t>(transport.rank());
  auto scratch = transport.Scratch(size * bytes);
  if (!scratch) {
    return std::move(scratch).error();
  }
  const auto* mine = static_cast<const std::byte*>(send);
  std::vector<FabricRequest*> requests;
  for (std::size_t step = 1; step < size; ++step) {
    const std::size_t from = (rank + size - step) % size;
    auto request = transport.StartReceive(static_cast<int>(from), *scratch + from * bytes, bytes);
    if (!request) {
      return std::move(request).error();
    }
    requests.push_back(*request);
  }
  for (std::size_t step = 1; step < size; ++step) {
    const std::size_t to = (rank + step) % size;
    auto request = transport.StartSend(static_cast<int>(to), mine + to * bytes, bytes);
    if (!request) {
      return std::move(request).error();
    }
    requests.push_back(*request);
  }
  if (auto done = WaitAll(transport, requests); !done) {
    return done;
  }
  std::memcpy(*scratch + rank * bytes, mine + rank * bytes, bytes);
  for (std::size_t other = 1; other < size; ++other) {
    Reduce(type, op, *scratch, *scratch, *scratch + other * bytes, receive_count);
  }
  if (op == ReduceOp::kAvg) {
    DivideBy(type, *scratch, receive_count, transport.size());
  }
  std::memcpy(receive, *scratch, bytes);
  return {};
}

Result<void> DirectAllGather(FabricTransport& transport, const void* send, void* receive,
                             std::size_t block_bytes) {
  const auto size = static_cast<std::size_t>(transport.size());
  const auto rank = static_cast<std::size_t>(transport.rank());
  auto* out = static_cast<std::byte*>(receive);
  if (out + rank * block_bytes != send) {
    std::memcpy(out + rank * block_bytes, send, block_bytes);
  }
  std::vector<FabricRequest*> requests;
  for (std::size_t step = 1; step < size; ++step) {
    const std::size_t from = (rank + size - step) % size;
    auto request =
        transport.StartReceive(static_cast<int>(from), out + from * block_bytes, block_bytes);
    if (!request) {
      return std::move(request).error();
    }
    requests.push_back(*request);
  }
  for (std::size_t step = 1; step < size; ++step) {
    auto request = transport.StartSend(static_cast<int>((rank + step) % size),
                                       out + rank * block_bytes, block_bytes);
    if (!request) {
      return std::move(request).error();
    }
    requests.push_back(*request);
  }
  return WaitAll(transport, requests);
}

Result<void> TreeBroadcast(FabricTransport& transport, const void* send, void* receive,
                           std::size_t bytes, int root) {
  const int size = transport.size();
  const int place = (transport.rank() - root + size) % size;
  if (place == 0 && receive != send) {
    std::memcpy(receive, send, bytes);
  }
  // The parent differs in the lowest set bit of our place; children are below that bit.
  int bit = 1;
  for (; bit < size; bit *= 2) {
    if ((place & bit) != 0) {
      const int parent = (place - bit + root) % size;
      if (auto got = ReceiveWhole(transport, parent, receive, bytes); !got) {
        return got;
      }
      break;
    }
  }
  std::vector<FabricRequest*> requests;
  for (bit /= 2; bit > 0; bit /= 2) {
    if (place + bit < size) {
      auto request = transport.StartSend((place + bit + root) % size, receive, bytes);
      if (!request) {
        return std::move(request).error();
      }
      requests.push_back(*request);
    }
  }
  return WaitAll(transport, requests);
}

Result<void> DisseminationBarrier(FabricTransport& transport) {
  const int size = transport.size();
  const int rank = transport.rank();
  for (int distance = 1; distance < size; distance *= 2) {
    auto swapped = SwapMessages(transport, (rank + distance) % size, nullptr, 0,
                                (rank + size - distance) % size, nullptr, 0);
    if (!swapped) {
      return swapped;
    }
  }
  return {};
}

}  // namespace dlc
