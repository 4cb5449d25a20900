#include "probes/node/fsdp/memory_claims.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "probes/node/fsdp/backend_memory.h"
#include "probes/node/fsdp/training_memory.h"

namespace dlc {
namespace {

/// What each rank has and needs.
struct MemoryClaim {
  std::int64_t needed = 0;
  std::int64_t free = 0;
  std::string device;
};

Result<std::vector<MemoryClaim>> ExchangeClaims(Exchange& exchange, const MemoryClaim& mine,
                                                Deadline deadline) {
  const auto all = exchange.AllGather(
      std::to_string(mine.needed) + " " + std::to_string(mine.free) + " " + mine.device, deadline);
  if (!all) {
    return all.error();
  }
  std::vector<MemoryClaim> claims;
  for (const std::string& text : *all) {
    MemoryClaim claim;
    char* rest = nullptr;
    claim.needed = std::strtoll(text.c_str(), &rest, 10);
    claim.free = std::strtoll(rest, &rest, 10);
    claim.device = *rest == ' ' ? rest + 1 : rest;
    claims.push_back(std::move(claim));
  }
  return claims;
}

int SharersOf(const std::vector<MemoryClaim>& claims, const MemoryClaim& one) {
  return static_cast<int>(std::count_if(
      claims.begin(), claims.end(), [&](const MemoryClaim& c) { return c.device == one.device; }));
}

bool Fits(const std::vector<MemoryClaim>& claims, const MemoryClaim& one) {
  std::int64_t needed = 0;
  for (const MemoryClaim& claim : claims) {
    needed += claim.device == one.device ? claim.needed : 0;
  }
  return needed <= one.free;
}

}  // namespace

Result<TrainingMemoryAsked> AskForTrainingMemory(const TrainingRanks& ranks,
                                                 const TrainingOptions& options,
                                                 Deadline deadline) {
  const int size = ranks.collectives.Size();
  TrainingBytes bytes = EstimateTraining(ranks.backend, options, size);
  if (options.exact) {
    bytes.activations = 0;
  }
  TrainingMemoryAsked asked;
  asked.needed_bytes = bytes.Sharded();
  std::uint64_t free = 0;
  std::uint64_t total = 0;
  const DeviceStatus status = ranks.backend.FreeMemory(free, total);
  asked.free_bytes = static_cast<std::int64_t>(free);
  const MemoryClaim mine{asked.needed_bytes, asked.free_bytes, ranks.device};
  const auto claims = ExchangeClaims(ranks.exchange, mine, deadline);
  if (!claims) {
    return claims.error();
  }
  if (auto good = AgreeOnErrors(ranks.exchange, TrainingResult(status), deadline); !good) {
    return good.error();
  }
  asked.sharers = SharersOf(*claims, mine);
  for (int rank = 0; rank < size && asked.too_little.empty(); ++rank) {
    const MemoryClaim& claim = (*claims)[static_cast<std::size_t>(rank)];
    if (!Fits(*claims, claim)) {
      asked.too_little =
          "rank " + std::to_string(rank) + " " +
          TooLittleMemory(ranks.backend, options, size, SharersOf(*claims, claim), claim.free);
    }
  }
  return asked;
}

Result<void> AgreeOnErrors(Exchange& exchange, const Result<void>& mine, Deadline deadline) {
  const auto all = exchange.AllGather(mine ? std::string() : mine.error().message, deadline);
  if (!mine) {
    return mine.error();
  }
  if (!all) {
    return all.error();
  }
  for (std::size_t rank = 0; rank < all->size(); ++rank) {
    if (!(*all)[rank].empty()) {
      return Error{ErrorCode::kUnavailable, "rank " + std::to_string(rank) + ": " + (*all)[rank],
                   ""};
    }
  }
  return {};
}

}  // namespace dlc
