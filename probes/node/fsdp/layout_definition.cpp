#include "probes/node/fsdp/layout_definition.h"

namespace dlc {
namespace {

std::int64_t Up(std::int64_t value, std::int64_t to) {
  return value % to == 0 ? value : value + to - value % to;
}

bool IsFlat(ShardLayout layout) {
  return layout == ShardLayout::kFsdp1 || layout == ShardLayout::kFsdp1Aligned;
}

/// Elements of a parameter that each rank gets, where it is cut by itself.
std::int64_t PartOf(ShardLayout layout, const ModelParameter& parameter, int ranks) {
  return layout == ShardLayout::kFsdp2
             ? Up(parameter.Rows(), ranks) / ranks * parameter.RowElements()
             : Up(parameter.Elements(), ranks) / ranks;
}

/// Where the first `count` parameters end: in a rank's shard, or in the flat tensor.
std::int64_t EndOf(ShardLayout layout, const std::vector<ModelParameter>& unit, std::size_t count,
                   int ranks) {
  std::int64_t end = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (IsFlat(layout)) {
      end = Up(end, layout == ShardLayout::kFsdp1Aligned ? 8 : 1) + unit[i].Elements();
    } else {
      end += PartOf(layout, unit[i], ranks);
    }
  }
  return end;
}

}  // namespace

std::int64_t DefinedShardElements(ShardLayout layout, const std::vector<ModelParameter>& unit,
                                  int ranks) {
  const std::int64_t end = EndOf(layout, unit, unit.size(), ranks);
  return IsFlat(layout) ? Up(end, ranks) / ranks : end;
}

ShardPlace DefinedPlace(ShardLayout layout, const std::vector<ModelParameter>& unit,
                        std::size_t index, std::int64_t element, int ranks) {
  const std::int64_t before = EndOf(layout, unit, index, ranks);
  if (IsFlat(layout)) {
    const std::int64_t shard = DefinedShardElements(layout, unit, ranks);
    const std::int64_t flat = Up(before, layout == ShardLayout::kFsdp1Aligned ? 8 : 1) + element;
    return {flat / shard, flat % shard};
  }
  const std::int64_t part = PartOf(layout, unit[index], ranks);
  return {element / part, before + element % part};
}

}  // namespace dlc
