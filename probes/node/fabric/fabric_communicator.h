#pragma once

#include <memory>
#include <optional>
#include <string>

#include "probes/node/communicator.h"
#include "probes/node/fabric/ring.h"
#include "probes/node/fabric/transport.h"

namespace dlc {

/// Sizes at which algorithms change, in bytes.
struct FabricTuning {
  std::size_t direct_all_reduce = 32 << 10;  ///< up to this: recursive doubling; above: ring
  std::size_t direct_block = 16 << 10;       ///< per rank, of all-gather and reduce-scatter
  std::size_t tree_broadcast = 64 << 10;
  /// Absent: chosen by whether ranks share CPUs. The same on all ranks, as all sizes here.
  std::optional<RingTuning> ring;
};

/// Collectives on host memory over libfabric.
class FabricCommunicator : public Communicator {
 public:
  /// All ranks together. Before the last user of the fabric closes it, ranks should meet at
  /// `exchange` once more: a closed endpoint takes no more part in deliveries to slower ranks.
  static Result<std::unique_ptr<FabricCommunicator>> Open(const FabricOptions& options,
                                                          Exchange& exchange, Deadline deadline,
                                                          const FabricTuning& tuning = {});

  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  Result<void> AllReduce(const void* send, void* receive, std::size_t count, DataType type,
                         ReduceOp op, Deadline deadline) override;
  Result<void> AllGather(const void* send, void* receive, std::size_t send_count, DataType type,
                         Deadline deadline) override;
  Result<void> ReduceScatter(const void* send, void* receive, std::size_t receive_count,
                             DataType type, ReduceOp op, Deadline deadline) override;
  Result<void> Broadcast(const void* send, void* receive, std::size_t count, DataType type,
                         int root, Deadline deadline) override;
  Result<void> Send(const void* send, std::size_t count, DataType type, int peer,
                    Deadline deadline) override;
  Result<void> Receive(void* receive, std::size_t count, DataType type, int peer,
                       Deadline deadline) override;
  Result<void> SendReceive(const void* send, int to, void* receive, int from, std::size_t count,
                           DataType type, Deadline deadline) override;
  Result<void> Barrier(Deadline deadline) override;
  void Abort() override { transport_->Abort(); }
  Result<std::unique_ptr<Registration>> Register(void* data, std::size_t bytes) override;

  /// For measurements below collectives.
  FabricTransport& Transport() { return *transport_; }

 private:
  FabricCommunicator(std::unique_ptr<FabricTransport> transport, const FabricTuning& tuning);

  std::unique_ptr<FabricTransport> transport_;
  FabricTuning tuning_;
  RingTuning ring_;
};

}  // namespace dlc
