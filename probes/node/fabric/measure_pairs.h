#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "probes/node/fabric/transport.h"

namespace dlc {

struct PairOptions {
  /// Rounded up to multiples of 8.
  std::vector<std::size_t> sizes_bytes = {8, 4096, 65536, 1 << 20};
  int warm_up = 20;
  int latency_iterations = 200;
  int bandwidth_messages = 64;
  int window = 16;  ///< messages on their way at once in the bandwidth part
  std::uint64_t seed = 1;
  /// For self-tests: this rank flips one bit of what it sends in the last of the timed exchanges.
  int planted_bit_flip_on_rank = -1;
  std::chrono::milliseconds step_limit{30'000};  ///< for one size of one pair
};

/// Every pair of 0 .. size-1 once, in rounds of disjoint pairs (the circle method of tournaments).
std::vector<std::vector<std::pair<int, int>>> PairRounds(int size);

/// Ping-pong and windowed bandwidth of every pair, one pair at a time while the others wait. All
/// ranks together; each returns the same. What arrives is compared bit for bit.
FabricMeasurements MeasurePairs(FabricTransport& transport, const PairOptions& options,
                                Deadline deadline);

}  // namespace dlc
