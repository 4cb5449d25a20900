#include "probes/node/fsdp/layout_comparison.h"

#include <algorithm>

namespace dlc {

void FillPart(const ShardBuffer& part, const PlaceValues& values, std::uint32_t* data) {
  for (const ShardRun& run : part.runs) {
    std::uint32_t* to = data + part.At(run);
    if (run.parameter == ShardRun::kFilling) {
      std::fill(to, to + run.count, values.filling);
      continue;
    }
    const std::uint64_t key = values.Key(part.first_index + run.parameter);
    for (std::int64_t i = 0; i < run.count; ++i) {
      to[i] = values.At(key, run.first + i);
    }
  }
}

namespace {

void CompareRun(const ShardBuffer& part, const ShardRun& run, const PlaceValues& values,
                const std::uint32_t* data, ComparedElements& all) {
  const std::uint32_t* found = data + part.At(run);
  const bool filling = run.parameter == ShardRun::kFilling;
  const std::uint64_t key = filling ? 0 : values.Key(part.first_index + run.parameter);
  const auto expected = [&](std::int64_t i) {
    return filling ? values.filling : values.At(key, run.first + i);
  };
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < run.count; ++i) {
    wrong += found[i] == expected(i) ? 0 : 1;
  }
  if (wrong > 0 && all.wrong == 0) {
    std::int64_t first = 0;
    while (found[first] == expected(first)) {
      ++first;
    }
    all.first_at = part.At(run) + first;
    all.first_run = run;
    all.expected = expected(first);
    all.found = found[first];
  }
  all.compared += run.count;
  all.wrong += wrong;
}

}  // namespace

ComparedElements ComparePart(const ShardBuffer& part, const PlaceValues& values,
                             const std::uint32_t* data) {
  ComparedElements all;
  for (const ShardRun& run : part.runs) {
    CompareRun(part, run, values, data, all);
  }
  return all;
}

}  // namespace dlc
