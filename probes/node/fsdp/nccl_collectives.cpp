#include "probes/node/fsdp/nccl_collectives.h"

#include <cstddef>

namespace dlc {

Result<void> NcclCollectives::AllGather(const void* send, void* receive, std::int64_t send_count,
                                        DataType type, Deadline deadline) {
  RowShape shape;
  shape.send_count = static_cast<std::size_t>(send_count);
  return group_.StartOn(stream_, Collective::kAllGather, send, receive, shape, type, ReduceOp::kSum,
                        deadline);
}

Result<void> NcclCollectives::ReduceScatter(const void* send, void* receive,
                                            std::int64_t receive_count, DataType type, ReduceOp op,
                                            Deadline deadline) {
  RowShape shape;
  shape.receive_count = static_cast<std::size_t>(receive_count);
  return group_.StartOn(stream_, Collective::kReduceScatter, send, receive, shape, type, op,
                        deadline);
}

Result<void> NcclCollectives::AddUp(double* value, Deadline deadline) {
  return group_.AddUpOn(stream_, value, deadline);
}

}  // namespace dlc
