#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checks/policy.h"
#include "probes/observations/ranks.h"
#include "probes/observations/result.h"
#include "probes/observations/run.h"

namespace dlc {

/// A path in a config: `path` opens it (relative ones are joined to the config file's directory),
/// `written` is what the user gave, for reports that must not depend on where the config lay.
struct ConfigPath {
  std::string path;
  std::string written;
  int line = 0;

  bool empty() const { return path.empty(); }
};

/// A text that later stages may refuse, with the line to name then.
struct ConfigText {
  std::string text;
  int line = 0;  ///< 0: not in the file

  bool empty() const { return text.empty(); }
};

/// A fault to plant in a rank, to see that the run finds it.
struct FaultConfig {
  PlantedFault fault;
  int line = 0;
};

/// Of target type ray alone.
struct RayTargetConfig {
  int gpus_per_rank = 1;           ///< 0 or 1
  std::string placement = "pack";  ///< or "strict-spread": each rank on a node of its own
  std::chrono::seconds wait{300};  ///< for places that others hold
  std::chrono::seconds lease{60};  ///< after so long without a word from dlc-check the job ends
};

/// Where ranks run.
struct TargetConfig {
  ConfigText type;  ///< "local", "env", "replay", "ray"; empty when the file has no target
  int ranks = 0;    ///< 0: not stated
  /// Of the ranks' meeting and of each of their steps; absent: what each needs at most.
  std::optional<std::chrono::seconds> timeout;
  std::vector<FaultConfig> planted_faults;
  ConfigPath observations;  ///< replay only
  RayTargetConfig ray;
};

/// How long the gpu stage works on each GPU, and on how much of it; 0: dlc-probe's default.
struct GpuConfig {
  double seconds = 0;
  double memory_share = 0;  ///< of the free memory
};

struct NcclConfig {
  ConfigPath library;        ///< libnccl.so.2; empty: the copy that torch of the image uses
  ConfigPath log_directory;  ///< where each rank keeps its raw log; empty: nowhere
  /// A lab setting: each rank gets an NCCL_HOSTID of its own, so that ranks of one machine talk
  /// over the network. Recorded, and no job runs so.
  bool host_id_per_rank = false;
};

struct FrameworkConfig {
  /// A program's path, or a name that the ranks find in their PATH; empty: python3.
  std::string python;
};

struct RegistryConfig {
  ConfigPath ca;  ///< PEM
  bool plain_http = false;
  std::optional<std::chrono::seconds> timeout;  ///< absent: timeouts::kRegistry
};

struct ImageInput {
  ConfigText reference;  ///< an ImageReference; the DIR of "oci:DIR[:tag]" is resolved like a path
  std::vector<ConfigPath> manifests;  ///< files with RayCluster, Pods, Nodes
  RegistryConfig registry;
};

struct ClusterConfig {
  ConfigText name;  ///< of the RayCluster; empty: the only one
  ConfigText name_space;
  std::vector<ConfigPath> manifests;
  ConfigPath kubeconfig;
  ConfigText context;

  /// Something in it says which live cluster is meant.
  bool NamesOne() const {
    return !name.empty() || !name_space.empty() || !kubeconfig.empty() || !context.empty();
  }
};

/// Ray's dashboard, or its saved answers.
struct RayConfig {
  ConfigText address;                           ///< "http://HOST:8265"; not yet looked at
  ConfigPath ca;                                ///< PEM, of an https address
  std::optional<std::chrono::seconds> timeout;  ///< of all questions; absent: timeouts::kRay
  ConfigPath version;                           ///< GET /api/version
  ConfigPath nodes;                             ///< GET /api/v0/nodes
  ConfigPath pod_versions;                      ///< versions read inside each pod
  std::vector<ConfigPath> jobs;                 ///< GET /api/jobs/, or one job's answer
  ConfigPath runtime_env;  ///< JSON that was passed to `ray job submit --runtime-env-json`

  /// The key of a saved answer to what a dashboard is asked ("ray.version"), or empty. A
  /// runtime_env is none: it is of a job that is not submitted yet.
  std::string SavedAnswer() const;
};

struct WorkloadConfig {
  Workload workload;
  ConfigPath code;
  ConfigPath config;
  ConfigPath model_config;  ///< Hugging Face's config.json
};

/// `kind: Config`: where and what. Every key that this version knows is read, also for targets
/// that it cannot run; the caller says which those are.
struct Config {
  std::string file;   ///< as the user named it
  std::string bytes;  ///< of the whole file: travels in the evidence
  TargetConfig target;
  ImageInput image;
  ClusterConfig cluster;
  RayConfig ray;
  ConfigPath checkpoint_path;
  ConfigPath checkpoint_inspect;  ///< an existing checkpoint, for every rank to look at
  GpuConfig gpu;
  NcclConfig nccl;
  FrameworkConfig framework;
  WorkloadConfig workload;
  /// Of `policy:`; absent when the file has none, so that the caller can tell "built-in" from
  /// "inline".
  std::optional<Policy> policy;

  /// image.manifests and cluster.manifests, each file once.
  std::vector<ConfigPath> Manifests() const;
};

/// Strict: errors are kInvalidInput "FILE: line L: ...". The paths in it are not looked at. `file`
/// gives the directory that relative paths are joined to.
Result<Config> ParseConfig(std::string_view bytes, const std::string& file);
/// Same from disk, with the errors of ReadFileBytes.
Result<Config> ReadConfig(const std::string& path);

}  // namespace dlc
