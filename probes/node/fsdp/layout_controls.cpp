#include "probes/node/fsdp/layout_controls.h"

#include <algorithm>
#include <string>

namespace dlc {
namespace {

constexpr const char* kSwapped = "swapped-shards";
constexpr const char* kStale = "stale-shard";
constexpr const char* kFlipped = "flipped-bit";
constexpr const char* kDropped = "dropped-rank";

/// The first wrong element lies among those that were damaged.
bool Caught(const ComparedElements& seen, std::int64_t from, std::int64_t count) {
  return seen.wrong > 0 && seen.first_at >= from && seen.first_at < from + count;
}

const ShardRun* FirstElements(const ShardBuffer& part) {
  const auto it = std::find_if(part.runs.begin(), part.runs.end(), [](const ShardRun& run) {
    return run.parameter != ShardRun::kFilling;
  });
  return it == part.runs.end() ? nullptr : &*it;
}

/// Those runs of one shard that are of parameters.
ShardBuffer ElementsOf(const ShardBuffer& part, int shard) {
  ShardBuffer some{{}, part.stride, part.first_index};
  std::copy_if(part.runs.begin(), part.runs.end(), std::back_inserter(some.runs),
               [&](const ShardRun& run) {
                 return run.shard == shard && run.parameter != ShardRun::kFilling;
               });
  return some;
}

}  // namespace

LayoutControls::LayoutControls() {
  for (const char* name : {kSwapped, kStale, kFlipped, kDropped}) {
    controls_.push_back({name, false, false});
  }
}

FsdpControl& LayoutControls::Named(const char* name) {
  return *std::find_if(controls_.begin(), controls_.end(),
                       [&](const FsdpControl& control) { return control.name == name; });
}

void LayoutControls::Swap(const ShardBuffer& part, const PlaceValues& values, std::uint32_t* data) {
  const ShardRun* first = FirstElements(part);
  const bool several = first != nullptr && part.runs.back().shard > first->shard;
  if (!several) {
    return;
  }
  std::uint32_t* one = data + first->shard * part.stride;
  std::uint32_t* other = one + part.stride;
  std::swap_ranges(one, other, other);
  Named(kSwapped) = {kSwapped, true,
                     Caught(ComparePart(part, values, data), one - data, 2 * part.stride)};
  std::swap_ranges(one, other, other);
}

void LayoutControls::Stale(const ShardBuffer& part, const PlaceValues& values,
                           const PlaceValues& stale, std::uint32_t* data) {
  const ShardRun* first = FirstElements(part);
  if (first == nullptr) {
    return;
  }
  const ShardBuffer shard = ElementsOf(part, first->shard);
  FillPart(shard, stale, data);
  Named(kStale) = {
      kStale, true,
      Caught(ComparePart(part, values, data), first->shard * part.stride, part.stride)};
  FillPart(shard, values, data);
}

void LayoutControls::Flip(const ShardBuffer& part, const PlaceValues& values, std::uint32_t* data) {
  const ShardRun* first = FirstElements(part);
  if (first == nullptr) {
    return;
  }
  const std::int64_t at = part.At(*first) + first->count / 2;
  data[at] ^= 1U;
  const ComparedElements seen = ComparePart(part, values, data);
  Named(kFlipped) = {kFlipped, true, seen.wrong == 1 && seen.first_at == at};
  data[at] ^= 1U;
}

void LayoutControls::PlantInGathered(const ShardBuffer& part, const PlaceValues& values,
                                     const PlaceValues& stale, std::uint32_t* data) {
  if (!Named(kSwapped).planted) {
    Swap(part, values, data);
  }
  if (!Named(kStale).planted) {
    Stale(part, values, stale, data);
  }
  if (!Named(kFlipped).planted) {
    Flip(part, values, data);
  }
}

void LayoutControls::PlantInSums(const ShardBuffer& own, const PlaceValues& sums,
                                 const PlaceValues& dropped, std::uint32_t* data) {
  const ShardRun* first = FirstElements(own);
  if (Named(kDropped).planted || first == nullptr) {
    return;
  }
  std::vector<std::uint32_t> share(static_cast<std::size_t>(own.stride));
  FillPart(own, dropped, share.data());
  for (std::size_t i = 0; i < share.size(); ++i) {
    data[i] -= share[i];
  }
  Named(kDropped) = {kDropped, true, Caught(ComparePart(own, sums, data), 0, own.stride)};
  for (std::size_t i = 0; i < share.size(); ++i) {
    data[i] += share[i];
  }
}

}  // namespace dlc
