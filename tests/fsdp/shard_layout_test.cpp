#include "probes/node/fsdp/shard_layout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace dlc {
namespace {

constexpr ShardLayout kAllLayouts[] = {ShardLayout::kFsdp2, ShardLayout::kFsdp1,
                                       ShardLayout::kFsdp1Aligned, ShardLayout::kZero3};

std::vector<ModelParameter> Preset(const char* name) {
  return Qwen2Parameters(*Qwen2Preset(name));
}

std::int64_t PaddingOf(const std::vector<ModelParameter>& parameters, int ranks) {
  std::int64_t padding = 0;
  for (int unit = 0; unit <= parameters.back().unit; ++unit) {
    for (const ElementRange& range : Fsdp2Layout(parameters, unit, ranks, 0).unfilled) {
      padding += range.count;
    }
  }
  return padding;
}

TEST_CASE("FSDP2 pads Qwen2.5-1.5B by what each world size must") {
  const auto parameters = Preset("qwen2.5-1.5b");
  for (const int ranks : {1, 2, 4, 8, 16, 32, 64, 128}) {
    CHECK(PaddingOf(parameters, ranks) == 0);
  }
  CHECK(PaddingOf(parameters, 3) == 261232);
  CHECK(PaddingOf(parameters, 5) == 1698356);
  CHECK(PaddingOf(parameters, 6) == 519280);
  CHECK(PaddingOf(parameters, 7) == 1615356);
  CHECK(PaddingOf(parameters, 12) == 1044928);
  CHECK(PaddingOf(parameters, 24) == 2077120);
}

TEST_CASE("every element lies in one shard, and gathered shards are the unit again") {
  const auto parameters = Preset("qwen2-tiny");
  for (const ShardLayout layout : kAllLayouts) {
    for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 600}) {
      CAPTURE(ShardLayoutName(layout));
      CAPTURE(ranks);
      for (int unit = 0; unit <= parameters.back().unit; ++unit) {
        std::vector<int> in_unit(static_cast<std::size_t>(UnitElements(parameters, unit)));
        std::int64_t owned = 0;
        std::int64_t last = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const UnitLayout cut = MakeUnitLayout(layout, parameters, unit, ranks, rank);
          std::int64_t end = 0;
          for (const OwnedPiece& piece : cut.owned) {
            REQUIRE(piece.count > 0);
            REQUIRE(piece.offset >= end);
            end = piece.offset + piece.count;
            owned += piece.count;
          }
          REQUIRE(end <= cut.shard_elements);
        }
        const UnitLayout cut = MakeUnitLayout(layout, parameters, unit, ranks, 0);
        for (const Piece& piece : cut.unshard) {
          for (std::int64_t i = 0; i < piece.count; ++i) {
            ++in_unit[static_cast<std::size_t>(piece.to + i)];
          }
          last = std::max(last, piece.from + piece.count);
        }
        REQUIRE(last <= cut.GatheredElements());
        std::int64_t elements = 0;
        for (const ModelParameter& parameter : parameters) {
          if (parameter.unit == unit) {
            elements += parameter.Elements();
            const auto* from = &in_unit[static_cast<std::size_t>(parameter.unit_offset)];
            REQUIRE(std::all_of(from, from + parameter.Elements(), [](int n) { return n == 1; }));
          }
        }
        std::int64_t unfilled = 0;
        for (const ElementRange& range : cut.unfilled) {
          unfilled += range.count;
        }
        CHECK(owned == elements);
        CHECK(elements + unfilled == cut.GatheredElements());
      }
    }
  }
}

/// Two parameters of 3 x 2 and 5 elements in one unit.
std::vector<ModelParameter> Small() {
  return {{"a", {3, 2}, 0, 0}, {"b", {5}, 0, 8}};
}

TEST_CASE("FSDP2 cuts rows like torch.chunk") {
  // ceil(3/2) = 2 rows of 2, ceil(5/2) = 3 rows of 1.
  const UnitLayout second = Fsdp2Layout(Small(), 0, 2, 1);
  CHECK(second.shard_elements == 7);
  CHECK(second.owned == std::vector<OwnedPiece>{{0, 4, 2, 0}, {1, 3, 2, 4}});
  CHECK(second.unfilled == std::vector<ElementRange>{{9, 2}, {13, 1}});
  // ceil(3/4) = 1 row, ceil(5/4) = 2: rank 3 has no row of either.
  const UnitLayout last = Fsdp2Layout(Small(), 0, 4, 3);
  CHECK(last.shard_elements == 4);
  CHECK(last.owned.empty());
}

TEST_CASE("FSDP1 cuts the flat parameter through what lies at the cut") {
  // 11 elements, 12 with the end filled; rank 1 has 6 to 11.
  const UnitLayout plain = MakeUnitLayout(ShardLayout::kFsdp1, Small(), 0, 2, 1);
  CHECK(plain.shard_elements == 6);
  CHECK(plain.filling == 0);
  CHECK(plain.owned == std::vector<OwnedPiece>{{1, 0, 5, 0}});
  const UnitLayout thirds = MakeUnitLayout(ShardLayout::kFsdp1, Small(), 0, 3, 1);
  CHECK(thirds.owned == std::vector<OwnedPiece>{{0, 4, 2, 0}, {1, 0, 2, 2}});
  // b starts at 8: 13 elements, 14 with the end filled.
  const UnitLayout aligned = MakeUnitLayout(ShardLayout::kFsdp1Aligned, Small(), 0, 2, 1);
  CHECK(aligned.shard_elements == 7);
  CHECK(aligned.filling == 42);
  CHECK(aligned.owned == std::vector<OwnedPiece>{{1, 0, 5, 1}});
  CHECK(aligned.unfilled == std::vector<ElementRange>{{6, 2}, {13, 1}});
}

TEST_CASE("ZeRO-3 cuts each parameter by itself, through rows") {
  const UnitLayout second = MakeUnitLayout(ShardLayout::kZero3, Small(), 0, 2, 1);
  CHECK(second.shard_elements == 6);
  CHECK(second.owned == std::vector<OwnedPiece>{{0, 3, 3, 0}, {1, 3, 2, 3}});
  CHECK(second.unfilled == std::vector<ElementRange>{{11, 1}});
}

TEST_CASE("names of layouts are read back") {
  for (const ShardLayout layout : kAllLayouts) {
    CHECK(ParseShardLayout(ShardLayoutName(layout)) == layout);
  }
  CHECK_FALSE(ParseShardLayout("fsdp3"));
}

}  // namespace
}  // namespace dlc
