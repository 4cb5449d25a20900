#include "cmd/dlc-probe/fabric_parameters.h"

#include <cstdint>
#include <vector>

#include "kernels/bus_bandwidth.h"
#include "probes/observations/plan.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 32;
constexpr int kMostTimes = 1'000'000;
constexpr int kMostOnTheirWay = 1024;
/// Of a rank's buffers: a preflight must not be what fills the memory.
constexpr std::int64_t kMostWindowBytes = std::int64_t{1} << 33;

Result<void> CheckRange(const char* name, std::int64_t value, std::int64_t least,
                        std::int64_t most) {
  if (value >= least && value <= most) {
    return {};
  }
  return Error{ErrorCode::kInvalidInput,
               std::string("$.") + name + ": must be from " + std::to_string(least) + " to " +
                   std::to_string(most) + ", not " + std::to_string(value),
               ""};
}

Result<void> CheckSizes(const std::vector<std::int64_t>& sizes, int on_their_way) {
  if (sizes.empty()) {
    return Error{ErrorCode::kInvalidInput, "$.sizesBytes: there is nothing to send", ""};
  }
  for (const std::int64_t size : sizes) {
    if (auto good = CheckRange("sizesBytes", size, 0, kMostBytes); !good) {
      return good;
    }
    if (size * on_their_way > kMostWindowBytes) {
      return Error{ErrorCode::kInvalidInput,
                   "$.window: " + std::to_string(on_their_way) + " messages of " +
                       std::to_string(size) + " bytes take more than 8 GiB of memory",
                   ""};
    }
  }
  return {};
}

/// The first that is not good.
Result<void> First(const std::vector<Result<void>>& all) {
  for (const Result<void>& one : all) {
    if (!one) {
      return one;
    }
  }
  return {};
}

}  // namespace

Result<void> CheckFabricPairsParameters(const std::string& parameters) {
  const auto p = ParseFacts<FabricPairsParameters>(parameters);
  if (!p) {
    return p.error();
  }
  return First({CheckRange("warmUp", p->warm_up, 0, kMostTimes),
                CheckRange("iterations", p->iterations, 1, kMostTimes),
                CheckRange("messages", p->messages, 1, kMostTimes),
                CheckRange("window", p->window, 1, kMostOnTheirWay),
                CheckSizes(p->sizes_bytes, p->window)});
}

Result<void> CheckFabricCollectivesParameters(const std::string& parameters) {
  const auto p = ParseFacts<FabricCollectivesParameters>(parameters);
  if (!p) {
    return p.error();
  }
  if (p->collectives.empty()) {
    return Error{ErrorCode::kInvalidInput, "$.collectives: there is nothing to do", ""};
  }
  for (const std::string& name : p->collectives) {
    if (!ParseCollective(name)) {
      return Error{ErrorCode::kInvalidInput, "$.collectives: there is no collective '" + name + "'",
                   "all_reduce, all_gather, reduce_scatter, broadcast, send_recv"};
    }
  }
  return First({CheckRange("warmUp", p->warm_up, 0, kMostTimes),
                CheckRange("iterations", p->iterations, 1, kMostTimes),
                CheckSizes(p->sizes_bytes, 1)});
}

}  // namespace dlc
