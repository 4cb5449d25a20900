#include "kernels/bus_bandwidth.h"

namespace dlc {

std::string_view CollectiveName(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kSendReceive:
      break;
  }
  return "send_recv";
}

std::optional<Collective> ParseCollective(std::string_view name) {
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
        Collective::kBroadcast, Collective::kSendReceive}) {
    if (CollectiveName(collective) == name) {
      return collective;
    }
  }
  return std::nullopt;
}

double BusFactor(Collective collective, int ranks) {
  const double n = ranks;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return (n - 1) / n;
    case Collective::kBroadcast:
    case Collective::kSendReceive:
      break;
  }
  return 1;
}

RowShape ShapeOfRow(Collective collective, std::size_t asked_bytes, std::size_t element_bytes,
                    int ranks) {
  const std::size_t count = asked_bytes / element_bytes;
  if (collective != Collective::kAllGather && collective != Collective::kReduceScatter) {
    return {count, count, count * element_bytes};
  }
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t step = 16 / element_bytes;
  const std::size_t part = count / n / step * step;
  const std::size_t total_bytes = part * n * element_bytes;
  return collective == Collective::kAllGather ? RowShape{part, part * n, total_bytes}
                                              : RowShape{part * n, part, total_bytes};
}

double AlgorithmBandwidth(std::size_t size_bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(size_bytes) / seconds : 0;
}

double BusBandwidth(Collective collective, std::size_t size_bytes, int ranks, double seconds) {
  return AlgorithmBandwidth(size_bytes, seconds) * BusFactor(collective, ranks);
}

}  // namespace dlc
