#include "probes/node/fsdp/communicator_collectives.h"

#include <bit>
#include <cstddef>
#include <vector>

namespace dlc {

Result<void> CommunicatorCollectives::AllGather(const void* send, void* receive,
                                                std::int64_t send_count, DataType type,
                                                Deadline deadline) {
  return communicator_.AllGather(send, receive, static_cast<std::size_t>(send_count), type,
                                 deadline);
}

Result<void> CommunicatorCollectives::ReduceScatter(const void* send, void* receive,
                                                    std::int64_t receive_count, DataType type,
                                                    ReduceOp op, Deadline deadline) {
  return communicator_.ReduceScatter(send, receive, static_cast<std::size_t>(receive_count), type,
                                     op, deadline);
}

Result<void> CommunicatorCollectives::AddUp(double* value, Deadline deadline) {
  // Communicators have no double: its bits go to all, and each adds them in the order of ranks.
  const auto mine = std::bit_cast<std::int64_t>(*value);
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator_.size()));
  if (auto done = communicator_.AllGather(&mine, all.data(), 1, DataType::kInt64, deadline);
      !done) {
    return done;
  }
  double sum = 0;
  for (const std::int64_t bits : all) {
    sum += std::bit_cast<double>(bits);
  }
  *value = sum;
  return {};
}

}  // namespace dlc
