#include "probes/node/fsdp/shard_layout.h"

#include <algorithm>
#include <array>
#include <utility>

namespace dlc {
namespace {

constexpr std::array<std::pair<std::string_view, ShardLayout>, 4> kNames = {{
    {"fsdp2", ShardLayout::kFsdp2},
    {"fsdp1", ShardLayout::kFsdp1},
    {"fsdp1-aligned", ShardLayout::kFsdp1Aligned},
    {"zero3", ShardLayout::kZero3},
}};

// torch/distributed/fsdp/_flat_param.py: _FLAT_PARAM_PADDING_VALUE, and 16 bytes of the forward's
// type.
constexpr float kFlatFilling = 42;
constexpr std::int64_t kFlatAlignment = 8;

std::int64_t CeilDivide(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

/// Where every rank's part of one unit lies.
struct AllShards {
  std::int64_t shard_elements = 0;
  std::vector<std::vector<OwnedPiece>> by_rank;
};

/// Each parameter cut by itself, ceil(slices/n) slices of `slice` elements a rank.
AllShards CutEach(const std::vector<ModelParameter>& parameters, const std::vector<int>& chosen,
                  int ranks, bool by_rows) {
  AllShards all{0, std::vector<std::vector<OwnedPiece>>(static_cast<std::size_t>(ranks))};
  for (const int index : chosen) {
    const ModelParameter& parameter = parameters[static_cast<std::size_t>(index)];
    const std::int64_t slice = by_rows ? parameter.RowElements() : 1;
    const std::int64_t part = CeilDivide(parameter.Elements() / slice, ranks) * slice;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t first = rank * part;
      const std::int64_t count = std::min(part, parameter.Elements() - first);
      if (count > 0) {
        all.by_rank[static_cast<std::size_t>(rank)].push_back(
            {index, first, count, all.shard_elements});
      }
    }
    all.shard_elements += part;
  }
  return all;
}

/// All parameters in one flat tensor, which is cut.
AllShards CutFlat(const std::vector<ModelParameter>& parameters, const std::vector<int>& chosen,
                  int ranks, std::int64_t alignment) {
  std::vector<OwnedPiece> flat;
  std::int64_t end = 0;
  for (const int index : chosen) {
    const std::int64_t start = CeilDivide(end, alignment) * alignment;
    const std::int64_t count = parameters[static_cast<std::size_t>(index)].Elements();
    flat.push_back({index, 0, count, start});
    end = start + count;
  }
  AllShards all{CeilDivide(end, ranks),
                std::vector<std::vector<OwnedPiece>>(static_cast<std::size_t>(ranks))};
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t shard = rank * all.shard_elements;
    for (const OwnedPiece& whole : flat) {
      const std::int64_t from = std::max(whole.offset, shard);
      const std::int64_t to = std::min(whole.offset + whole.count, shard + all.shard_elements);
      if (from < to) {
        all.by_rank[static_cast<std::size_t>(rank)].push_back(
            {whole.parameter, from - whole.offset, to - from, from - shard});
      }
    }
  }
  return all;
}

AllShards Cut(ShardLayout layout, const std::vector<ModelParameter>& parameters,
              const std::vector<int>& chosen, int ranks) {
  switch (layout) {
    case ShardLayout::kFsdp1:
      return CutFlat(parameters, chosen, ranks, 1);
    case ShardLayout::kFsdp1Aligned:
      return CutFlat(parameters, chosen, ranks, kFlatAlignment);
    case ShardLayout::kZero3:
      return CutEach(parameters, chosen, ranks, false);
    case ShardLayout::kFsdp2:
      break;
  }
  return CutEach(parameters, chosen, ranks, true);
}

}  // namespace

std::string_view ShardLayoutName(ShardLayout layout) {
  const auto* const it = std::find_if(kNames.begin(), kNames.end(),
                                      [&](const auto& name) { return name.second == layout; });
  return it->first;
}

std::optional<ShardLayout> ParseShardLayout(std::string_view name) {
  const auto* const it = std::find_if(kNames.begin(), kNames.end(),
                                      [&](const auto& known) { return known.first == name; });
  return it == kNames.end() ? std::nullopt : std::optional(it->second);
}

UnitLayout MakeUnitLayoutOf(ShardLayout layout, const std::vector<ModelParameter>& parameters,
                            const std::vector<int>& chosen, int ranks, int rank) {
  AllShards all = Cut(layout, parameters, chosen, ranks);
  UnitLayout unit;
  unit.ranks = ranks;
  unit.shard_elements = all.shard_elements;
  unit.filling = layout == ShardLayout::kFsdp1Aligned ? kFlatFilling : 0.0F;
  std::int64_t covered = 0;
  const auto leave_until = [&](std::int64_t next) {
    if (next > covered) {
      unit.unfilled.push_back({covered, next - covered});
    }
  };
  for (std::int64_t owner = 0; owner < ranks; ++owner) {
    for (const OwnedPiece& piece : all.by_rank[static_cast<std::size_t>(owner)]) {
      const std::int64_t gathered = owner * all.shard_elements + piece.offset;
      const std::int64_t in_unit =
          parameters[static_cast<std::size_t>(piece.parameter)].unit_offset + piece.first;
      unit.unshard.push_back({gathered, in_unit, piece.count});
      unit.pack_gradient.push_back({in_unit, gathered, piece.count});
      leave_until(gathered);
      covered = gathered + piece.count;
    }
  }
  leave_until(unit.GatheredElements());
  unit.owned = std::move(all.by_rank[static_cast<std::size_t>(rank)]);
  return unit;
}

std::vector<int> ParametersOf(const std::vector<ModelParameter>& parameters, int unit) {
  std::vector<int> chosen;
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    if (parameters[index].unit == unit) {
      chosen.push_back(static_cast<int>(index));
    }
  }
  return chosen;
}

UnitLayout MakeUnitLayout(ShardLayout layout, const std::vector<ModelParameter>& parameters,
                          int unit, int ranks, int rank) {
  return MakeUnitLayoutOf(layout, parameters, ParametersOf(parameters, unit), ranks, rank);
}

}  // namespace dlc
