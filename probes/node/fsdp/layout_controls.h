#pragma once

#include <vector>

#include "probes/node/fsdp/layout_comparison.h"
#include "probes/observations/fsdp.h"

namespace dlc {

/// The damage that a comparison must find, each planted once in the first part where it can be.
class LayoutControls {
 public:
  LayoutControls();

  /// `data` has arrived right and is right again afterwards; `stale` is what the parameters were a
  /// step before.
  void PlantInGathered(const ShardBuffer& part, const PlaceValues& values, const PlaceValues& stale,
                       std::uint32_t* data);
  /// `dropped` is what one rank gave to the sums.
  void PlantInSums(const ShardBuffer& own, const PlaceValues& sums, const PlaceValues& dropped,
                   std::uint32_t* data);

  const std::vector<FsdpControl>& Seen() const { return controls_; }

 private:
  FsdpControl& Named(const char* name);
  void Swap(const ShardBuffer& part, const PlaceValues& values, std::uint32_t* data);
  void Stale(const ShardBuffer& part, const PlaceValues& values, const PlaceValues& stale,
             std::uint32_t* data);
  void Flip(const ShardBuffer& part, const PlaceValues& values, std::uint32_t* data);

  std::vector<FsdpControl> controls_;
};

}  // namespace dlc
