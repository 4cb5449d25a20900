#pragma once

#include <cstdint>

#include "kernels/element.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

/// What FSDP moves between ranks: collectives over memory of a TrainingBackend, in its
/// communication queue. Every rank makes the same calls with the same counts in the same order.
/// Counts are elements; buffers do not overlap. A call may return before it is done; then what goes
/// wrong later is told by LookForError. After an error no call works any more.
class UnitCollectives {
 public:
  virtual ~UnitCollectives() = default;

  virtual int Rank() const = 0;
  virtual int Size() const = 0;

  /// receive holds Size() * send_count elements, by rank.
  virtual Result<void> AllGather(const void* send, void* receive, std::int64_t send_count,
                                 DataType type, Deadline deadline) = 0;
  /// send holds Size() * receive_count elements. `op` is kSum or kAvg.
  virtual Result<void> ReduceScatter(const void* send, void* receive, std::int64_t receive_count,
                                     DataType type, ReduceOp op, Deadline deadline) = 0;
  /// The sum over ranks into *value, the same bits on all of them.
  virtual Result<void> AddUp(double* value, Deadline deadline) = 0;
  /// Of what was started and may not have ended; none: not that it has.
  virtual Result<void> LookForError() = 0;
  /// Payload that this rank has sent; -1 where nobody counts it.
  virtual std::int64_t SentBytes() const = 0;
  /// Makes the other ranks' calls end soon.
  virtual void Abort() = 0;
};

}  // namespace dlc
