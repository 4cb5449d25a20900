#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "probes/control/launcher/launcher.h"
#include "probes/control/launcher/rank_output.h"
#include "probes/control/ray_ranks/job_frames.h"
#include "probes/control/ray_ranks/ray_jobs.h"
#include "probes/control/ray_ranks/trainer_told.h"

namespace dlc {

struct RayLauncherOptions {
  /// Logged in, and not interruptible: it cleans up after an interruption too.
  std::shared_ptr<RayClient> client;
  std::string probe;               ///< path of dlc-probe; empty: beside the running program
  int gpus_per_rank = 1;           ///< 0 or 1
  std::string strategy = "PACK";   ///< of the placement group, in Ray's words
  std::chrono::seconds wait{300};  ///< for the ranks' places, where others hold them
  std::chrono::seconds lease{60};  ///< after so long without a word from here the job ends
  std::chrono::milliseconds poll{1'000};
  /// Ray looks at a job each second, and writes one down as failed whose supervisor has ended and
  /// that is not in its list any more: a job is gone when it stays away for longer than that takes.
  std::chrono::milliseconds stays_away{3'000};
};

/// Target `ray`: each rank in an actor of one placement group, by a job that is removed again. When
/// they have ended, TorchTrainer where the request has work for it, in the places they leave. The
/// job's driver (dlc_check_driver.py) ends by itself when this process dies: it takes its orders
/// from a package that is put again and again. That needs nothing but the dashboard's port.
class RayLauncher : public Launcher {
 public:
  explicit RayLauncher(RayLauncherOptions options);

  std::string_view name() const override { return "ray"; }
  Result<void> Start(const LaunchRequest& request, Deadline deadline) override;
  Result<std::optional<RankEvent>> NextEvent(Deadline deadline) override;
  RankRun Collect() override;
  std::optional<NotLookedAt> WhyNoRanks() const override { return why_no_ranks_; }
  void Cancel(Deadline deadline) override;
  std::vector<std::string> CleanUp(Deadline deadline) override;

 private:
  struct Rank {
    explicit Rank(int number) : output(number) {}
    RankOutput output;
    std::string end = "was never started";
    bool ended = false;
  };

  Result<void> Upload(Deadline deadline);
  Result<void> PutOrder(Deadline deadline);
  std::string Named() const;
  /// Takes what is new in the job's log.
  Result<void> Poll(Deadline deadline);
  Result<void> ReadLog(const std::optional<RayJobState>& state, Deadline deadline);
  void Take(const std::string& line, Deadline deadline);
  void AddTraining(RankRun& run) const;
  void TakeOfRank(const std::string& event, Rank& rank, const std::string& text, int code);
  void Tell(std::string text);
  bool WaitUntilEnded(Deadline deadline);
  Result<void> DeleteForGood(Deadline deadline);

  RayLauncherOptions options_;
  RayJobs jobs_;
  LaunchRequest request_;
  std::string probe_digest_;
  std::string package_;
  std::string submission_id_;  ///< empty: no job was submitted
  std::string order_;          ///< the package that holds it
  int renewal_ = 0;
  bool stop_ = false;
  bool job_ended_ = false;
  bool started_ = false;
  Deadline renew_at_;
  Deadline lost_at_;  ///< without an answer until then, the dashboard is lost
  Deadline poll_at_;
  JobFrames frames_;
  std::deque<RankEvent> events_;
  std::vector<Rank> ranks_;
  std::optional<TrainerTold> trainer_;  ///< absent: it is not asked for
  std::optional<NotLookedAt> why_no_ranks_;
  std::string stop_told_;        ///< why the driver stopped the ranks; empty: it did not
  std::optional<Error> broken_;  ///< why no more comes
};

}  // namespace dlc
