#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "checks/check.h"
#include "checks/rank_results.h"

namespace dlc {

extern const Check kStorageSpeed;  // the table in check_list.cpp finds it by this name

namespace {

constexpr std::string_view kComplete = "storage-speed/transfers-complete";
constexpr std::string_view kWrite = "storage-speed/write-bandwidth";
constexpr std::string_view kRead = "storage-speed/cold-read-bandwidth";

constexpr std::string_view kShortTest =
    "the rate over hours: burst credits and server caches flatter a short test";

constexpr Rule kRules[] = {
    {kComplete, Severity::kRequired, false, "what was written is read back, on every rank",
     "every byte of the test files was written, synced and read back with its own mark",
     "that the bytes came from the disks and not from a server's memory",
     "look at the file server's and the client's logs for the error named"},
    {kWrite, Severity::kRequired, false, "all ranks together write fast enough",
     "bytes over the time from the first start to the last fsync, all ranks at once", kShortTest,
     "raise the file system's throughput, or lower policy storage.minWriteBytesPerSecond"},
    {kRead, Severity::kRequired, false, "all ranks together read fast enough, from no page cache",
     "bytes over the time from the first start to the last byte, all ranks at once; the pages were "
     "shown to be absent, or another node had written them",
     kShortTest,
     "raise the file system's throughput, or lower policy storage.minColdReadBytesPerSecond"},
};

using Results = std::vector<RankResult<StorageSpeed>>;

/// A refusal of O_DIRECT is a property of the file system, not a failure of the transfer.
bool IsNoDirect(const StorageTransfer& transfer) {
  return transfer.direct && (transfer.error == "EINVAL" || transfer.error == "ENOTSUP" ||
                             transfer.error == "EOPNOTSUPP" || transfer.error == "ENOENT");
}

/// One pass of all ranks at once.
struct Together {
  double bytes_per_second = 0;
  std::int64_t block_bytes = 0;
  bool direct = false;
  bool cold = true;
};

/// The pass at `index` of every rank's list; nullopt if it failed anywhere.
std::optional<Together> Combine(const Results& results, std::size_t index) {
  Together all;
  double bytes = 0;
  double begin = 1e300;
  double end = 0;
  for (const auto& result : results) {
    if (index >= result.seen.value().transfers.size()) {
      return std::nullopt;
    }
    const StorageTransfer& transfer = result.seen.value().transfers[index];
    if (!transfer.error.empty() || transfer.seconds <= 0) {
      return std::nullopt;
    }
    bytes += static_cast<double>(transfer.bytes);
    begin = std::min(begin, transfer.start_seconds);
    end = std::max(end, transfer.start_seconds + transfer.seconds);
    all.block_bytes = transfer.block_bytes;
    all.direct = transfer.direct;
    all.cold = all.cold && !transfer.cold_because.empty();
  }
  all.bytes_per_second = bytes / (end - begin);
  return all;
}

/// The best block size counts: a training job may choose its own.
std::optional<Together> Best(const Results& results, std::string_view direction, bool cold) {
  std::optional<Together> best;
  const auto& passes = results.front().seen.value().transfers;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const auto pass = passes[i].direction == direction ? Combine(results, i) : std::nullopt;
    if (pass && (pass->cold || !cold) &&
        (!best || pass->bytes_per_second > best->bytes_per_second)) {
      best = pass;
    }
  }
  return best;
}

void JudgeRate(std::string_view rule, std::string_view what, double demanded,
               const std::string& source, const std::optional<Together>& best,
               std::string_view why_none, Judge& judge) {
  const Subject subject{"run", "all ranks"};
  const std::string rate = best
                               ? std::to_string(static_cast<std::int64_t>(best->bytes_per_second)) +
                                     " bytes/s with " + std::to_string(best->block_bytes) +
                                     "-byte blocks" + (best->direct ? " and O_DIRECT" : "")
                               : "";
  if (demanded <= 0) {
    judge.NotApplicable(
        rule, subject,
        "the policy demands no rate; " + (best ? "measured " + rate : std::string(why_none)));
  } else if (!best) {
    judge.Unknown(rule, subject, {"unavailable", std::string(why_none), ""});
  } else {
    judge
        .Decide(rule, subject,
                {{std::string(what), Op::kGe, demanded, best->bytes_per_second, "bytes/s", source}})
        .notes.push_back("best pass: " + rate);
  }
}

void JudgeTransfers(const RankResult<StorageSpeed>& result, Judge& judge) {
  const Subject subject{"rank", result.name};
  if (!result.seen.seen()) {
    judge.Unseen(kComplete, subject, "the speed of the checkpoint path", result.seen);
    return;
  }
  std::vector<std::string> failed;
  std::int64_t done = 0;
  bool no_direct = false;
  for (const StorageTransfer& transfer : result.seen.value().transfers) {
    if (IsNoDirect(transfer)) {
      no_direct = true;
    } else if (transfer.error.empty()) {
      ++done;
    } else {
      failed.push_back(transfer.direction + ": " + transfer.error + " (" + transfer.detail + ")");
    }
  }
  Finding& finding =
      judge.Decide(kComplete, subject,
                   {{"transfers done", Op::kGe, std::int64_t{2}, done, "", "constant"},
                    {"transfers that failed", Op::kSubset, std::vector<std::string>{}, failed, "",
                     "observation:checkpoint_ranks.storage_speed.transfers"}});
  if (no_direct) {
    finding.notes.emplace_back("this file system refuses direct I/O");
  }
}

std::vector<Finding> JudgeStorageSpeed(const Observations& observations, const Policy& policy) {
  Judge judge(kStorageSpeed, policy);
  const Observed<RankRun>& ranks = observations.checkpoint_ranks;
  if (JudgeWithoutRanks(observations, ranks, kComplete, "what the ranks see", "", judge)) {
    return judge.Take();
  }
  const Results results = ResultsOf(ranks.value(), &RankObservations::storage_speed);
  bool all_seen = true;
  for (const auto& result : results) {
    JudgeTransfers(result, judge);
    all_seen = all_seen && result.seen.seen();
  }
  const StoragePolicy& limits = policy.storage;
  const auto best = [&](std::string_view direction, bool cold) {
    return all_seen ? Best(results, direction, cold) : std::nullopt;
  };
  const char* lost = all_seen ? "" : "not every rank measured";
  JudgeRate(kWrite, "aggregate write", limits.min_write_bytes_per_second,
            "policy:storage.minWriteBytesPerSecond", best("write", false),
            all_seen ? "no write ended on all ranks" : lost, judge);
  JudgeRate(kRead, "aggregate cold read", limits.min_cold_read_bytes_per_second,
            "policy:storage.minColdReadBytesPerSecond", best("read", true),
            all_seen ? "no read was shown to come from no page cache" : lost, judge);
  std::vector<Finding> findings = judge.Take();
  NotePlantedFaults(ranks.value(), findings);
  return findings;
}

}  // namespace

constinit const Check kStorageSpeed{
    "storage-speed",
    Stage::kCheckpoint,
    false,
    "the checkpoint path is fast enough",
    "aggregate write with fsync and cold read of all ranks at once against the policy",
    kRules,
    JudgeStorageSpeed,
};

}  // namespace dlc
