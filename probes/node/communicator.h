#pragma once

#include <cstddef>
#include <memory>

#include "kernels/element.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

/// Collectives over a fixed set of ranks. Every rank makes the same calls with the same counts in
/// the same order. Counts are elements and may be 0 (nothing happens) or not divisible by size().
/// Buffers may be in place as each call says; other overlaps are not allowed.
///
/// Every call ends by its deadline. An error names the rank that did not answer, as far as the
/// others could tell; after one, the communicator is closed and each later call returns that error.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// `count` elements on each rank. The result is the same bit for bit on all ranks. In place:
  /// receive == send.
  virtual Result<void> AllReduce(const void* send, void* receive, std::size_t count, DataType type,
                                 ReduceOp op, Deadline deadline) = 0;
  /// receive holds size() * send_count elements, by rank. In place: send == receive + rank() *
  /// send_count elements.
  virtual Result<void> AllGather(const void* send, void* receive, std::size_t send_count,
                                 DataType type, Deadline deadline) = 0;
  /// send holds size() * receive_count elements. In place: receive == send + rank() * receive_count
  /// elements.
  virtual Result<void> ReduceScatter(const void* send, void* receive, std::size_t receive_count,
                                     DataType type, ReduceOp op, Deadline deadline) = 0;
  /// send is read on `root` only. In place: receive == send.
  virtual Result<void> Broadcast(const void* send, void* receive, std::size_t count, DataType type,
                                 int root, Deadline deadline) = 0;
  /// Pairs with the peer's Receive, in order. May return only once the peer receives, so two ranks
  /// must not both send first: SendReceive is for that.
  virtual Result<void> Send(const void* send, std::size_t count, DataType type, int peer,
                            Deadline deadline) = 0;
  virtual Result<void> Receive(void* receive, std::size_t count, DataType type, int peer,
                               Deadline deadline) = 0;
  virtual Result<void> SendReceive(const void* send, int to, void* receive, int from,
                                   std::size_t count, DataType type, Deadline deadline) = 0;
  virtual Result<void> Barrier(Deadline deadline) = 0;

  /// Makes the call in progress, here and on the other ranks, and all later ones return an error
  /// soon. The one member that another thread may call.
  virtual void Abort() = 0;

  /// Keeps a buffer known to the device while it lives, so that calls need not register it anew.
  class Registration {
   public:
    virtual ~Registration() = default;
  };
  /// Never needed for correctness. The buffer outlives the registration, and the registration does
  /// not outlive the communicator.
  virtual Result<std::unique_ptr<Registration>> Register(void* data, std::size_t bytes) = 0;
};

}  // namespace dlc
