#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace dlc {

/// The formulas of nccl-tests 2.19.6 (src/all_reduce.cu, all_gather.cu, reduce_scatter.cu,
/// broadcast.cu, sendrecv.cu; doc/PERFORMANCE.md), so that numbers compare. GB there is 1e9 bytes.
enum class Collective : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kSendReceive,  ///< each rank to its successor
};

/// "all_reduce", "all_gather", "reduce_scatter", "broadcast", "send_recv".
std::string_view CollectiveName(Collective collective);
/// nullopt for any other name.
std::optional<Collective> ParseCollective(std::string_view name);

/// busbw = algbw * factor. 0 for one rank where the formula has n - 1.
double BusFactor(Collective collective, int ranks);

/// What a row of nccl-tests with the asked size moves.
struct RowShape {
  std::size_t send_count = 0;  ///< elements each rank passes in
  std::size_t receive_count = 0;
  std::size_t size_bytes = 0;  ///< the printed size; S of algbw = S / t
};

/// All-gather and reduce-scatter round the per-rank part down to a multiple of 16 bytes, so their
/// size may be smaller than asked.
RowShape ShapeOfRow(Collective collective, std::size_t asked_bytes, std::size_t element_bytes,
                    int ranks);

/// 0 when seconds is not positive.
double AlgorithmBandwidth(std::size_t size_bytes, double seconds);
double BusBandwidth(Collective collective, std::size_t size_bytes, int ranks, double seconds);

}  // namespace dlc
