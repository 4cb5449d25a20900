#pragma once

#include <deque>
#include <string>
#include <vector>

#include "probes/control/launcher/launcher.h"
#include "probes/control/launcher/probe_process.h"

namespace dlc {

/// A launcher whose ranks, all or one, are child processes of ours. Start is left to do; it and the
/// other calls belong to one thread, which must live as long as the ranks.
class ProcessLauncher : public Launcher {
 public:
  Result<std::optional<RankEvent>> NextEvent(Deadline deadline) override;
  RankRun Collect() override;
  void Cancel(Deadline deadline) override;
  std::vector<std::string> CleanUp(Deadline deadline) override;

 protected:
  /// After a failure to start: nobody is left alone.
  void KillAll();

  LaunchRequest request_;
  int size_ = 0;
  struct RunningRank {
    int rank;
    ProbeProcess process;
  };
  std::vector<RunningRank> ranks_;

 private:
  /// One look at all pipes and processes, waiting for at most `wait`. True when all have ended.
  bool Turn(std::chrono::milliseconds wait);

  std::deque<RankEvent> events_;
};

/// 32 random bytes as hex.
std::string MakeRunSecret();

}  // namespace dlc
