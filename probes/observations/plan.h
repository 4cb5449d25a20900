#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/fsdp_model.h"
#include "probes/observations/ranks.h"

namespace dlc {

/// One experiment that all ranks do at the same time.
struct PlanStep {
  std::string name;        ///< unique in the plan; names the step in events and observations
  std::string kind;        ///< "meet", "fabric-pairs", "storage-shared", ...
  int deadline_ms = 0;     ///< of the step, on every rank
  std::string parameters;  ///< JSON text of the kind's own parameters; "{}" for none

  bool operator==(const PlanStep&) const = default;
};

/// Kinds of faults, planted to see that they are found. At the start of the run (`step` empty):
inline constexpr std::array<std::string_view, 3> kFaultsAtStart = {"never-arrive", "wrong-secret",
                                                                   "exit"};
/// In a step: "crash" is SIGSEGV, "kill" is SIGKILL, "sleep" is for ever; with "exit-rank" the
/// whole rank dies; "other-directory" is mounted over the storage path, in the step's own mount
/// namespace; "flip-bit" is in the data that the rank gives; of "gpu-compute", in the memory, and
/// three are its own: in what is moved on the GPU, between host and GPU, and in the product. The
/// others are of "fsdp-training", the checkpoint steps and "fsdp-framework": what the rank does
/// wrong with its shard, or ("wrong-seed") trains on.
inline constexpr std::array<std::string_view, 19> kFaultsInStep = {
    "exit",         "crash",         "kill",
    "sleep",        "exit-rank",     "other-directory",
    "flip-bit",     "flip-transfer", "flip-host-copy",
    "flip-product", "wrong-average", "skipped-shard",
    "padding-leak", "stale-gather",  "dropped-micro-batch",
    "lost-moments", "stale-step",    "corrupt-shard",
    "wrong-seed"};

/// What dlc-probe does, the same text for every rank of a run.
struct RankPlan {
  std::string run_id;        ///< 16 hex digits
  int join_deadline_ms = 0;  ///< for all ranks to meet
  /// Rank 0 collects all ranks' documents and writes them as its own: for launchers that see rank
  /// 0's output only.
  bool gather = false;
  std::vector<PlanStep> steps;
  std::vector<PlantedFault> faults;

  bool operator==(const RankPlan&) const = default;
};

/// Of "fabric-pairs".
struct FabricPairsParameters {
  /// In libfabric's words; empty: "efa" where the pod has EFA devices, else one over TCP.
  std::string provider;
  std::vector<std::int64_t> sizes_bytes;  ///< rounded up to multiples of 8
  int warm_up = 0;                        ///< round trips that are not timed
  int iterations = 0;                     ///< timed round trips
  int messages = 0;                       ///< each way, for the bandwidth
  int window = 0;                         ///< of those on their way at once

  bool operator==(const FabricPairsParameters&) const = default;
};

/// Of "fabric-collectives".
struct FabricCollectivesParameters {
  std::string provider;                  ///< as above
  std::vector<std::string> collectives;  ///< "all_reduce", "all_gather", ...
  std::vector<std::int64_t> sizes_bytes;
  int warm_up = 0;  ///< operations that are not timed
  int iterations = 0;

  bool operator==(const FabricCollectivesParameters&) const = default;
};

/// Names of steps of the kind "nccl-collectives" that make NCCL take one network or none: AWS's
/// plugin, and sockets. Steps of other names run in the job's own environment.
inline constexpr std::string_view kNcclOverEfa = "nccl-over-efa";
inline constexpr std::string_view kNcclOverTcp = "nccl-over-tcp";

/// Of "nccl-collectives".
struct NcclCollectivesParameters {
  std::string library;  ///< path of libnccl; empty: the copy that torch of this image uses
  /// "NAME=VALUE" of NCCL_*, FI_* and OFI_NCCL_*, set in the experiment's process before NCCL is
  /// loaded. With NCCL_NET a network of another name is an error, not a fallback. Empty: the
  /// environment is left as the job has it, but for the log (NCCL_DEBUG, _FILE, _SUBSYS).
  std::vector<std::string> settings;
  /// NCCL_HOSTID of its own for each rank: NCCL then takes each for a node, and connects even ranks
  /// of one machine over the network. To try things out; no job runs so.
  bool host_id_per_rank = false;
  /// Where each rank keeps its raw log, "<run id>-<step>-rank<n>.log"; empty: nowhere.
  std::string log_directory;
  std::string type;  ///< "float32" or "bfloat16"; empty: "float32"
  std::vector<std::string> collectives;
  std::vector<std::int64_t> sizes_bytes;
  int warm_up = 0;  ///< operations of each size, out of place, before the first row
  int iterations = 0;

  bool operator==(const NcclCollectivesParameters&) const = default;
};

/// Of "fsdp-layout".
struct FsdpLayoutParameters {
  std::string provider;              ///< as of "fabric-pairs"
  std::vector<std::string> models;   ///< presets: "qwen2-tiny", "qwen2.5-1.5b"
  std::vector<std::string> layouts;  ///< "fsdp2", "hsdp", "fsdp1", "fsdp1-aligned", "zero3"
  /// Of "hsdp": so many ranks in a row hold one copy of the model together. 0: those of one machine
  /// where all machines have as many, else the largest proper divisor of the number of ranks.
  int shard_ranks = 0;
  /// Units are moved whole until that many elements were, in the order above; of later ones only
  /// what lies around the cuts. Models of up to a million parameters are always moved whole.
  std::int64_t whole_elements = 0;
  /// Of larger models every unit, whole, and not only the first layer and the root.
  bool every_unit = false;

  bool operator==(const FsdpLayoutParameters&) const = default;
};

/// Of "fsdp-training".
struct FsdpTrainingParameters {
  /// "cpu": host memory and libfabric; "cuda": the rank's GPU and NCCL; empty: "cpu".
  std::string backend;
  std::string library;            ///< of NCCL, as of "nccl-collectives"
  bool host_id_per_rank = false;  ///< same
  std::string provider;           ///< of libfabric, as of "fabric-pairs"
  FsdpModel model;
  std::int64_t rows = 0;      ///< sequences in a micro-batch
  std::int64_t sequence = 0;  ///< tokens of each
  int micro_batches = 0;      ///< of each rank and step
  int steps = 0;
  std::int64_t seed = 0;
  std::string compute;    ///< "float32" or "bfloat16"; empty: float32
  std::string gradients;  ///< same; empty: float32
  bool exact = false;     ///< and a run with whole numbers, before the training
  /// Of the unsharded model: "auto": where it fits beside; "no".
  std::string reference;
  /// Presets to predict the time of communication for, beside the model itself.
  std::vector<std::string> predict;
  /// The user's own model, to predict it for as well; without a name: none.
  FsdpModel predict_model;

  bool operator==(const FsdpTrainingParameters&) const = default;
};

/// Of "fsdp-framework".
struct FsdpFrameworkParameters {
  std::string engine;    ///< "torch", "deepspeed"
  std::string strategy;  ///< "fsdp2", "fsdp1"; of deepspeed "zero3"
  std::string python;    ///< a program, or a name to find in PATH; empty: "python3"
  std::string path;      ///< of the shared storage; empty: nothing is saved
  int more_steps = 0;    ///< after the checkpoint, in both processes
  /// As the native engine's; what only that needs is ignored.
  FsdpTrainingParameters training;

  bool operator==(const FsdpFrameworkParameters&) const = default;
};

/// Of "checkpoint-save" and "checkpoint-load", the same for both.
struct CheckpointTrainingParameters {
  std::string path;  ///< of the shared storage
  /// `steps` before the save, and as many after it.
  FsdpTrainingParameters training;
  /// For other numbers of ranks: all of the state is read once for each, as long as there are so
  /// many bytes left.
  std::int64_t most_reshard_bytes = 0;
  /// What one rank sees of the checkpoint must be seen by all within so long.
  int visible_within_ms = 0;

  bool operator==(const CheckpointTrainingParameters&) const = default;
};

/// Of "gpu-compute".
struct GpuComputeParameters {
  double seconds = 0;       ///< per GPU, about; 0: 10
  double memory_share = 0;  ///< of the free memory, tested, at most 0.9; 0: 0.25
  /// One bit is flipped in this experiment, to see it found: "memory", "transfer", "host-copy",
  /// "product"; empty: nowhere.
  std::string plant;

  bool operator==(const GpuComputeParameters&) const = default;
};

/// Of "storage-shared". Files are made in `<path>/.dlc-check-<run id>/` only.
struct StorageSharedParameters {
  std::string path;
  /// How long another rank's file may take to appear: NFS caches attributes and absent names for up
  /// to a minute (nfs(5), acdirmax).
  int visible_within_ms = 0;

  bool operator==(const StorageSharedParameters&) const = default;
};

/// Of "storage-speed". Files are made in `<path>/.dlc-check-<run id>/` only.
struct StorageSpeedParameters {
  std::string path;
  std::int64_t file_bytes = 0;            ///< of each rank's file
  std::vector<std::int64_t> block_bytes;  ///< one write and one read per entry
  bool direct = false;                    ///< and once more with O_DIRECT, with the last block size
  bool alone = false;           ///< and once more by one rank, without O_DIRECT, with the last one
  int metadata_files = 0;       ///< small files of each rank; 0: none
  double metadata_seconds = 0;  ///< of each phase over them at most

  bool operator==(const StorageSpeedParameters&) const = default;
};

/// Of "checkpoint-tree".
struct CheckpointTreeParameters {
  std::string path;
  std::int64_t hashed_bytes_per_file = 0;  ///< from each end of a file; 0: names and sizes only

  bool operator==(const CheckpointTreeParameters&) const = default;
};

/// Of "leftover-runs": what earlier runs left in `path`, by names ".dlc-check-<16 hex digits>".
struct LeftoverRunsParameters {
  std::string path;
  bool remove = false;  ///< what is this user's and was not changed for `quiet_seconds`
  std::string run_id;   ///< only this run's, however lately it was changed; empty: all
  int quiet_seconds = 0;

  bool operator==(const LeftoverRunsParameters&) const = default;
};

}  // namespace dlc
