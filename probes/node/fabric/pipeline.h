#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "probes/node/fabric/transport.h"

namespace dlc {

/// A run of messages from one neighbour and to another, in a fixed order, with several on their way
/// at once. Empty pieces are not sent.
struct PipelinePlan {
  struct Source {
    const std::byte* memory;
    std::size_t bytes;
  };
  struct Target {
    std::byte* memory;
    std::size_t bytes;
  };

  int to = -1;  ///< receiver of our pieces
  int from = -1;
  std::size_t sends = 0;
  std::size_t receives = 0;
  std::size_t window = 8;  ///< messages on their way, each direction
  std::function<Source(std::size_t)> send;
  std::function<Target(std::size_t)> receive;
  /// How many receives must be complete before send i may start.
  std::function<std::size_t(std::size_t)> send_after;
  /// How many sends must be complete before receive i may start (its memory is in use until then).
  std::function<std::size_t(std::size_t)> receive_after;
  /// Called in order; `target` as `receive` returned it.
  std::function<void(std::size_t, Target)> received;
};

Result<void> RunPipeline(FabricTransport& transport, const PipelinePlan& plan);

}  // namespace dlc
