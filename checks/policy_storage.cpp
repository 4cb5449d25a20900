#include "checks/policy_storage.h"

#include "checks/checkpoint_sizes.h"
#include "checks/policy_words.h"
#include "probes/documents/strict_map.h"

namespace dlc {
namespace {

/// Larger than any storage, and a double holds it exactly.
constexpr std::int64_t kMostStorageBytes = 1'000'000'000'000'000'000;
constexpr auto kMostStorageRate = static_cast<double>(kMostStorageBytes);
constexpr double kMostVisibleSeconds = 3600;
constexpr double kMostSaveSeconds = 86'400;
constexpr std::int64_t kLeastTestBytes = std::int64_t{4} << 20;
constexpr std::int64_t kMostTestBytes = std::int64_t{1} << 40;
constexpr std::int64_t kMostParameters = 10'000'000'000'000;
constexpr int kMostSmallFiles = 100'000;

}  // namespace

Result<void> ReadStoragePolicy(const std::string& file, const DocNode& node,
                               const std::string& where, StoragePolicy& storage) {
  StrictMap map(file, node, where);
  map.TextList("filesystems", storage.filesystems);
  map.Whole("minFreeBytes", storage.min_free_bytes, 0, kMostStorageBytes);
  map.Whole("minFreeInodes", storage.min_free_inodes, 0, kMostStorageBytes);
  map.Double("visibleWithinSeconds", storage.visible_within_seconds, 0, kMostVisibleSeconds);
  map.Double("minWriteBytesPerSecond", storage.min_write_bytes_per_second, 0, kMostStorageRate);
  map.Double("minColdReadBytesPerSecond", storage.min_cold_read_bytes_per_second, 0,
             kMostStorageRate);
  map.Whole("parameters", storage.parameters, 1, kMostParameters);
  ReadPolicyWords(map, "predict", CheckpointPresetNames(), storage.predict);
  map.Whole("maxBytesPerRank", storage.max_bytes_per_rank, kLeastTestBytes, kMostTestBytes);
  map.Double("maxSaveSeconds", storage.max_save_seconds, 0, kMostSaveSeconds);
  map.Double("maxRestoreSeconds", storage.max_restore_seconds, 0, kMostSaveSeconds);
  map.Double("minShareOfFirstHalf", storage.min_share_of_first_half, 0, 1);
  if (map.Has("burstBytes")) {
    map.Whole("burstBytes", storage.burst_bytes.emplace(0), 0, kMostStorageBytes);
  }
  map.Int("metadataFiles", storage.metadata_files, 0, kMostSmallFiles);
  map.Double("minMetadataOperationsPerSecond", storage.min_metadata_operations_per_second, 0,
             kMostStorageRate);
  map.Each("minMetadataOperationsPerSecond", [&](const DocNode& demand) -> Result<void> {
    if (storage.min_metadata_operations_per_second > 0 && storage.metadata_files == 0) {
      return map.At(demand,
                    "'" + where +
                        ".minMetadataOperationsPerSecond' cannot stand beside "
                        "'metadataFiles: 0': nothing would be measured",
                    "remove one of them");
    }
    return {};
  });
  return map.Finish();
}

}  // namespace dlc
