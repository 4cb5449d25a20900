#include "probes/node/fsdp/layout_controls.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace dlc {
namespace {

/// Two shards of 8 elements, the last two of the second filling.
ShardBuffer Part() {
  return {{{0, 0, 0, 0, 8}, {1, 0, 8, 0, 6}, {1, ShardRun::kFilling, 6, 6, 2}}, 8, 3};
}
/// The second shard alone.
ShardBuffer Own() {
  return {{{0, 0, 8, 0, 6}, {0, ShardRun::kFilling, 6, 6, 2}}, 8, 3};
}

std::string Missed(const LayoutControls& controls) {
  std::string missed;
  for (const FsdpControl& control : controls.Seen()) {
    missed += control.planted && !control.caught ? control.name + " " : "";
  }
  return missed;
}

TEST_CASE("controls are planted and found, and what was right is right again") {
  LayoutControls controls;
  const PlaceValues values = ParameterValues(1, 42);
  std::vector<std::uint32_t> gathered(16);
  FillPart(Part(), values, gathered.data());
  const auto before = gathered;
  controls.PlantInGathered(Part(), values, ParameterValues(0, 42), gathered.data());
  CHECK(gathered == before);
  std::vector<std::uint32_t> sums(8);
  FillPart(Own(), GradientSums(1, 2), sums.data());
  const auto sums_before = sums;
  controls.PlantInSums(Own(), GradientSums(1, 2), GradientValues(1, 0), sums.data());
  CHECK(sums == sums_before);
  REQUIRE(controls.Seen().size() == 4);
  for (const FsdpControl& control : controls.Seen()) {
    CHECK(control.planted);
    CHECK(control.caught);
  }
}

TEST_CASE("damage that makes no difference is told as missed") {
  LayoutControls controls;
  const PlaceValues values = ParameterValues(1, 0);
  std::vector<std::uint32_t> gathered(16);
  FillPart(Part(), values, gathered.data());
  controls.PlantInGathered(Part(), values, values, gathered.data());
  CHECK(Missed(controls) == "stale-shard ");
  std::vector<std::uint32_t> sums(8);
  FillPart(Own(), GradientSums(1, 2), sums.data());
  const PlaceValues nothing{0, 0, 0, 0};
  controls.PlantInSums(Own(), GradientSums(1, 2), nothing, sums.data());
  CHECK(Missed(controls) == "stale-shard dropped-rank ");
}

TEST_CASE("where there is nothing to damage nothing is planted") {
  LayoutControls controls;
  const ShardBuffer filling{{{0, ShardRun::kFilling, 0, 0, 8}}, 8, 0};
  std::vector<std::uint32_t> data(8);
  controls.PlantInGathered(filling, ParameterValues(1, 0), ParameterValues(0, 0), data.data());
  controls.PlantInSums(filling, GradientSums(1, 2), GradientValues(1, 0), data.data());
  for (const FsdpControl& control : controls.Seen()) {
    CHECK_FALSE(control.planted);
  }
}

TEST_CASE("gradients of ranks sum to what owners expect, and no rank's can be spared") {
  for (const int ranks : {1, 2, 3, 7, 8}) {
    const PlaceValues sums = GradientSums(1, ranks);
    for (std::int64_t element = 0; element < 100; ++element) {
      std::uint32_t sum = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const PlaceValues one = GradientValues(1, rank);
        sum += one.At(one.Key(5), element);
        CHECK(one.At(one.Key(5), element) != 0);
      }
      CHECK(sum == sums.At(sums.Key(5), element));
    }
  }
}

TEST_CASE("ranges of a shard do not overlap, and have all that lies around its cuts") {
  const UnitRuns unit{
      2, 100, {{0, 0, 0, 0, 60}, {0, 1, 0, 60, 40}, {1, 0, 60, 0, 55}, {1, 2, 0, 55, 45}}};
  const auto covered = [](const std::vector<ElementRange>& ranges, std::int64_t most) {
    std::vector<int> times(100);
    for (const ElementRange& range : ranges) {
      CHECK(range.count > 0);
      CHECK(range.count <= most);
      for (std::int64_t i = 0; i < range.count; ++i) {
        ++times[static_cast<std::size_t>(range.from + i)];
      }
    }
    return times;
  };
  CHECK(covered(WholeShard(unit, 7), 7) == std::vector<int>(100, 1));
  const auto cuts = covered(AroundCuts(unit, 3, 4), 4);
  for (int i = 0; i < 100; ++i) {
    const bool near = i < 3 || (i >= 52 && i < 63) || i >= 97;
    CAPTURE(i);
    CHECK(cuts[static_cast<std::size_t>(i)] == (near ? 1 : 0));
  }
}

}  // namespace
}  // namespace dlc
