#include "probes/node/fabric/fabric_communicator.h"

#include <cstring>
#include <utility>

#include "probes/node/fabric/direct.h"
#include "probes/node/fabric/place.h"

namespace dlc {
namespace {

std::string OfBytes(const char* what, std::size_t bytes) {
  return std::string(what) + " of " + std::to_string(bytes) + " bytes";
}

struct Buffer {
  const void* memory;
  std::size_t bytes;
};

/// Body between Begin and End, with the user's buffers registered.
template <class Body>
Result<void> Run(FabricTransport& transport, std::string what, Deadline deadline,
                 std::initializer_list<Buffer> buffers, Body body) {
  if (auto begun = transport.Begin(std::move(what), deadline); !begun) {
    return begun;
  }
  for (const Buffer& buffer : buffers) {
    if (auto used = transport.Use(buffer.memory, buffer.bytes); !used) {
      return transport.End(std::move(used));
    }
  }
  return transport.End(body());
}

class FabricRegistration : public Communicator::Registration {
 public:
  FabricRegistration(FabricTransport& transport, std::uint64_t id)
      : transport_(transport), id_(id) {}
  ~FabricRegistration() override { transport_.Unregister(id_); }
  FabricRegistration(const FabricRegistration&) = delete;
  FabricRegistration& operator=(const FabricRegistration&) = delete;

 private:
  FabricTransport& transport_;
  std::uint64_t id_;
};

Result<void> CheckPeer(int peer, const Communicator& communicator, bool self_allowed) {
  if (peer >= 0 && peer < communicator.size() && (self_allowed || peer != communicator.rank())) {
    return {};
  }
  return Error{ErrorCode::kInvalidInput,
               "rank " + std::to_string(peer) + " is no peer of rank " +
                   std::to_string(communicator.rank()) + " among " +
                   std::to_string(communicator.size()),
               ""};
}

void Copy(void* to, const void* from, std::size_t bytes) {
  if (to != from && bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

/// Where ranks wait for each other's CPU, each hop waits for the scheduler: fewer and longer ones
/// then, at the cost of the cache. Measured with 2 and 4 ranks on 2 CPUs (tests/bench).
RingTuning RingFor(const std::vector<FabricRank>& ranks) {
  constexpr RingTuning kSharedCpus{2 << 20, 4};
  return IsOversubscribed(ranks) ? kSharedCpus : RingTuning{};
}

}  // namespace

FabricCommunicator::FabricCommunicator(std::unique_ptr<FabricTransport> transport,
                                       const FabricTuning& tuning)
    : transport_(std::move(transport)),
      tuning_(tuning),
      ring_(tuning.ring ? *tuning.ring : RingFor(transport_->Ranks())) {}

Result<std::unique_ptr<FabricCommunicator>> FabricCommunicator::Open(const FabricOptions& options,
                                                                     Exchange& exchange,
                                                                     Deadline deadline,
                                                                     const FabricTuning& tuning) {
  auto transport = FabricTransport::Open(options, exchange, deadline);
  if (!transport) {
    return std::move(transport).error();
  }
  return std::unique_ptr<FabricCommunicator>(
      new FabricCommunicator(std::move(transport).value(), tuning));
}

Result<void> FabricCommunicator::AllReduce(const void* send, void* receive, std::size_t count,
                                           DataType type, ReduceOp op, Deadline deadline) {
  const std::size_t bytes = count * ElementBytes(type);
  const auto body = [&]() -> Result<void> {
    if (size() == 1 || count == 0) {
      Copy(receive, send, bytes);
      return {};
    }
    return bytes <= tuning_.direct_all_reduce
               ? DoublingAllReduce(*transport_, send, receive, count, type, op)
               : RingAllReduce(*transport_, ring_, send, receive, count, type, op);
  };
  return Run(*transport_, OfBytes("all-reduce", bytes), deadline, {{send, bytes}, {receive, bytes}},
             body);
}

Result<void> FabricCommunicator::AllGather(const void* send, void* receive, std::size_t send_count,
                                           DataType type, Deadline deadline) {
  const std::size_t block = send_count * ElementBytes(type);
  const std::size_t bytes = block * static_cast<std::size_t>(size());
  const auto body = [&]() -> Result<void> {
    if (size() == 1 || send_count == 0) {
      Copy(receive, send, block);
      return {};
    }
    return block <= tuning_.direct_block ? DirectAllGather(*transport_, send, receive, block)
                                         : RingAllGather(*transport_, ring_, send, receive, block);
  };
  return Run(*transport_, OfBytes("all-gather", bytes), deadline, {{receive, bytes}}, body);
}

Result<void> FabricCommunicator::ReduceScatter(const void* send, void* receive,
                                               std::size_t receive_count, DataType type,
                                               ReduceOp op, Deadline deadline) {
  const std::size_t block = receive_count * ElementBytes(type);
  const std::size_t bytes = block * static_cast<std::size_t>(size());
  const auto body = [&]() -> Result<void> {
    if (size() == 1 || receive_count == 0) {
      Copy(receive, send, block);
      return {};
    }
    return block <= tuning_.direct_block
               ? DirectReduceScatter(*transport_, send, receive, receive_count, type, op)
               : RingReduceScatter(*transport_, ring_, send, receive, receive_count, type, op);
  };
  return Run(*transport_, OfBytes("reduce-scatter", bytes), deadline, {{send, bytes}}, body);
}

Result<void> FabricCommunicator::Broadcast(const void* send, void* receive, std::size_t count,
                                           DataType type, int root, Deadline deadline) {
  if (auto checked = CheckPeer(root, *this, true); !checked) {
    return checked;
  }
  const std::size_t bytes = count * ElementBytes(type);
  const bool is_root = rank() == root;
  const auto body = [&]() -> Result<void> {
    if (size() == 1 || count == 0) {
      Copy(receive, send, bytes);
      return {};
    }
    return bytes <= tuning_.tree_broadcast
               ? TreeBroadcast(*transport_, send, receive, bytes, root)
               : ChainBroadcast(*transport_, ring_, send, receive, bytes, root);
  };
  return Run(*transport_, OfBytes("broadcast", bytes), deadline,
             {{is_root ? send : receive, bytes}, {receive, bytes}}, body);
}

Result<void> FabricCommunicator::Send(const void* send, std::size_t count, DataType type, int peer,
                                      Deadline deadline) {
  if (auto checked = CheckPeer(peer, *this, false); !checked) {
    return checked;
  }
  const std::size_t bytes = count * ElementBytes(type);
  return Run(*transport_, OfBytes("send", bytes), deadline, {{send, bytes}}, [&]() -> Result<void> {
    auto request = transport_->StartSend(peer, send, bytes);
    if (!request) {
      return std::move(request).error();
    }
    return transport_->WaitAndRelease(*request);
  });
}

Result<void> FabricCommunicator::Receive(void* receive, std::size_t count, DataType type, int peer,
                                         Deadline deadline) {
  if (auto checked = CheckPeer(peer, *this, false); !checked) {
    return checked;
  }
  const std::size_t bytes = count * ElementBytes(type);
  return Run(*transport_, OfBytes("receive", bytes), deadline, {{receive, bytes}},
             [&]() -> Result<void> {
               auto request = transport_->StartReceive(peer, receive, bytes);
               if (!request) {
                 return std::move(request).error();
               }
               return transport_->WaitAndRelease(*request);
             });
}

Result<void> FabricCommunicator::SendReceive(const void* send, int to, void* receive, int from,
                                             std::size_t count, DataType type, Deadline deadline) {
  for (const int peer : {to, from}) {
    if (auto checked = CheckPeer(peer, *this, true); !checked) {
      return checked;
    }
  }
  const std::size_t bytes = count * ElementBytes(type);
  return Run(*transport_, OfBytes("send and receive", bytes), deadline,
             {{send, bytes}, {receive, bytes}}, [&]() -> Result<void> {
               if (to == rank() && from == rank()) {
                 Copy(receive, send, bytes);
                 return {};
               }
               return SwapMessages(*transport_, to, send, bytes, from, receive, bytes);
             });
}

Result<void> FabricCommunicator::Barrier(Deadline deadline) {
  return Run(*transport_, "barrier", deadline, {},
             [&] { return DisseminationBarrier(*transport_); });
}

Result<std::unique_ptr<Communicator::Registration>> FabricCommunicator::Register(
    void* data, std::size_t bytes) {
  auto id = transport_->Register(data, bytes);
  if (!id) {
    return std::move(id).error();
  }
  return std::unique_ptr<Registration>(std::make_unique<FabricRegistration>(*transport_, *id));
}

}  // namespace dlc
