#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "checks/check.h"
#include "checks/rank_results.h"
#include "checks/storage_errors.h"
#include "checks/storage_passes.h"
#include "checks/storage_times.h"
#include "checks/storage_warnings.h"
#include "checks/wording.h"

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
    {kStorageSaveTime, Severity::kRequired, false, "the policy's model is saved in time",
     "float32 parameters and AdamW's two moments (12 bytes per parameter) over the best aggregate "
     "write rate of this run, by as many ranks as ran",
     "serialization, copies from the GPU, and the rate over hours",
     "raise the file system's throughput, or policy storage.maxSaveSeconds"},
    {kStorageRestoreTime, Severity::kRequired, false, "the policy's model is restored in time",
     "the same bytes over the best aggregate cold read rate of this run, by as many ranks as ran",
     "deserialization, copies to the GPU, and the rate over hours",
     "raise the file system's throughput, or policy storage.maxRestoreSeconds"},
    {kStorageMetadataDone, Severity::kRequired, false,
     "small files are made, listed and removed, on every rank",
     "files were created, written and synced, every name was listed, and all were removed, as many "
     "as time allowed",
     "the same for other numbers of files in one directory",
     "look at the file server's and the client's logs for the error named"},
    {kStorageMetadataRate, Severity::kWarn, false,
     "all ranks together make, list and remove small files fast enough",
     "files over the time from the first start to the last end, all ranks at once; listing reads "
     "names only",
     "the same under other load, or in directories of other sizes",
     "save fewer and larger files, or lower policy storage.minMetadataOperationsPerSecond"},
    {kStoragePastBurst, Severity::kWarn, false, "the rates are past a burst",
     "as many bytes were moved as credits or a cache take", "that credits were full before",
     "look at BurstCreditBalance in CloudWatch; measure more (storage.maxBytesPerRank), or ask for "
     "elastic or provisioned throughput"},
    {kStorageRateHeld, Severity::kWarn, false, "no pass became slow on its way",
     "of passes of a second or longer, the second half's rate reached the policy's share of the "
     "first's; of writes only where fsync was a quarter of the time at most",
     "that it holds for longer", "measure with larger files: credits, a cache or a quota may end"},
};

/// Whose limit the rate is: each client's, or what all share. Says no more than the two rates do.
std::string AloneText(const RankRun& run, const StorageSpeedResults& results,
                      std::string_view direction, const StoragePass& together) {
  const auto alone = PassAlone(results, direction);
  const StoragePass* all = &together;
  if (!alone || run.size < 2) {
    return "";
  }
  const double times = all->bytes_per_second / alone->bytes_per_second;
  const bool one_node = std::all_of(results.begin(), results.end(), [&](const auto& result) {
    return result.node == results.front().node;
  });
  constexpr double kScales = 0.8;
  constexpr double kSaturated = 1.25;
  const std::string meaning =
      one_node                      ? "they share one client, so it says nothing about the server"
      : times >= kScales * run.size ? "each rank has a limit of its own: more of them carry more"
      : times <= kSaturated ? "one rank alone takes all there is: the limit is one that all share, "
                              "as a server's"
                            : "the limit is neither each rank's alone nor one that a single rank "
                              "reaches";
  return "one rank alone: " + StorageRateText(*alone) + "; " + std::to_string(run.size) +
         " together at the same block size: " + Fixed(times, 2) + " times that: " + meaning;
}

/// Of the same kind as the pass alone, which goes without O_DIRECT.
std::string NoteAlone(const RankRun& run, const StorageSpeedResults& results,
                      const std::vector<StoragePass>& passes, std::string_view direction) {
  const auto alone = PassAlone(results, direction);
  for (const StoragePass& pass : passes) {
    if (alone && pass.direction == direction && pass.direct == alone->direct &&
        pass.block_bytes == alone->block_bytes && (pass.cold || direction != "read")) {
      return AloneText(run, results, direction, pass);
    }
  }
  return "";
}

struct RateRule {
  std::string_view rule;
  std::string_view what;
  double demanded = 0;
  std::string_view source;
  std::string alone;  ///< a remark, or empty
};

void JudgeRate(const RateRule& rule, const std::optional<StoragePass>& best,
               std::string_view why_none, Judge& judge) {
  const Subject subject{"run", "all ranks"};
  const std::string rate = best ? StorageRateText(*best) : "";
  if (rule.demanded > 0 && !best) {
    judge.Unknown(rule.rule, subject, {"unavailable", std::string(why_none), ""});
    return;
  }
  Finding& finding =
      rule.demanded <= 0
          ? judge.NotApplicable(rule.rule, subject,
                                "the policy demands no rate; " +
                                    (best ? "measured " + rate : std::string(why_none)))
          : judge.Decide(rule.rule, subject,
                         {{std::string(rule.what), Op::kGe, rule.demanded, best->bytes_per_second,
                           "bytes/s", std::string(rule.source)}});
  if (rule.demanded > 0) {
    finding.notes.push_back("best pass: " + rate);
  }
  if (!rule.alone.empty()) {
    finding.notes.push_back(rule.alone);
  }
}

void JudgeTransfers(const RankResult<StorageSpeed>& result, Judge& judge) {
  const Subject subject{"rank", result.name};
  if (!result.seen.seen()) {
    judge.Unseen(kComplete, subject, "the speed of the checkpoint path", result.seen);
    return;
  }
  std::vector<std::string> failed;
  std::vector<std::string> not_read;
  std::int64_t done = 0;
  bool no_direct = false;
  std::string hint;
  for (const StorageTransfer& transfer : result.seen.value().transfers) {
    if (IsNoDirect(transfer)) {
      no_direct = true;
    } else if (transfer.error.empty()) {
      ++done;
    } else if (transfer.error == "not-written") {
      // The writer's own transfer tells why.
      not_read.push_back(transfer.detail);
    } else {
      failed.push_back(transfer.direction + (transfer.alone ? ", one rank alone: " : ": ") +
                       transfer.error + " (" + transfer.detail + ")");
      hint = hint.empty() ? StorageErrorHint(transfer.error) : hint;
    }
  }
  Finding& finding =
      judge.Decide(kComplete, subject,
                   {{"transfers done", Op::kGe, std::int64_t{2}, done, "", "constant"},
                    {"transfers that failed", Op::kSubset, std::vector<std::string>{}, failed, "",
                     "observation:checkpoint_ranks.storage_speed.transfers"}});
  if (finding.verdict == Verdict::kFail && !hint.empty()) {
    finding.hint = hint;
  }
  if (!not_read.empty()) {
    finding.notes.push_back("not read: " + NameSome(not_read));
  }
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
  const RankRun& run = ranks.value();
  const StorageSpeedResults results = ResultsOf(run, &RankObservations::storage_speed);
  bool all_seen = true;
  for (const auto& result : results) {
    JudgeTransfers(result, judge);
    JudgeSmallFiles(result, judge);
    all_seen = all_seen && result.seen.seen();
  }
  const StoragePolicy& limits = policy.storage;
  const std::vector<StoragePass> passes = PassesOfAll(results);
  const auto write = BestPass(passes, "write", false);
  const auto read = BestPass(passes, "read", true);
  const char* lost = "not every rank measured";
  const char* no_write = all_seen ? "no write ended on all ranks" : lost;
  const char* no_read = all_seen ? "no read was shown to come from no page cache" : lost;
  JudgeRate({kWrite, "aggregate write", limits.min_write_bytes_per_second,
             "policy:storage.minWriteBytesPerSecond", NoteAlone(run, results, passes, "write")},
            write, no_write, judge);
  JudgeRate({kRead, "aggregate cold read", limits.min_cold_read_bytes_per_second,
             "policy:storage.minColdReadBytesPerSecond", NoteAlone(run, results, passes, "read")},
            read, no_read, judge);
  JudgeStorageTimes(limits, run.size, write, read, no_write, no_read, judge);
  JudgeStorageWarnings(results, passes, limits, judge);
  std::vector<Finding> findings = judge.Take();
  NotePlantedFaults(run, findings);
  return findings;
}

}  // namespace

constinit const Check kStorageSpeed{
    "storage-speed",
    Stage::kCheckpoint,
    false,
    "the checkpoint path is fast enough",
    "aggregate write with fsync and cold read of all ranks at once, one rank alone, times to save "
    "and "
    "restore, small files, against the policy",
    kRules,
    JudgeStorageSpeed,
};

}  // namespace dlc
