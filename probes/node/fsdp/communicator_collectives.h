#pragma once

#include <functional>

#include "probes/node/communicator.h"
#include "probes/node/fsdp/unit_collectives.h"

namespace dlc {

/// Over a Communicator on host memory, for a backend whose memory is the host's. Each call has
/// ended when it returns.
class CommunicatorCollectives final : public UnitCollectives {
 public:
  /// `sent_bytes` counts the payload; may be empty. The communicator outlives this.
  CommunicatorCollectives(Communicator& communicator, std::function<std::int64_t()> sent_bytes)
      : communicator_(communicator), sent_bytes_(std::move(sent_bytes)) {}

  int Rank() const override { return communicator_.rank(); }
  int Size() const override { return communicator_.size(); }
  Result<void> AllGather(const void* send, void* receive, std::int64_t send_count, DataType type,
                         Deadline deadline) override;
  Result<void> ReduceScatter(const void* send, void* receive, std::int64_t receive_count,
                             DataType type, ReduceOp op, Deadline deadline) override;
  Result<void> AddUp(double* value, Deadline deadline) override;
  Result<void> LookForError() override { return {}; }
  std::int64_t SentBytes() const override { return sent_bytes_ ? sent_bytes_() : -1; }
  void Abort() override { communicator_.Abort(); }

 private:
  Communicator& communicator_;
  std::function<std::int64_t()> sent_bytes_;
};

}  // namespace dlc
