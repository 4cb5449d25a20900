#pragma once

#include <string_view>

#include "checks/check.h"
#include "checks/fabric_rows.h"

namespace dlc {

/// Rules of fabric-bandwidth about how fast. Ranks on one machine measure its loopback, and more
/// ranks than CPUs measure each other's waiting: such rows are shown and held against no limit.
inline constexpr std::string_view kPairLatencyRule = "fabric-bandwidth/pair-latency";
inline constexpr std::string_view kPairBandwidthRule = "fabric-bandwidth/pair-bandwidth";
inline constexpr std::string_view kBusBandwidthRule = "fabric-bandwidth/bus-bandwidth";

void JudgePairSpeed(const RankRun& run, const FabricRows& rows, const FabricPolicy& policy,
                    Judge& judge);
void JudgeBusSpeed(const FabricRows& rows, const FabricPolicy& policy, Judge& judge);

}  // namespace dlc
