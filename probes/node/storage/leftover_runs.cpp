#include "probes/node/storage/leftover_runs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "probes/node/storage/checkpoint_files.h"
#include "probes/node/storage/run_directory.h"

namespace dlc {
namespace {

constexpr std::string_view kPrefix = ".dlc-check-";
constexpr std::size_t kIdDigits = 16;
constexpr std::int64_t kMostCounted = 100'000;
constexpr int kDeepestCounted = 16;

double Seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string RunIdOf(const std::string& name) {
  const bool fits = name.size() == kPrefix.size() + kIdDigits && name.starts_with(kPrefix) &&
                    name.find_first_not_of("0123456789abcdef", kPrefix.size()) == std::string::npos;
  return fits ? name.substr(kPrefix.size()) : "";
}

/// Adds what is below; false when there is more than was counted.
bool CountBelow(const DirectoryListing& listing, int depth, Deadline deadline, LeftoverRun& run,
                double& newest) {
  for (const DirectoryEntry& entry : listing.entries) {
    if (++run.files > kMostCounted || depth > kDeepestCounted) {
      return false;
    }
    newest = std::max(newest, Seconds(entry.info.st_mtim));
    run.bytes += S_ISREG(entry.info.st_mode) ? entry.info.st_size : 0;
    if (S_ISDIR(entry.info.st_mode)) {
      const auto below = ListBelow(listing, entry.name, entry.name, deadline);
      if (!below || !CountBelow(*below, depth + 1, deadline, run, newest)) {
        return false;
      }
    }
  }
  return true;
}

LeftoverRun LookAtRun(const DirectoryListing& listing, const DirectoryEntry& entry,
                      const LeftoverRunsParameters& parameters, Deadline deadline) {
  LeftoverRun run;
  run.run_id = RunIdOf(entry.name);
  run.uid = entry.info.st_uid;
  double newest = Seconds(entry.info.st_mtim);
  const auto below = ListBelow(listing, entry.name, entry.name, deadline);
  run.counted = below && CountBelow(*below, 1, deadline, run, newest);
  run.quiet_seconds = Now() - newest;
  run.state = "there";
  if (parameters.remove) {
    // What was not looked at may have changed a moment ago.
    const bool quiet = run.counted && run.quiet_seconds >= parameters.quiet_seconds;
    run.state = entry.info.st_uid != geteuid()              ? "other-owner"
                : parameters.run_id != run.run_id && !quiet ? "recent"
                                                            : "removed";
  }
  return run;
}

}  // namespace

Result<LeftoverRuns> ObserveLeftoverRuns(const LeftoverRunsParameters& parameters,
                                         const std::string& own_run_id, Exchange& exchange,
                                         Deadline deadline) {
  const auto listing = ListDirectory(parameters.path, deadline);
  LeftoverRuns seen{parameters.path, {}};
  if (listing) {
    for (const DirectoryEntry& entry : listing->entries) {
      const std::string id = RunIdOf(entry.name);
      if (!id.empty() && id != own_run_id && S_ISDIR(entry.info.st_mode) &&
          (parameters.run_id.empty() || parameters.run_id == id)) {
        seen.runs.push_back(LookAtRun(*listing, entry, parameters, deadline));
      }
    }
  }
  const auto met = exchange.Barrier(deadline);
  if (!listing) {
    return listing.error();
  }
  if (!parameters.remove) {
    return seen;
  }
  if (!met) {
    return met.error();
  }
  for (LeftoverRun& run : seen.runs) {
    if (run.state == "removed") {
      const auto left = RemoveRunDirectory(RunDirectory(parameters.path, run.run_id));
      run.state = left.empty() ? "removed" : "failed";
      run.detail = left.empty() ? "" : left.front();
    }
  }
  return seen;
}

}  // namespace dlc
