#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probes/control/launcher/process_launcher.h"

namespace dlc {

/// What the surroundings say of this process.
struct EnvRank {
  int rank = 0;
  int ranks = 1;
  std::string run_id;  ///< the same on all ranks: made from their secret
};
/// An error names the variable that is missing or wrong.
Result<EnvRank> EnvRankOf();

/// Target `env`: somebody else (torchrun, Slurm, mpirun with a wrapper, a pod) started this process
/// as one rank and says so in RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT; every rank
/// has the same DLC_CHECK_RUN_SECRET. One dlc-probe is started with this environment. Rank 0
/// collects all documents; the other ranks see their own only.
///
/// The ranks meet at DLC_CHECK_MASTER_PORT; without it at MASTER_PORT, or at the port after it
/// where TORCHELASTIC_USE_AGENT_STORE says that torchrun itself listens there
/// (torch/distributed/elastic/agent/server/local_elastic_agent.py).
class EnvLauncher : public ProcessLauncher {
 public:
  /// `probe`: path of dlc-probe; empty: beside the running program.
  explicit EnvLauncher(std::string probe) : probe_(std::move(probe)) {}

  std::string_view name() const override { return "env"; }
  /// The plan's run id is replaced by one that all ranks derive from the secret: their plans must
  /// be the same.
  Result<void> Start(const LaunchRequest& request, Deadline deadline) override;
  /// The run's directories are rank 0's to look after, unless this rank died too hard to be sure
  /// that its host's are gone.
  std::vector<std::string> CleanUp(Deadline deadline) override;

  int rank() const { return rank_; }
  const std::string& run_id() const { return request_.plan.run_id; }

 private:
  std::string probe_;
  int rank_ = 0;
};

}  // namespace dlc
