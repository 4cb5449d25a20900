#pragma once

#include <string>
#include <string_view>

#include "checks/check.h"
#include "checks/instance_types.h"
#include "probes/observations/nccl.h"
#include "probes/observations/nccl_tests.h"

namespace dlc {

/// Rules of nccl-bandwidth that imported output and ranks share.
inline constexpr std::string_view kNcclBusBandwidth = "nccl-bandwidth/bus-bandwidth";
inline constexpr std::string_view kUncalibrated = "nccl-bandwidth/uncalibrated-share";
inline constexpr std::string_view kMeasurementValid = "nccl-bandwidth/measurement-valid";

/// A limit as a number.
struct LimitInBytes {
  double bytes_per_second = 0;
  bool calibrated = true;  ///< false: a share of the line rate of a type without published numbers
  std::string note;
  std::string why_not;  ///< a share of a line rate that is not known
};
LimitInBytes InBytes(const NcclBandwidthLimit& limit, const InstanceType* type,
                     const std::string& type_name);

/// Bus bandwidth (bytes/s) that no algorithm exceeds on `machines` machines with that line rate,
/// `ranks` / `machines` ranks on each; 0: none is known.
double BusBandwidthBound(std::string_view collective, int ranks, int machines,
                         double line_rate_gbps);

/// nccl-bandwidth on the output of nccl-tests.
void JudgeNcclTests(const NcclTestsFile& file, const Policy& policy, Judge& judge);

}  // namespace dlc
