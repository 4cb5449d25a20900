#include "checks/wire_bytes.h"

#include <doctest/doctest.h>

namespace dlc {
namespace {

CollectiveMeasurement Row(const char* collective, std::int64_t bytes, int ranks, int iterations) {
  CollectiveMeasurement row;
  row.collective = collective;
  row.size_bytes = bytes;
  row.ranks = ranks;
  row.operations = iterations;
  return row;
}

TEST_CASE("wire bytes: the table of an all-reduce over 8 ranks on 2 nodes") {
  const auto bytes = ExpectedWireBytes("all_reduce", 800, 8, 2);
  REQUIRE(bytes.has_value());
  CHECK(bytes->ring_per_rank == doctest::Approx(1400));
  CHECK(bytes->ring_per_node == doctest::Approx(1400));
  CHECK(bytes->ring_all_nodes == doctest::Approx(2800));
  CHECK(bytes->tree_all_nodes == doctest::Approx(1600));
  CHECK(bytes->least_all_nodes == doctest::Approx(1600));
}

TEST_CASE("wire bytes: all-gather and reduce-scatter have no tree") {
  for (const char* name : {"all_gather", "reduce_scatter"}) {
    const auto bytes = ExpectedWireBytes(name, 800, 8, 4);
    REQUIRE(bytes.has_value());
    CHECK(bytes->ring_per_node == doctest::Approx(700));
    CHECK(bytes->ring_all_nodes == doctest::Approx(2800));
    CHECK(bytes->tree_all_nodes == 0);
    CHECK(bytes->least_all_nodes == doctest::Approx(2400));
  }
}

TEST_CASE("wire bytes: broadcast and send/receive") {
  CHECK(ExpectedWireBytes("broadcast", 100, 4, 4)->ring_all_nodes == 300);
  CHECK(ExpectedWireBytes("send_recv", 100, 4, 2)->ring_all_nodes == 200);
}

TEST_CASE("wire bytes: one node sends nothing, and what does not divide is not known") {
  const auto alone = ExpectedWireBytes("all_reduce", 800, 8, 1);
  REQUIRE(alone.has_value());
  CHECK(alone->ring_per_rank == doctest::Approx(1400));
  CHECK(alone->ring_all_nodes == 0);
  CHECK(alone->least_all_nodes == 0);
  CHECK_FALSE(ExpectedWireBytes("all_reduce", 800, 7, 2).has_value());
  CHECK_FALSE(ExpectedWireBytes("all_reduce", 800, 8, 0).has_value());
  CHECK_FALSE(ExpectedWireBytes("all_to_all", 800, 8, 2).has_value());
}

TEST_CASE("wire bytes: a run's window counts warm-up and check operations") {
  const std::int64_t size = 64 << 20;
  const auto window = ExpectedWindow({Row("all_reduce", size, 2, 22)}, 2);
  REQUIRE(window.has_value());
  // Two ranks on two nodes: S each, by ring and tree alike.
  CHECK(window->least == doctest::Approx(0.95 * 2 * size * 22));
  CHECK(window->most == doctest::Approx(1.2 * 2 * size * 22));
  CHECK(window->Holds(window->least));
  CHECK(window->Holds(window->most));
  CHECK_FALSE(window->Holds(window->least - 1));
  CHECK_FALSE(window->Holds(window->most + 1));
  const auto small = ExpectedWindow({Row("all_reduce", size - 4, 2, 22)}, 2);
  CHECK(small->most > 1.9 * window->most);
  CHECK_FALSE(ExpectedWindow({Row("gather", size, 2, 22)}, 2).has_value());
  CHECK_FALSE(ExpectedWindow({Row("all_reduce", size, 2, 0)}, 2).has_value());  // not told
}

}  // namespace
}  // namespace dlc
