#include "checks/wire_bytes.h"

#include <algorithm>

namespace dlc {
namespace {

constexpr double kLeastShare = 0.95;
constexpr double kMostShare = 1.2;
constexpr double kLlFactor = 2;
constexpr std::int64_t kSurelySimple = std::int64_t{64} << 20;

}  // namespace

std::optional<WireBytes> ExpectedWireBytes(std::string_view collective, std::int64_t size_bytes,
                                           int ranks, int nodes) {
  if (ranks <= 0 || nodes <= 0 || ranks % nodes != 0 || size_bytes < 0) {
    return std::nullopt;
  }
  const auto size = static_cast<double>(size_bytes);
  const double n = ranks;
  const double others = nodes - 1;
  WireBytes bytes;
  if (collective == "all_reduce") {
    bytes.ring_per_rank = 2 * (n - 1) / n * size;
    bytes.tree_all_nodes = 2 * others * size;
    bytes.least_all_nodes = 2 * others * size;
  } else if (collective == "all_gather" || collective == "reduce_scatter") {
    bytes.ring_per_rank = (n - 1) / n * size;
    bytes.least_all_nodes = others * size;
  } else if (collective == "send_recv") {
    bytes.ring_per_rank = size;
    bytes.least_all_nodes = nodes * size;  // each to its successor: one rank per node leaves it
  } else if (collective == "broadcast") {
    // A chain from the root: the last rank sends nothing, so no node's share is known beforehand.
    bytes.ring_all_nodes = others * size;
    bytes.least_all_nodes = others * size;
    return bytes;
  } else {
    return std::nullopt;
  }
  if (nodes == 1) {
    return WireBytes{bytes.ring_per_rank, 0, 0, 0, 0};
  }
  bytes.ring_per_node = bytes.ring_per_rank;
  bytes.ring_all_nodes = nodes * bytes.ring_per_node;
  return bytes;
}

std::optional<ByteWindow> ExpectedWindow(const std::vector<CollectiveMeasurement>& rows,
                                         int nodes) {
  ByteWindow window;
  for (const CollectiveMeasurement& row : rows) {
    const auto one = ExpectedWireBytes(row.collective, row.size_bytes, row.ranks, nodes);
    if (!one || row.operations <= 0) {
      return std::nullopt;
    }
    const auto times = static_cast<double>(row.operations);
    const double factor = row.size_bytes >= kSurelySimple ? 1 : kLlFactor;
    window.least += kLeastShare * one->least_all_nodes * times;
    window.most += kMostShare * factor * std::max(one->ring_all_nodes, one->tree_all_nodes) * times;
  }
  return window;
}

}  // namespace dlc
