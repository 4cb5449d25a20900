#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checks/rank_results.h"
#include "probes/observations/storage.h"

namespace dlc {

using StorageSpeedResults = std::vector<RankResult<StorageSpeed>>;

/// A refusal of O_DIRECT is a property of the file system, not a failure of the transfer.
bool IsNoDirect(const StorageTransfer& transfer);

/// One pass of all ranks at once, or of one rank alone.
struct StoragePass {
  std::string direction;
  double bytes_per_second = 0;
  double seconds = 0;  ///< from the first start to the last end
  std::int64_t block_bytes = 0;
  std::int64_t bytes = 0;  ///< of all ranks
  bool direct = false;
  bool cold = true;
  /// The rate of the second half's bytes against the first's, all ranks; 0: nobody can tell, or a
  /// write that spent more of its time in fsync than a quarter: its quarters were the cache's.
  double share_of_first_half = 0;
};

/// Those passes of all ranks that ended on all of them. None unless every rank was seen.
std::vector<StoragePass> PassesOfAll(const StorageSpeedResults& results);
/// The best block size counts: a training job may choose its own. A cold one, where `cold`.
std::optional<StoragePass> BestPass(const std::vector<StoragePass>& passes,
                                    std::string_view direction, bool cold);
/// The pass of one rank alone; nullopt if there was none or it did not end, or, of a read, if it
/// may have come from its page cache.
std::optional<StoragePass> PassAlone(const StorageSpeedResults& results,
                                     std::string_view direction);

/// "123456 bytes/s with 4096-byte blocks and O_DIRECT".
std::string StorageRateText(const StoragePass& pass);

/// One phase over small files on all ranks at once.
struct MetadataRate {
  std::string name;
  std::int64_t done = 0;  ///< of all ranks
  double per_second = 0;
  bool other_node = false;
};
/// Those that ended without an error on every rank. None unless every rank was seen.
std::vector<MetadataRate> MetadataRates(const StorageSpeedResults& results);

}  // namespace dlc
