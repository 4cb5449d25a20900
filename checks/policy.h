#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checks/finding.h"
#include "probes/observations/digest.h"
#include "probes/observations/run.h"

namespace dlc {

/// A published release of the image, as the policy's author knows it: what a digest means.
struct KnownRelease {
  std::string name;                             ///< "v1.1"
  Digest digest;                                ///< of the tag (index or manifest)
  std::map<std::string, std::string> contents;  ///< "ray": "2.58.0", "efa-installer": "1.49.0", ...
  std::vector<std::string> known_problems;      ///< text shown as a warning when this release runs
};

struct ImagePolicy {
  std::vector<Digest>
      digests;  ///< any of them is right; empty: no digest is demanded, and the check says so
  std::string platform = "linux/amd64";
  /// Labels and values that the image must carry; framework, framework_version, dlc_major_version,
  /// dlc_minor_version.
  std::map<std::string, std::string> labels;
  std::string container_type;  ///< env DLC_CONTAINER_TYPE: "training"; the same repository holds
                               ///< Serve images
  std::string efa_installer;   ///< version in each pod's /opt/amazon/efa_installed_packages; empty:
                               ///< not judged
  std::vector<KnownRelease> releases;
};

struct RayPolicy {
  std::string version;  ///< empty: the image's label framework_version is the expectation
  std::string python;   ///< "3.13" matches any patch level; "3.13.2" exactly that
};

struct JobPackagesPolicy {
  /// Names (PEP 503, with a trailing * for a prefix) that a job may not replace.
  std::vector<std::string> protected_names = {
      "torch",      "torchvision",        "ray",       "nvidia-*", "cuda-*", "triton",
      "flash-attn", "transformer-engine", "deepspeed", "numpy"};
  /// What the image holds, so that an override is told from an addition: name -> version.
  std::map<std::string, std::string> image_packages;
  std::vector<std::string> allowed;  ///< additions that need no remark
};

struct GpuPolicy {
  int per_worker_pod = 0;  ///< limits[nvidia.com/gpu] of every worker pod; 0: not demanded
  int worker_pods = 0;     ///< 0: not demanded
  int total = 0;  ///< sum over workers; 0: taken from the config's workload, if stated there
  std::string resource = "nvidia.com/gpu";
  /// "required": ranks must be given GPUs, and must have run. "with-ranks": judged where ranks ran.
  /// "no": no GPU is asked for, and none is judged.
  std::string devices = "with-ranks";
  std::string model;                  ///< words of its name: "H200", "L4"; empty: any
  std::int64_t min_memory_bytes = 0;  ///< of each GPU, as CUDA tells it; 0: not demanded
  std::string min_driver;             ///< of the kernel module, "580.65.06"; empty: not demanded
  /// Memory in use before the run; above it somebody else holds the GPU. The driver's own share is
  /// in it.
  double max_used_memory_share = 0.1;
  double min_copy_bytes_per_second = 0;       ///< on the device, read plus written; 0: not demanded
  double min_host_copy_bytes_per_second = 0;  ///< each way, pinned; 0: not demanded
  double min_product_operations_per_second = 0;  ///< of our plain kernel; 0: not demanded
  /// The slowest GPU against the median of those of its model; 0: not demanded.
  double min_share_of_median = 0.9;
  /// Of which pairs of GPUs of one node each must be able to read and write the other's memory.
  /// "required": of all. "with-nvlink": of those that NVLink joins.
  std::string peer_access = "with-nvlink";
  int min_nvlinks = 0;  ///< active ones of each GPU; 0: not demanded
};

/// Of messages of one size between two ranks on different machines, each way.
struct PairBandwidthLimit {
  std::int64_t size_bytes = 0;
  double bytes_per_second = 0;
};
struct PairLatencyLimit {
  std::int64_t size_bytes = 0;
  double seconds = 0;
};
/// Of one collective of all ranks, as nccl-tests counts (busbw).
struct BusBandwidthLimit {
  std::string collective;  ///< "all_reduce", "all_gather", "reduce_scatter", "broadcast"
  std::int64_t size_bytes = 0;
  double bytes_per_second = 0;
};

struct FabricPolicy {
  /// "required": EFA must be set up. "when-available": judged on instance types that have it. "no":
  /// not judged.
  std::string efa = "when-available";
  int interfaces_per_worker_pod =
      0;  ///< 0: at least one; the instance type's number is compared as a warning
  std::string resource = "vpc.amazonaws.com/efa";
  std::string provider;  ///< of libfabric, that the ranks' messages must have gone by; empty: any
  std::optional<PairBandwidthLimit> min_pair_bandwidth;
  std::optional<PairLatencyLimit> max_pair_latency;
  std::vector<BusBandwidthLimit> min_bus_bandwidth;
};

/// Of a collective as NCCL ran it between nodes. One of the two limits is set.
struct NcclBandwidthLimit {
  std::string collective;         ///< "all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                  ///< "send_recv"
  std::string type;               ///< "float32", "bfloat16"
  std::int64_t size_bytes = 0;    ///< that were asked for
  double bytes_per_second = 0;    ///< busbw as nccl-tests counts it
  double share_of_line_rate = 0;  ///< of the instance type's network figure
};

struct NcclPolicy {
  /// "required": ranks must have run collectives. "with-ranks": judged where ranks ran. "no": none
  /// are run, and none are judged.
  std::string measure = "with-ranks";
  /// What must be known at least of what carried the bytes between nodes: "EFA_LOGGED",
  /// "EFA_PROVEN"; "any" asks for nothing. Empty: EFA_LOGGED where fabric.efa is required, where
  /// the instance type or the pod has EFA, or where the job loads AWS's plugin.
  std::string transport;
  std::map<std::string, std::string> transport_of_type;  ///< by instance type; wins over the above
  /// GPUDirect RDMA on every connection between nodes: "required", "by-instance-type", "no".
  std::string gpu_direct = "by-instance-type";
  /// How ranks of one node must reach each other: "P2P"; "any" asks for nothing.
  std::string inside_node = "any";
  std::vector<std::string> collectives = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                          "send_recv"};
  std::vector<std::string> types = {"float32", "bfloat16"};
  std::vector<std::int64_t> sizes_bytes;  ///< that are measured; empty: 8 bytes to 64 MiB
  bool tcp_control = false;               ///< once more over sockets, to compare
  std::vector<NcclBandwidthLimit> min_bus_bandwidth;
};

/// What is trained over shards, beside what is only moved.
struct FsdpTrainingPolicy {
  std::string measure = "with-ranks";  ///< "with-ranks", "no"
  /// A preset, or "workload": the config's workload.modelConfig.
  std::string model = "qwen2-tiny";
  /// "cpu": float32 over libfabric. "cuda": bfloat16 on the ranks' GPUs, over NCCL; what was
  /// trained on the other says nothing about it.
  std::string backend = "cpu";
  int rows = 2;           ///< sequences in a micro-batch
  int sequence = 64;      ///< tokens of each
  int micro_batches = 2;  ///< of each rank and step
  int steps = 3;
  /// Presets to say the time of communication for.
  std::vector<std::string> predict = {"qwen2.5-1.5b"};
};

/// The image's own framework, trained on what the native engine is trained on (FsdpTrainingPolicy).
struct FsdpFrameworkPolicy {
  std::string engine = "none";     ///< "none", "torch", "deepspeed"
  std::string strategy = "fsdp2";  ///< "fsdp2", "fsdp1"; of deepspeed "zero3"
  /// "rank": dlc-probe starts it on each rank, as torchrun would. "ray-train": Ray Train's
  /// TorchTrainer does, on the nodes of target ray.
  std::string launcher = "rank";
  /// |loss - the native engine's| over the latter, of each step on each rank. Absent: 1e-4 on the
  /// CPU, which is float32; 0.02 on GPUs, which is five roundings of bfloat16.
  std::optional<double> max_loss_difference;
  double min_steps_per_second =
      0;  ///< of the slowest rank's steps after the first; 0: not demanded
};

struct FsdpPolicy {
  /// "required": ranks must have run. "with-ranks": judged where ranks ran. "no": none are run for
  /// the stage, and none are judged.
  std::string measure = "with-ranks";
  std::vector<std::string> layouts = {"fsdp2", "hsdp", "fsdp1", "fsdp1-aligned", "zero3"};
  std::vector<std::string> models = {"qwen2-tiny", "qwen2.5-1.5b"};
  bool every_unit = false;  ///< of large models all layers whole, and not samples of two units
  FsdpTrainingPolicy training;
  FsdpFrameworkPolicy framework;
};

struct StoragePolicy {
  /// Types that the checkpoint path may have ("lustre", "nfs4"); empty: any.
  std::vector<std::string> filesystems;
  std::int64_t min_free_bytes = 0;   ///< 0: not demanded
  std::int64_t min_free_inodes = 0;  ///< 0: not demanded
  /// How long one rank's new file may stay out of another's sight.
  double visible_within_seconds = 10;
  /// All ranks together, fsync included; 0: not demanded.
  double min_write_bytes_per_second = 0;
  /// All ranks together, shown to come from no page cache; 0: not demanded.
  double min_cold_read_bytes_per_second = 0;
  /// The model whose checkpoints are to be saved there; 0: the largest of `predict`.
  std::int64_t parameters = 0;
  /// Presets to tell the time to save and to restore for, beside that model.
  std::vector<std::string> predict = {"qwen2.5-1.5b"};
  /// The ranks measure with files as large as that model's, but not larger than this.
  std::int64_t max_bytes_per_rank = std::int64_t{32} << 20;
  /// Of that model, by all ranks at the rates of this run; 0: not demanded.
  double max_save_seconds = 0;
  double max_restore_seconds = 0;
  /// The rate of a pass's second half against its first's; 0: not demanded.
  double min_share_of_first_half = 0.5;
  /// So much may go through on credits or into a cache before the rate is the one that lasts.
  /// Absent: a new EFS file system's credits on EFS, nothing elsewhere.
  std::optional<std::int64_t> burst_bytes;
  int metadata_files = 1000;  ///< small files of each rank; 0: none are made
  /// Creating, listing and deleting them, all ranks together; 0: not demanded.
  double min_metadata_operations_per_second = 0;
};

/// What is saved, loaded and trained on under the checkpoint path.
struct CheckpointPolicy {
  std::string measure = "with-ranks";  ///< "with-ranks", "no"
  std::string model = "qwen2-tiny";    ///< a preset, or "workload"
  std::string backend = "cpu";         ///< as FsdpTrainingPolicy's
  int steps = 2;                       ///< before the save, and as many after it
};

/// What is good enough. Every limit and every tolerance is here; nothing is hidden in a check.
struct Policy {
  std::string name;           ///< metadata.name, may be empty
  std::vector<Stage> stages;  ///< that a `cluster` run must cover; empty: all
  ImagePolicy image;
  RayPolicy ray;
  JobPackagesPolicy job_packages;
  GpuPolicy gpu;
  FabricPolicy fabric;
  NcclPolicy nccl;
  FsdpPolicy fsdp;
  StoragePolicy storage;
  CheckpointPolicy checkpoint;
  /// Rule id ("image-digest/floating-tag") or check id -> severity. The rule's own entry wins over
  /// its check's.
  std::map<std::string, Severity> severity;
};

}  // namespace dlc
