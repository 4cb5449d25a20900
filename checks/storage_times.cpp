#include "checks/storage_times.h"

#include <string>
#include <utility>

#include "checks/checkpoint_sizes.h"
#include "checks/wording.h"

namespace dlc {
namespace {

struct TimeRule {
  std::string_view rule;
  std::string_view what;  ///< "save"
  double demanded = 0;
  std::string_view source;
};

double SecondsFor(const CheckpointModel& model, const StoragePass& pass) {
  return static_cast<double>(model.StateBytes()) / pass.bytes_per_second;
}

std::string TimeText(const TimeRule& rule, const CheckpointModel& model, const StoragePass& pass) {
  return std::string(rule.what) + " of " + model.name + " (" +
         Fixed(static_cast<double>(model.StateBytes()) / 1e9, 2) +
         " GB): " + Fixed(SecondsFor(model, pass), 2) + " s";
}

void JudgeTime(const TimeRule& rule, const StoragePolicy& limits, int ranks,
               const std::optional<StoragePass>& pass, std::string_view why_none, Judge& judge) {
  const Subject subject{"run", "all ranks"};
  const CheckpointModel own = PolicyModel(limits);
  if (!pass) {
    if (rule.demanded <= 0) {
      judge.NotApplicable(
          rule.rule, subject,
          "the policy demands no time, and none is predicted: " + std::string(why_none));
    } else {
      judge.Unknown(rule.rule, subject, {"unavailable", std::string(why_none), ""});
    }
    return;
  }
  Finding& finding =
      rule.demanded <= 0
          ? judge.NotApplicable(
                rule.rule, subject,
                "the policy demands no time; predicted: " + TimeText(rule, own, *pass))
          : judge.Decide(rule.rule, subject,
                         {{std::string(rule.what) + " of " + own.name, Op::kLe, rule.demanded,
                           SecondsFor(own, *pass), "s", std::string(rule.source)}});
  for (const CheckpointModel& model : PredictedModels(limits)) {
    finding.notes.push_back(TimeText(rule, model, *pass) + ", at " + StorageRateText(*pass));
  }
  const std::int64_t measured = pass->bytes / ranks;
  const std::int64_t part = own.StateBytes() / ranks;
  if (measured < part) {
    finding.notes.push_back("extrapolated: each rank moved " + std::to_string(measured) + " of " +
                            std::to_string(part) +
                            " bytes that it would have of the model (storage.maxBytesPerRank)");
  }
}

}  // namespace

void JudgeStorageTimes(const StoragePolicy& limits, int ranks,
                       const std::optional<StoragePass>& write,
                       const std::optional<StoragePass>& read, std::string_view why_no_write,
                       std::string_view why_no_read, Judge& judge) {
  JudgeTime({kStorageSaveTime, "save", limits.max_save_seconds, "policy:storage.maxSaveSeconds"},
            limits, ranks, write, why_no_write, judge);
  JudgeTime({kStorageRestoreTime, "restore", limits.max_restore_seconds,
             "policy:storage.maxRestoreSeconds"},
            limits, ranks, read, why_no_read, judge);
}

}  // namespace dlc
