#include "checks/policy_fabric.h"

#include <algorithm>
#include <utility>

#include "probes/documents/strict_map.h"

namespace dlc {
namespace {

constexpr int kMostInterfaces = 1'000;
constexpr int kMostMessageBytes = 1 << 30;
constexpr double kMostRate = 1e18;
constexpr double kLeastLatency = 1e-9;
constexpr double kMostLatency = 3600;
/// Pairs move whole elements of 8 bytes, so that nothing else is ever measured.
constexpr int kPairElement = 8;

Error NotInFabric(std::string message, std::string hint = "") {
  return Error{ErrorCode::kInvalidInput, std::move(message), std::move(hint)};
}

void ReadSize(StrictMap& map, std::int64_t& out) {
  int bytes = 0;
  map.Require("sizeBytes");
  map.Int("sizeBytes", bytes, 1, kMostMessageBytes);
  out = bytes;
}

void ReadPairSize(StrictMap& map, std::int64_t& out) {
  ReadSize(map, out);
  map.Each("sizeBytes", [&out](const DocNode& text) -> Result<void> {
    return out % kPairElement == 0 ? Result<void>()
                                   : NotInFabric("must be a multiple of 8, not " + text.Describe());
  });
}

void ReadRate(StrictMap& map, double& out) {
  map.Require("bytesPerSecond");
  map.Double("bytesPerSecond", out, 1, kMostRate);
}

class FabricPolicyReader {
 public:
  FabricPolicyReader(std::string file, std::string where, FabricPolicy& fabric)
      : file_(std::move(file)), where_(std::move(where)), fabric_(fabric) {}

  Result<void> Read(const DocNode& node) {
    StrictMap map(file_, node, where_);
    map.Choice("efa", fabric_.efa, {"required", "when-available", "no"});
    map.Int("interfacesPerWorkerPod", fabric_.interfaces_per_worker_pod, 1, kMostInterfaces);
    map.Demand("resource", fabric_.resource);
    map.Demand("provider", fabric_.provider);
    map.Each("minPairBandwidth", [this](const DocNode& part) { return PairBandwidth(part); });
    map.Each("maxPairLatency", [this](const DocNode& part) { return PairLatency(part); });
    map.Items("minBusBandwidth", [this](const DocNode& part) { return BusBandwidth(part); });
    return map.Finish();
  }

 private:
  Result<void> PairBandwidth(const DocNode& node) {
    StrictMap map(file_, node, where_ + ".minPairBandwidth");
    PairBandwidthLimit& limit = fabric_.min_pair_bandwidth.emplace();
    ReadPairSize(map, limit.size_bytes);
    ReadRate(map, limit.bytes_per_second);
    return map.Finish();
  }

  Result<void> PairLatency(const DocNode& node) {
    StrictMap map(file_, node, where_ + ".maxPairLatency");
    PairLatencyLimit& limit = fabric_.max_pair_latency.emplace();
    ReadPairSize(map, limit.size_bytes);
    map.Require("seconds");
    map.Double("seconds", limit.seconds, kLeastLatency, kMostLatency);
    return map.Finish();
  }

  Result<void> BusBandwidth(const DocNode& node) {
    auto& limits = fabric_.min_bus_bandwidth;
    StrictMap map(file_, node, where_ + ".minBusBandwidth[" + std::to_string(limits.size()) + "]");
    BusBandwidthLimit limit;
    map.Require("collective");
    map.Choice("collective", limit.collective,
               {"all_reduce", "all_gather", "reduce_scatter", "broadcast"});
    ReadSize(map, limit.size_bytes);
    ReadRate(map, limit.bytes_per_second);
    if (auto done = map.Finish(); !done) {
      return done;
    }
    const bool twice = std::any_of(limits.begin(), limits.end(), [&](const auto& other) {
      return other.collective == limit.collective && other.size_bytes == limit.size_bytes;
    });
    if (twice) {
      return NotInFabric("is given twice for this collective and size");
    }
    limits.push_back(std::move(limit));
    return {};
  }

  std::string file_;
  std::string where_;
  FabricPolicy& fabric_;
};

}  // namespace

Result<void> ReadFabricPolicy(const std::string& file, const DocNode& node,
                              const std::string& where, FabricPolicy& fabric) {
  return FabricPolicyReader(file, where, fabric).Read(node);
}

}  // namespace dlc
