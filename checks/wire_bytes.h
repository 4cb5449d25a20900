#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "probes/observations/fabric.h"

namespace dlc {

/// Payload bytes that one operation sends over the network between nodes. Protocols add to it: LL
/// sends 8 bytes for 4, LL128 128 for 120, Simple next to nothing.
struct WireBytes {
  double ring_per_rank = 0;  ///< sent by each rank of a flat ring, within its node or not
  double ring_per_node = 0;  ///< leaves each node once per channel of the ring
  double ring_all_nodes = 0;
  /// NCCL's double binary tree, which all-reduce may take; 0 where there is none.
  double tree_all_nodes = 0;
  double least_all_nodes = 0;  ///< no algorithm does with less

  bool operator==(const WireBytes&) const = default;
};

/// Of `collective` in CollectiveMeasurement's words over `ranks` ranks on `nodes` nodes, as many on
/// each; `size_bytes` is S of algbw. nullopt: no such collective, or ranks that do not divide.
std::optional<WireBytes> ExpectedWireBytes(std::string_view collective, std::int64_t size_bytes,
                                           int ranks, int nodes);

/// What a witness may have counted.
struct ByteWindow {
  double least = 0;
  double most = 0;

  bool Holds(double bytes) const { return bytes >= least && bytes <= most; }
  bool operator==(const ByteWindow&) const = default;
};

/// Of all nodes together over the rows of a run, warm-up and check included: 0.95 of the least of
/// any algorithm, up to 1.2 of the ring; twice that below 64 MiB, where NCCL may choose LL. nullopt
/// when a row's collective, or how many operations it stands for, is not known.
std::optional<ByteWindow> ExpectedWindow(const std::vector<CollectiveMeasurement>& rows, int nodes);

}  // namespace dlc
