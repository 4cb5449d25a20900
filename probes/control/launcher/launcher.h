#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/deadline.h"
#include "probes/observations/framework.h"
#include "probes/observations/observed.h"
#include "probes/observations/plan.h"
#include "probes/observations/ranks.h"
#include "probes/observations/result.h"

namespace dlc {

/// One training by Ray Train's TorchTrainer.
struct TrainerRun {
  std::string name;                          ///< FrameworkProcess::name
  FrameworkJob job;                          ///< of all workers
  std::map<int, FrameworkJob> other_jobs;    ///< of those, by rank, where a fault is planted
  std::map<int, std::string> worker_faults;  ///< by rank: "exit", "crash", "kill", "sleep"
};

/// What TorchTrainer does when the ranks have ended, with as many workers: a step of the stage that
/// no rank does itself.
struct TrainerWork {
  std::string step;     ///< its name
  int deadline_ms = 0;  ///< of all runs together
  int gpus_per_worker = 0;
  /// That the runs make, and Ray Train stores in; removed at the end. Named as a run's directory.
  std::string directory;
  std::string storage;           ///< below it
  FrameworkExperiment begun;     ///< what each rank's is, without processes
  std::vector<TrainerRun> runs;  ///< one after the other, each from the checkpoint before it
};

/// One run of a plan on some ranks.
struct LaunchRequest {
  RankPlan plan;
  int ranks = 0;  ///< 0: as many as the launcher's surroundings say ("env")
  /// Of launcher "ray" alone.
  std::optional<TrainerWork> trainer;
  /// Directories of this run (named ".dlc-check-<run id>") that CleanUp removes if a rank died too
  /// hard to do it.
  std::vector<std::string> run_directories;
  /// Set from a signal handler; looked at several times a second. May be null.
  const std::atomic<bool>* interrupted = nullptr;
};

/// Puts dlc-probe on every rank, once. Calls in this order: Start, NextEvent until it gives none,
/// Collect, CleanUp; Cancel at any time after Start. The destructor leaves no process.
class Launcher {
 public:
  virtual ~Launcher() = default;

  /// "local", "env", "ray".
  virtual std::string_view name() const = 0;
  /// Errors: no dlc-probe, no such network namespace, no process to be had. Nothing runs then.
  virtual Result<void> Start(const LaunchRequest& request, Deadline deadline) = 0;
  /// What a rank said, as it comes: a RankEvent of dlc-probe, "log" with a line that it wrote to
  /// stderr, or "launcher", of no rank (-1), about the ranks' start. nullopt: every rank has ended.
  /// Errors: kTimedOut, kInterrupted; the ranks still run.
  virtual Result<std::optional<RankEvent>> NextEvent(Deadline deadline) = 0;
  /// What each rank saw, by rank; for one that gave no document, what became of it. After the last
  /// event or after Cancel.
  virtual RankRun Collect() = 0;
  /// No rank was started, though nothing failed: what they need was not free until the deadline.
  /// After the last event.
  virtual std::optional<NotLookedAt> WhyNoRanks() const { return std::nullopt; }
  /// Asks the ranks to stop and gives them until the deadline to clean up and write what they have;
  /// then they are killed.
  virtual void Cancel(Deadline deadline) = 0;
  /// Ends what still runs and removes what the run made. Gives what is still there, each with the
  /// reason; best with the command that removes it.
  virtual std::vector<std::string> CleanUp(Deadline deadline) = 0;
};

/// dlc-probe: `configured` if not empty, else beside the running program. Not found: the error says
/// where it was looked for.
Result<std::string> FindProbe(const std::string& configured);

}  // namespace dlc
