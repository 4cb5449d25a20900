#include "checks/storage_passes.h"

#include <algorithm>
#include <cstddef>

namespace dlc {
namespace {

constexpr double kMostSyncShare = 0.25;

bool AllSeen(const StorageSpeedResults& results) {
  return !results.empty() && std::all_of(results.begin(), results.end(),
                                         [](const auto& result) { return result.seen.seen(); });
}

std::vector<const StorageTransfer*> TransfersOf(const RankResult<StorageSpeed>& result,
                                                bool alone) {
  std::vector<const StorageTransfer*> some;
  for (const StorageTransfer& transfer : result.seen.value().transfers) {
    if (transfer.alone == alone) {
      some.push_back(&transfer);
    }
  }
  return some;
}

/// Seconds for each half's bytes, of one rank; false where they cannot be told.
bool AddHalves(const StorageTransfer& transfer, double (&seconds)[2], double (&bytes)[2]) {
  if (transfer.quarters.size() != 4 || transfer.sync_seconds > kMostSyncShare * transfer.seconds) {
    return false;
  }
  for (std::size_t i = 0; i < 4; ++i) {
    seconds[i / 2] += transfer.quarters[i].seconds;
    bytes[i / 2] += static_cast<double>(transfer.quarters[i].bytes);
  }
  return true;
}

/// nullopt if it failed anywhere.
std::optional<StoragePass> Combine(const std::vector<const StorageTransfer*>& transfers) {
  StoragePass all;
  double begin = 1e300;
  double end = 0;
  double half_seconds[2] = {0, 0};
  double half_bytes[2] = {0, 0};
  bool halves = true;
  for (const StorageTransfer* transfer : transfers) {
    if (!transfer->error.empty() || transfer->seconds <= 0 || transfer->bytes <= 0) {
      return std::nullopt;
    }
    all.bytes += transfer->bytes;
    begin = std::min(begin, transfer->start_seconds);
    end = std::max(end, transfer->start_seconds + transfer->seconds);
    all.direction = transfer->direction;
    all.block_bytes = transfer->block_bytes;
    all.direct = transfer->direct;
    all.cold = all.cold && !transfer->cold_because.empty();
    halves = AddHalves(*transfer, half_seconds, half_bytes) && halves;
  }
  all.seconds = end - begin;
  all.bytes_per_second = static_cast<double>(all.bytes) / all.seconds;
  if (halves && half_bytes[0] > 0 && half_seconds[0] > 0 && half_seconds[1] > 0) {
    all.share_of_first_half = (half_bytes[1] / half_seconds[1]) / (half_bytes[0] / half_seconds[0]);
  }
  return all;
}

}  // namespace

bool IsNoDirect(const StorageTransfer& transfer) {
  return transfer.direct && (transfer.error == "EINVAL" || transfer.error == "ENOTSUP" ||
                             transfer.error == "EOPNOTSUPP");
}

std::vector<StoragePass> PassesOfAll(const StorageSpeedResults& results) {
  std::vector<StoragePass> passes;
  if (!AllSeen(results)) {
    return passes;
  }
  const std::size_t count = TransfersOf(results.front(), false).size();
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<const StorageTransfer*> together;
    for (const auto& result : results) {
      const auto own = TransfersOf(result, false);
      if (i < own.size()) {
        together.push_back(own[i]);
      }
    }
    const bool whole = together.size() == results.size();
    if (const auto pass = whole ? Combine(together) : std::nullopt) {
      passes.push_back(*pass);
    }
  }
  return passes;
}

std::optional<StoragePass> BestPass(const std::vector<StoragePass>& passes,
                                    std::string_view direction, bool cold) {
  std::optional<StoragePass> best;
  for (const StoragePass& pass : passes) {
    if (pass.direction == direction && (pass.cold || !cold) &&
        (!best || pass.bytes_per_second > best->bytes_per_second)) {
      best = pass;
    }
  }
  return best;
}

std::optional<StoragePass> PassAlone(const StorageSpeedResults& results,
                                     std::string_view direction) {
  for (const auto& result : results) {
    if (!result.seen.seen()) {
      continue;
    }
    for (const StorageTransfer* transfer : TransfersOf(result, true)) {
      if (transfer->direction == direction) {
        const auto pass = Combine({transfer});
        return pass && (pass->cold || direction != "read") ? pass : std::nullopt;
      }
    }
  }
  return std::nullopt;
}

std::string StorageRateText(const StoragePass& pass) {
  return std::to_string(static_cast<std::int64_t>(pass.bytes_per_second)) + " bytes/s with " +
         std::to_string(pass.block_bytes) + "-byte blocks" + (pass.direct ? " and O_DIRECT" : "");
}

std::vector<MetadataRate> MetadataRates(const StorageSpeedResults& results) {
  std::vector<MetadataRate> rates;
  if (!AllSeen(results)) {
    return rates;
  }
  for (const StorageMetadataPhase& first : results.front().seen.value().metadata) {
    MetadataRate rate{first.name, 0, 0, true};
    double begin = 1e300;
    double end = 0;
    bool whole = true;
    for (const auto& result : results) {
      const auto& phases = result.seen.value().metadata;
      const auto own = std::find_if(phases.begin(), phases.end(),
                                    [&](const auto& phase) { return phase.name == first.name; });
      if (own == phases.end() || !own->error.empty() || own->done <= 0 || own->seconds <= 0) {
        whole = false;
        break;
      }
      rate.done += own->done;
      rate.other_node = rate.other_node && own->other_node;
      begin = std::min(begin, own->start_seconds);
      end = std::max(end, own->start_seconds + own->seconds);
    }
    if (whole) {
      rate.per_second = static_cast<double>(rate.done) / (end - begin);
      rates.push_back(std::move(rate));
    }
  }
  return rates;
}

}  // namespace dlc
