#include "checks/policy_nccl.h"

#include <algorithm>
#include <utility>

#include "checks/policy_words.h"
#include "probes/documents/strict_map.h"

namespace dlc {
namespace {

/// Buffers of this size, three of them, are in the memory of every GPU that has EFA.
constexpr std::int64_t kMostBytes = std::int64_t{2} << 30;
constexpr int kMostSizes = 64;
constexpr double kMostRate = 1e18;
/// More than the line carries has no meaning as a demand.
constexpr double kLeastShare = 0.001;

const std::vector<std::string> kLevels = {"EFA_PROVEN", "EFA_LOGGED", "any"};

Error NotInNccl(std::string message, std::string hint = "") {
  return Error{ErrorCode::kInvalidInput, std::move(message), std::move(hint)};
}

class NcclPolicyReader {
 public:
  NcclPolicyReader(std::string file, std::string where, NcclPolicy& nccl)
      : file_(std::move(file)), where_(std::move(where)), nccl_(nccl) {}

  Result<void> Read(const DocNode& node) {
    StrictMap map(file_, node, where_);
    map.Choice("measure", nccl_.measure, {"required", "with-ranks", "no"});
    map.Choice("transport", nccl_.transport, kLevels);
    map.Each("transportByInstanceType", [this](const DocNode& types) { return ByType(types); });
    map.Choice("gpuDirect", nccl_.gpu_direct, {"required", "by-instance-type", "no"});
    map.Choice("insideNode", nccl_.inside_node, {"P2P", "any"});
    ReadPolicyWords(map, "collectives", all_.collectives, nccl_.collectives);
    ReadPolicyWords(map, "types", all_.types, nccl_.types);
    map.Items("sizes", [this](const DocNode& size) { return Size(size); });
    map.Bool("tcpControl", nccl_.tcp_control);
    map.Items("minBusBandwidth", [this](const DocNode& limit) { return Limit(limit); });
    Contradictions(map);
    return map.Finish();
  }

 private:
  Result<void> ByType(const DocNode& node) {
    StrictMap map(file_, node, where_ + ".transportByInstanceType");
    for (const DocNode::Entry& entry : node.entries) {
      map.Choice(entry.key, nccl_.transport_of_type[entry.key], kLevels);
    }
    return map.Finish();
  }

  static Result<std::int64_t> Bytes(const DocNode& node) {
    auto bytes = node.AsInt();
    if (!bytes || *bytes < 1 || *bytes > kMostBytes) {
      return NotInNccl("must be a whole number of bytes, 1 to " + std::to_string(kMostBytes) +
                       ", not " + node.Describe());
    }
    return bytes;
  }

  Result<void> Size(const DocNode& node) {
    const auto bytes = Bytes(node);
    if (!bytes) {
      return bytes.error();
    }
    auto& sizes = nccl_.sizes_bytes;
    if (sizes.size() == kMostSizes) {
      return NotInNccl("must not be more than " + std::to_string(kMostSizes) + " sizes");
    }
    if (!sizes.empty() && sizes.back() >= *bytes) {
      return NotInNccl("must ascend: " + node.text + " comes after " +
                       std::to_string(sizes.back()));
    }
    sizes.push_back(*bytes);
    return {};
  }

  Result<void> Limit(const DocNode& node) {
    auto& limits = nccl_.min_bus_bandwidth;
    StrictMap map(file_, node, where_ + ".minBusBandwidth[" + std::to_string(limits.size()) + "]");
    NcclBandwidthLimit limit;
    limit.type = "float32";
    map.Require("collective");
    map.Choice("collective", limit.collective, all_.collectives);
    map.Choice("type", limit.type, all_.types);
    map.Require("sizeBytes");
    map.Each("sizeBytes", [&](const DocNode& size) -> Result<void> {
      const auto bytes = Bytes(size);
      limit.size_bytes = bytes ? *bytes : 0;
      return bytes ? Result<void>() : Result<void>(bytes.error());
    });
    map.Double("bytesPerSecond", limit.bytes_per_second, 1, kMostRate);
    map.Double("shareOfLineRate", limit.share_of_line_rate, kLeastShare, 1);
    if (auto done = map.Finish(); !done) {
      return done;
    }
    if ((limit.bytes_per_second > 0) == (limit.share_of_line_rate > 0)) {
      return NotInNccl("must have one of bytesPerSecond and shareOfLineRate");
    }
    const bool twice = std::any_of(limits.begin(), limits.end(), [&](const auto& other) {
      return other.collective == limit.collective && other.type == limit.type &&
             other.size_bytes == limit.size_bytes;
    });
    if (twice) {
      return NotInNccl("is given twice for this collective, type and size");
    }
    limits.push_back(std::move(limit));
    return {};
  }

  /// A limit of what is not measured would be a demand that nobody ever judges.
  void Contradictions(StrictMap& map) {
    map.Each("minBusBandwidth", [this](const DocNode&) -> Result<void> {
      for (const NcclBandwidthLimit& limit : nccl_.min_bus_bandwidth) {
        if (nccl_.measure == "no") {
          return NotInNccl("cannot be beside 'measure: no'", "remove one of them");
        }
        const auto among = [](const std::vector<std::string>& list, const std::string& word) {
          return std::find(list.begin(), list.end(), word) != list.end();
        };
        if (!among(nccl_.collectives, limit.collective) || !among(nccl_.types, limit.type)) {
          return NotInNccl("is of " + limit.collective + " of " + limit.type +
                           ", which collectives and types leave out");
        }
      }
      return {};
    });
    map.Each("transport", [this](const DocNode&) -> Result<void> {
      return nccl_.measure == "no" && nccl_.transport != "any"
                 ? NotInNccl("cannot be beside 'measure: no'", "remove one of them")
                 : Result<void>();
    });
  }

  const NcclPolicy all_;  ///< of its lists the defaults hold all that there is
  std::string file_;
  std::string where_;
  NcclPolicy& nccl_;
};

}  // namespace

Result<void> ReadNcclPolicy(const std::string& file, const DocNode& node, const std::string& where,
                            NcclPolicy& nccl) {
  return NcclPolicyReader(file, where, nccl).Read(node);
}

}  // namespace dlc
