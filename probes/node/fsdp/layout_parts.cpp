#include "probes/node/fsdp/layout_parts.h"

#include <algorithm>

#include "probes/node/fsdp/layout_definition.h"

namespace dlc {
namespace {

/// The parameter that holds an element of the unit's buffer; its index, or -1 in a gap.
int ParameterAt(const std::vector<ModelParameter>& unit, std::int64_t in_unit) {
  const auto after =
      std::upper_bound(unit.begin(), unit.end(), in_unit,
                       [](std::int64_t at, const ModelParameter& p) { return at < p.unit_offset; });
  if (after == unit.begin()) {
    return -1;
  }
  const auto index = after - unit.begin() - 1;
  const ModelParameter& parameter = unit[static_cast<std::size_t>(index)];
  return in_unit < parameter.unit_offset + parameter.Elements() ? static_cast<int>(index) : -1;
}

/// A run lies right if its first and its last element do, and it does not leave the shard.
bool LiesRight(ShardLayout definition, const std::vector<ModelParameter>& unit, int ranks,
               const ShardRun& run) {
  if (run.parameter < 0 || run.count < 1 || run.first < 0) {
    return false;
  }
  const auto index = static_cast<std::size_t>(run.parameter);
  if (index >= unit.size() || run.first + run.count > unit[index].Elements()) {
    return false;
  }
  const ShardPlace first = DefinedPlace(definition, unit, index, run.first, ranks);
  const ShardPlace last = DefinedPlace(definition, unit, index, run.first + run.count - 1, ranks);
  return first == ShardPlace{run.shard, run.offset} &&
         last == ShardPlace{run.shard, run.offset + run.count - 1};
}

ShardRun RunOfPiece(const Piece& piece, const std::vector<ModelParameter>& unit,
                    std::int64_t shard_elements) {
  ShardRun run;
  run.shard = static_cast<int>(piece.from / shard_elements);
  run.offset = piece.from % shard_elements;
  run.count = piece.count;
  run.parameter = ParameterAt(unit, piece.to);
  run.first = run.parameter < 0
                  ? piece.to
                  : piece.to - unit[static_cast<std::size_t>(run.parameter)].unit_offset;
  return run;
}

template <class List, class Count>
std::int64_t Total(const List& list, Count count) {
  std::int64_t total = 0;
  for (const auto& one : list) {
    total += count(one);
  }
  return total;
}

bool Opposite(const std::vector<Piece>& there, const std::vector<Piece>& back) {
  return std::equal(there.begin(), there.end(), back.begin(), back.end(),
                    [](const Piece& a, const Piece& b) {
                      return a.from == b.to && a.to == b.from && a.count == b.count;
                    });
}

}  // namespace

MisplacedPieces FindMisplaced(ShardLayout definition, const UnitLayout& layout,
                              const std::vector<ModelParameter>& unit, int first_index, int rank) {
  MisplacedPieces misplaced;
  const auto note = [&](const ShardRun& run) {
    misplaced.first = misplaced.count == 0 ? run : misplaced.first;
    ++misplaced.count;
  };
  if (layout.shard_elements != DefinedShardElements(definition, unit, layout.ranks) ||
      layout.shard_elements < 1 || !Opposite(layout.unshard, layout.pack_gradient)) {
    note({rank, 0, 0, 0, layout.shard_elements});
    return misplaced;
  }
  std::int64_t own = 0;
  for (const Piece& piece : layout.unshard) {
    const ShardRun run = RunOfPiece(piece, unit, layout.shard_elements);
    if (!LiesRight(definition, unit, layout.ranks, run)) {
      note(run);
    }
    own += run.shard == rank ? run.count : 0;
  }
  for (const OwnedPiece& piece : layout.owned) {
    const ShardRun run{rank, piece.parameter - first_index, piece.first, piece.offset, piece.count};
    if (!LiesRight(definition, unit, layout.ranks, run)) {
      note(run);
    }
  }
  const std::int64_t elements = Total(unit, [](const auto& p) { return p.Elements(); });
  const auto count = [](const auto& piece) { return piece.count; };
  const bool complete = Total(layout.unshard, count) == elements &&
                        Total(layout.owned, count) == own &&
                        Total(layout.unfilled, count) == layout.GatheredElements() - elements;
  if (misplaced.count == 0 && !complete) {
    note({rank, 0, 0, 0, elements});
  }
  return misplaced;
}

UnitRuns RunsOf(const UnitLayout& layout, const std::vector<ModelParameter>& unit) {
  UnitRuns all{layout.ranks, layout.shard_elements, {}};
  const auto add_filling = [&](std::int64_t from, std::int64_t count) {
    while (count > 0) {
      const std::int64_t offset = from % layout.shard_elements;
      const std::int64_t here = std::min(count, layout.shard_elements - offset);
      all.runs.push_back({static_cast<int>(from / layout.shard_elements), ShardRun::kFilling,
                          offset, offset, here});
      from += here;
      count -= here;
    }
  };
  for (const Piece& piece : layout.unshard) {
    all.runs.push_back(RunOfPiece(piece, unit, layout.shard_elements));
  }
  for (const ElementRange& range : layout.unfilled) {
    add_filling(range.from, range.count);
  }
  std::sort(all.runs.begin(), all.runs.end(), [](const ShardRun& a, const ShardRun& b) {
    return a.shard != b.shard ? a.shard < b.shard : a.offset < b.offset;
  });
  return all;
}

std::vector<ElementRange> WholeShard(const UnitRuns& unit, std::int64_t most) {
  std::vector<ElementRange> ranges;
  for (std::int64_t from = 0; from < unit.shard_elements; from += most) {
    ranges.push_back({from, std::min(most, unit.shard_elements - from)});
  }
  return ranges;
}

std::vector<ElementRange> AroundCuts(const UnitRuns& unit, std::int64_t around, std::int64_t most) {
  std::vector<std::int64_t> cuts;
  for (const ShardRun& run : unit.runs) {
    cuts.push_back(run.offset);
    cuts.push_back(run.offset + run.count);
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<ElementRange> ranges;
  std::int64_t done = 0;
  for (const std::int64_t cut : cuts) {
    const std::int64_t to = std::min(cut + around, unit.shard_elements);
    for (std::int64_t from = std::max(cut - around, done); from < to; from = done) {
      done = std::min(from + most, to);
      ranges.push_back({from, done - from});
    }
  }
  return ranges;
}

std::vector<ShardRun> RunsOfRange(const UnitRuns& unit, const ElementRange& range) {
  std::vector<ShardRun> some;
  for (const ShardRun& run : unit.runs) {
    const std::int64_t from = std::max(run.offset, range.from);
    const std::int64_t to = std::min(run.offset + run.count, range.from + range.count);
    if (from < to) {
      some.push_back(
          {run.shard, run.parameter, run.first + from - run.offset, from - range.from, to - from});
    }
  }
  return some;
}

}  // namespace dlc
