#pragma once

#include "probes/node/fsdp/unit_collectives.h"
#include "probes/node/nccl/nccl_group.h"

namespace dlc {

/// Over NCCL, on memory of the GPU and in one stream of it. A call returns once NCCL has put the
/// operation into the stream.
class NcclCollectives final : public UnitCollectives {
 public:
  /// The group outlives this.
  NcclCollectives(NcclGroup& group, nccl_abi::Stream stream) : group_(group), stream_(stream) {}

  int Rank() const override { return group_.Rank(); }
  int Size() const override { return group_.Size(); }
  Result<void> AllGather(const void* send, void* receive, std::int64_t send_count, DataType type,
                         Deadline deadline) override;
  Result<void> ReduceScatter(const void* send, void* receive, std::int64_t receive_count,
                             DataType type, ReduceOp op, Deadline deadline) override;
  Result<void> AddUp(double* value, Deadline deadline) override;
  Result<void> LookForError() override { return group_.LookForError(); }
  /// NCCL does not tell.
  std::int64_t SentBytes() const override { return -1; }
  /// The others learn of it when the group is closed.
  void Abort() override { group_.GiveUp(); }

 private:
  NcclGroup& group_;
  nccl_abi::Stream stream_;
};

}  // namespace dlc
