#include "checks/storage_warnings.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "checks/storage_errors.h"
#include "checks/wording.h"

namespace dlc {
namespace {

/// A shorter pass says nothing of a rate that falls.
constexpr double kLongEnoughSeconds = 1;

Subject AllRanks() {
  return {"run", "all ranks"};
}

/// EFS under its own name, or behind the tunnel of its mount helper, which the CSI driver uses.
bool IsEfs(const MountFacts& mount) {
  return mount.filesystem == "nfs4" && (mount.source.find(".efs.") != std::string::npos ||
                                        mount.source.starts_with("127.0.0.1:/"));
}

void JudgeBurst(const StorageSpeedResults& results, const StoragePolicy& limits, Judge& judge) {
  std::int64_t moved = 0;
  bool efs = false;
  const Observed<MountFacts>* unseen = nullptr;
  for (const auto& result : results) {
    if (!result.seen.seen()) {
      continue;
    }
    const Observed<MountFacts>& mount = result.seen.value().mount;
    efs = efs || (mount.seen() && IsEfs(mount.value()));
    unseen = mount.seen() ? unseen : &mount;
    for (const StorageTransfer& transfer : result.seen.value().transfers) {
      moved += transfer.bytes;
    }
  }
  const std::int64_t burst = limits.burst_bytes.value_or(efs ? kEfsFirstCredits : 0);
  if (burst == 0 && !limits.burst_bytes && !efs && unseen != nullptr) {
    judge.Unseen(kStoragePastBurst, AllRanks(), "the mount at the path", *unseen);
    return;
  }
  if (burst == 0) {
    judge.NotApplicable(kStoragePastBurst, AllRanks(),
                        limits.burst_bytes
                            ? "the policy says that nothing goes through on credits"
                            : "no file system that is known to give credits; the policy can name "
                              "them (storage.burstBytes)");
    return;
  }
  Finding& finding =
      judge.Decide(kStoragePastBurst, AllRanks(),
                   {{"bytes moved in this run", Op::kGe, burst, moved, "bytes",
                     limits.burst_bytes ? "policy:storage.burstBytes" : "constant"}});
  if (efs) {
    finding.notes.emplace_back(
        "EFS, or nfs4 through a local tunnel as its mount helper makes it: the first 2.1 TiB are "
        "paid from credits in bursting mode; with elastic or provisioned throughput set "
        "storage.burstBytes: 0");
  }
}

std::string PassText(const StoragePass& pass) {
  return pass.direction + " with " + std::to_string(pass.block_bytes) + "-byte blocks" +
         (pass.direct ? " and O_DIRECT" : "");
}

void JudgeRateHeld(const std::vector<StoragePass>& passes, const StoragePolicy& limits,
                   Judge& judge) {
  const StoragePass* worst = nullptr;
  for (const StoragePass& pass : passes) {
    const bool tells = pass.share_of_first_half > 0 && pass.seconds >= kLongEnoughSeconds;
    if (tells && (worst == nullptr || pass.share_of_first_half < worst->share_of_first_half)) {
      worst = &pass;
    }
  }
  if (worst == nullptr || limits.min_share_of_first_half <= 0) {
    judge.NotApplicable(kStorageRateHeld, AllRanks(),
                        worst == nullptr ? "no pass took a second or told the rate of its halves"
                                         : "the policy demands no share");
    return;
  }
  judge
      .Decide(
          kStorageRateHeld, AllRanks(),
          {{"rate of the second half against the first", Op::kGe, limits.min_share_of_first_half,
            worst->share_of_first_half, "", "policy:storage.minShareOfFirstHalf"}})
      .notes.push_back("of the passes that tell, the worst: " + PassText(*worst));
}

std::string MetadataText(const MetadataRate& rate) {
  return rate.name + ": " + Fixed(rate.per_second, 0) + " per second (" +
         std::to_string(rate.done) + " of all ranks" +
         (rate.name != "list" ? ""
          : rate.other_node   ? "; directories that another node filled"
                              : "; this node filled the directories itself") +
         ")";
}

void JudgeMetadataRate(const StorageSpeedResults& results, const StoragePolicy& limits,
                       Judge& judge) {
  const std::vector<MetadataRate> rates = MetadataRates(results);
  const double demanded = limits.min_metadata_operations_per_second;
  std::string text;
  std::vector<Assertion> assertions;
  for (const MetadataRate& rate : rates) {
    text += (text.empty() ? "" : ", ") + MetadataText(rate);
    // What waits for the disk is told; names are what the demand is of.
    if (rate.name != "create-write-fsync") {
      assertions.push_back({rate.name + " of small files", Op::kGe, demanded, rate.per_second,
                            "per second", "policy:storage.minMetadataOperationsPerSecond"});
    }
  }
  constexpr std::size_t kNeeded = 3;
  if (demanded <= 0) {
    judge.NotApplicable(
        kStorageMetadataRate, AllRanks(),
        "the policy demands no rate; " + (text.empty() ? "none was measured" : text));
  } else if (assertions.size() < kNeeded) {
    judge.Unknown(kStorageMetadataRate, AllRanks(),
                  {"unavailable", "creating, listing and deleting did not end on all ranks", ""});
  } else {
    judge.Decide(kStorageMetadataRate, AllRanks(), std::move(assertions)).notes.push_back(text);
  }
}

}  // namespace

void JudgeSmallFiles(const RankResult<StorageSpeed>& result, Judge& judge) {
  const Subject subject{"rank", result.name};
  if (!result.seen.seen()) {
    judge.Unseen(kStorageMetadataDone, subject, "small files at the checkpoint path", result.seen);
    return;
  }
  const auto& phases = result.seen.value().metadata;
  if (phases.empty()) {
    judge.NotApplicable(kStorageMetadataDone, subject, "no small files were asked for");
    return;
  }
  std::vector<std::string> failed;
  std::vector<std::string> missing = {"create", "create-write-fsync", "list", "delete"};
  std::string hint;
  for (const StorageMetadataPhase& phase : phases) {
    missing.erase(std::remove(missing.begin(), missing.end(), phase.name), missing.end());
    if (!phase.error.empty()) {
      failed.push_back(phase.name + " after " + std::to_string(phase.done) + ": " + phase.error +
                       " (" + phase.detail + ")");
      hint = hint.empty() ? StorageErrorHint(phase.error) : hint;
    }
  }
  constexpr const char* kSource = "observation:checkpoint_ranks.storage_speed.metadata";
  Finding& finding = judge.Decide(
      kStorageMetadataDone, subject,
      {{"phases that failed", Op::kSubset, std::vector<std::string>{}, failed, "", kSource},
       {"phases that are missing", Op::kSubset, std::vector<std::string>{}, missing, "", kSource}});
  if (finding.verdict == Verdict::kFail && !hint.empty()) {
    finding.hint = hint;
  }
}

void JudgeStorageWarnings(const StorageSpeedResults& results,
                          const std::vector<StoragePass>& passes, const StoragePolicy& limits,
                          Judge& judge) {
  JudgeBurst(results, limits, judge);
  JudgeRateHeld(passes, limits, judge);
  JudgeMetadataRate(results, limits, judge);
}

}  // namespace dlc
