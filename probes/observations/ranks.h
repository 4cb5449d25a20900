#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "probes/observations/checkpoint.h"
#include "probes/observations/checkpoint_tree.h"
#include "probes/observations/fabric.h"
#include "probes/observations/framework.h"
#include "probes/observations/fsdp.h"
#include "probes/observations/gpu.h"
#include "probes/observations/nccl.h"
#include "probes/observations/observed.h"
#include "probes/observations/storage.h"

namespace dlc {

/// One process of the run.
struct RankFacts {
  int rank = 0;
  int size = 0;
  int local_rank = 0;
  std::string host;  ///< a pod's name in Kubernetes
  /// The kernel's boot id: ranks with the same one run under one kernel, whatever their host names
  /// say, and share its page cache and loopback.
  std::string node;
  std::int64_t pid = 0;
  std::int64_t uid = 0;
  std::int64_t gid = 0;
  std::string kernel;   ///< uname -r
  std::string libc;     ///< "glibc 2.34"
  std::string version;  ///< of dlc-probe

  bool operator==(const RankFacts&) const = default;
};

/// How an experiment's process ended.
struct ExperimentEnd {
  std::string how;  ///< "finished", "exited", "killed", "timed-out", "interrupted", "not-started"
  int exit_code = 0;
  int signal = 0;
  std::string signal_name;
  bool out_of_memory = false;    ///< the cgroup counted an OOM kill meanwhile
  bool stuck_in_kernel = false;  ///< not even SIGKILL ended it within seconds
  std::string last_progress;
  double seconds = 0;

  bool operator==(const ExperimentEnd&) const = default;
};

/// One step of the plan on one rank.
template <class T>
struct ExperimentResult {
  std::string step;  ///< its name in the plan
  ExperimentEnd end;
  Observed<T> seen;

  bool operator==(const ExperimentResult&) const = default;
};

/// `meet`: the ranks' processes found each other.
struct Meeting {
  std::vector<std::string> hosts;  ///< by rank
  double seconds_per_barrier = 0;

  bool operator==(const Meeting&) const = default;
};

/// A fault that the plan asked for. Its presence means that this run judges the tool, not the
/// cluster.
struct PlantedFault {
  int rank = 0;
  std::string step;  ///< empty: at the start of the run
  std::string kind;  ///< see probes/observations/plan.h
  std::string path;  ///< of "other-directory"

  bool operator==(const PlantedFault&) const = default;
};

/// All that one rank saw. A list per kind of step, in the plan's order.
struct RankObservations {
  RankFacts facts;
  /// Where the ranks met ("10.0.0.1:29500"), or why they did not.
  Observed<std::string> rendezvous;
  std::vector<PlantedFault> planted_faults;
  std::vector<ExperimentResult<Meeting>> meet;
  std::vector<ExperimentResult<GpuNode>> gpu_node;
  std::vector<ExperimentResult<GpuCompute>> gpu_compute;
  std::vector<ExperimentResult<NodeFabric>> fabric_node;
  std::vector<ExperimentResult<FabricExperiment>> fabric_pairs;
  std::vector<ExperimentResult<FabricExperiment>> fabric_collectives;
  std::vector<ExperimentResult<NcclExperiment>> nccl_collectives;
  std::vector<ExperimentResult<FsdpLayoutExperiment>> fsdp_layout;
  std::vector<ExperimentResult<FsdpTrainingExperiment>> fsdp_training;
  std::vector<ExperimentResult<FrameworkExperiment>> fsdp_framework;
  std::vector<ExperimentResult<StorageShared>> storage_shared;
  std::vector<ExperimentResult<StorageSpeed>> storage_speed;
  std::vector<ExperimentResult<CheckpointSave>> checkpoint_save;
  std::vector<ExperimentResult<CheckpointLoad>> checkpoint_load;
  std::vector<ExperimentResult<CheckpointTree>> checkpoint_tree;
  std::vector<ExperimentResult<LeftoverRuns>> leftover_runs;  ///< of earlier runs
  std::vector<std::string> leftovers;  ///< of this run's directories, what could not be removed
  bool interrupted = false;            ///< later steps are not in the lists

  bool operator==(const RankObservations&) const = default;
};

struct RankReport {
  int rank = 0;
  Observed<RankObservations> seen;  ///< an error names the rank and what became of it

  bool operator==(const RankReport&) const = default;
};

/// The ranks of one run, by rank. A rank that was lost is in the list, as an error.
struct RankRun {
  int size = 0;
  std::string launcher;  ///< "local", "env", "ray"; empty in a document that dlc-probe wrote
  /// As the plan asked for: a rank that was lost cannot tell its own.
  std::vector<PlantedFault> planted_faults;
  std::vector<RankReport> ranks;

  bool operator==(const RankRun&) const = default;
};

/// A line that dlc-probe writes while it runs.
struct RankEvent {
  std::string event;  ///< "joined", "step-started", "progress", "step-ended", "ended"
  int rank = 0;
  std::string step;
  std::string text;

  bool operator==(const RankEvent&) const = default;
};

}  // namespace dlc
