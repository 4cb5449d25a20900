#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "checks/policy.h"
#include "probes/control/launcher/env_launcher.h"
#include "probes/control/launcher/launcher.h"
#include "probes/observations/observed.h"
#include "probes/observations/plan.h"
#include "probes/observations/ranks.h"
#include "probes/observations/run.h"
#include "reports/progress.h"

namespace dlc {

/// Ranks of a Ray cluster.
struct RayRanksSetup {
  int gpus_per_rank = 1;
  std::string strategy;  ///< in Ray's words
  std::chrono::seconds wait{0};
  std::chrono::seconds lease{0};
};

/// What the stages that run ranks need. Made from the config and the policy.
struct RankSetup {
  std::string run_id;
  int ranks = 0;                     ///< 0: there is no target to run them on
  std::string why_no_ranks;          ///< empty: the config has no target
  std::optional<RayRanksSetup> ray;  ///< absent: the ranks are children of this host
  std::optional<EnvRank> env;        ///< absent: all of them are; else this process is one
  /// The evidence is another process's to write.
  bool takes_part_only() const { return env && env->rank != 0; }
  /// Of the ranks' meeting and of each step; absent: what each needs at most.
  std::optional<std::chrono::milliseconds> timeout;
  std::vector<PlantedFault> faults;  ///< a fault of a step goes into the stage that has the step
  /// Sizes that the policy has limits for; they are measured beside the usual ones.
  std::vector<std::int64_t> pair_sizes;
  std::vector<std::int64_t> collective_sizes;
  bool gpus = true;             ///< false: the policy asks for none
  double gpu_seconds = 0;       ///< per GPU; 0: dlc-probe's default
  double gpu_memory_share = 0;  ///< same
  bool nccl = true;             ///< false: the policy asks for no collectives of NCCL
  std::string nccl_library;     ///< empty: the copy that torch of this image uses
  bool nccl_host_id_per_rank = false;
  std::string nccl_log_directory;  ///< of the raw logs; empty: they are not kept
  std::vector<std::string> nccl_types;
  std::vector<std::string> nccl_collectives;
  std::vector<std::int64_t> nccl_sizes;  ///< ascending; the policy's limits are among them
  bool nccl_over_efa = false;            ///< once more with NCCL_NET naming AWS's plugin
  bool nccl_over_tcp = false;            ///< once more over sockets
  FsdpPolicy fsdp;
  std::string framework_python;             ///< empty: python3
  std::optional<FsdpModel> workload_model;  ///< of workload.modelConfig
  std::string checkpoint_path;  ///< empty: the storage experiments have nothing to look at
  std::string inspect_path;     ///< of an existing checkpoint; empty: none
  StoragePolicy storage;
  CheckpointPolicy checkpoint;
};

/// What the ranks of one stage do.
struct StageWork {
  std::vector<PlanStep> steps;         ///< empty: nothing, and `why_not` says why
  std::optional<TrainerWork> trainer;  ///< after them, and no step of theirs
  std::vector<PlantedFault> faults;
  std::vector<std::string> directories;  ///< of this run, that the steps make and remove
  std::string why_not;
};
StageWork WorkOf(Stage stage, const RankSetup& setup);
/// A fault that can be planted in a worker of TorchTrainer.
bool IsTrainerFault(const std::string& kind);
/// The work of `cleanup`, which belongs to no stage.
StageWork LeftoverWork(const RankSetup& setup, const LeftoverRunsParameters& parameters);
/// From each end of a file of an existing checkpoint, for its digest.
inline constexpr std::int64_t kHashedBytesOfCheckpoint = 65'536;
/// Also one that is TorchTrainer's.
bool HasStep(const StageWork& work, const std::string& name);

struct RankStageResult {
  Observed<RankRun> run;
  std::vector<std::string> leftovers;  ///< what could not be removed, each with the reason
};

/// Has `launcher` start dlc-probe on `setup.ranks` ranks, do that work, and collects what they saw.
/// Not looked at when there is no work, or no place for the ranks. Every wait has a deadline; an
/// interruption stops the ranks, removes what they made and keeps what they saw.
RankStageResult RunRanks(StageWork work, const RankSetup& setup, Launcher& launcher,
                         const std::atomic<bool>& interrupted, Progress& progress);

}  // namespace dlc
