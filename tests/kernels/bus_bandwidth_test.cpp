#include "kernels/bus_bandwidth.h"

#include <doctest/doctest.h>

namespace dlc {

TEST_CASE("bus bandwidth factors are those of nccl-tests") {
  CHECK(BusFactor(Collective::kAllReduce, 8) == doctest::Approx(1.75));
  CHECK(BusFactor(Collective::kAllGather, 8) == doctest::Approx(0.875));
  CHECK(BusFactor(Collective::kReduceScatter, 4) == doctest::Approx(0.75));
  CHECK(BusFactor(Collective::kBroadcast, 8) == 1);
  CHECK(BusFactor(Collective::kSendReceive, 8) == 1);
  CHECK(BusFactor(Collective::kAllReduce, 1) == 0);
}

TEST_CASE("collectives have names, and no other name is one") {
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
        Collective::kBroadcast, Collective::kSendReceive}) {
    CHECK(ParseCollective(CollectiveName(collective)) == collective);
  }
  CHECK_FALSE(ParseCollective("allreduce").has_value());
}

TEST_CASE("all-gather and reduce-scatter rows round the part of a rank to 16 bytes") {
  // 1 MiB of float32 over 3 ranks: 87381 elements each, rounded down to a multiple of 4.
  const RowShape gather = ShapeOfRow(Collective::kAllGather, 1 << 20, 4, 3);
  CHECK(gather.send_count == 87380);
  CHECK(gather.receive_count == 3 * 87380);
  CHECK(gather.size_bytes == 3 * 87380 * 4);
  const RowShape scatter = ShapeOfRow(Collective::kReduceScatter, 1 << 20, 4, 3);
  CHECK(scatter.send_count == gather.receive_count);
  CHECK(scatter.receive_count == gather.send_count);
  const RowShape reduce = ShapeOfRow(Collective::kAllReduce, 1 << 20, 4, 3);
  CHECK(reduce.send_count == 1 << 18);
  CHECK(reduce.size_bytes == 1 << 20);
  CHECK(ShapeOfRow(Collective::kAllGather, 8, 4, 3).size_bytes == 0);
}

TEST_CASE("bandwidth is size over time, and no time is no bandwidth") {
  CHECK(AlgorithmBandwidth(1'000'000'000, 0.5) == doctest::Approx(2e9));
  CHECK(BusBandwidth(Collective::kAllReduce, 1'000'000'000, 4, 0.5) == doctest::Approx(3e9));
  CHECK(AlgorithmBandwidth(1, 0) == 0);
}

}  // namespace dlc
