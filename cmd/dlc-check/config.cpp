#include "cmd/dlc-check/config.h"

#include <algorithm>
#include <utility>

#include "checks/policy_yaml.h"
#include "probes/documents/node.h"
#include "probes/documents/strict_map.h"
#include "probes/input/read_file.h"
#include "probes/observations/digest.h"
#include "probes/observations/plan.h"

namespace dlc {
namespace {

constexpr int kMostRanks = 100'000;
constexpr int kMostSteps = 1'000'000;
constexpr int kMostSeconds = 24 * 3600;
// What dlc-probe takes; shorter or smaller shows nothing.
constexpr double kLeastGpuSeconds = 0.1;
constexpr double kMostGpuSeconds = 600;
constexpr double kLeastGpuShare = 0.001;
constexpr double kMostGpuShare = 0.9;
constexpr int kLeastLeaseSeconds = 5;
constexpr int kMostLeaseSeconds = 3600;
constexpr std::string_view kOtherDirectory = "other-directory";
constexpr std::string_view kLayoutPrefix = "oci:";

Error Invalid(std::string message, std::string hint = "") {
  return Error{ErrorCode::kInvalidInput, std::move(message), std::move(hint)};
}

Result<std::string> NonEmptyText(const DocNode& node) {
  if (!node.IsScalar()) {
    return Invalid("must be text, not " + node.Describe());
  }
  if (node.text.empty()) {
    return Invalid("must not be empty", "remove the key");
  }
  return node.text;
}

/// Reads the parts; each answers its first error, which names file and line.
class ConfigReader {
 public:
  explicit ConfigReader(std::string file)
      : file_(std::move(file)), directory_(file_.substr(0, file_.rfind('/') + 1)) {
    config_.file = file_;
  }

  Result<void> Read(const DocNode& root);
  Config& config() { return config_; }

 private:
  /// Like kubeconfig: relative to the file that names it.
  std::string Resolve(const std::string& path) const {
    return path.starts_with('/') ? path : directory_ + path;
  }

  Result<ConfigPath> PathOf(const DocNode& node) const;
  void Path(StrictMap& map, std::string_view key, ConfigPath& out) const;
  void Paths(StrictMap& map, std::string_view key, std::vector<ConfigPath>& out) const;
  static void Text(StrictMap& map, std::string_view key, ConfigText& out);

  Result<void> Target(const DocNode& node);
  void RayTarget(StrictMap& map);
  Result<void> CheckNodePaths() const;
  Result<void> PlantedFaultPart(const DocNode& node);
  Result<void> Image(const DocNode& node);
  Result<void> Reference(const DocNode& node);
  Result<void> Registry(const DocNode& node);
  Result<void> Cluster(const DocNode& node);
  Result<void> Ray(const DocNode& node);
  Result<void> Checkpoint(const DocNode& node);
  Result<void> Gpu(const DocNode& node);
  Result<void> Nccl(const DocNode& node);
  Result<void> Framework(const DocNode& node);
  Result<void> WorkloadPart(const DocNode& node);
  Result<void> PolicyPart(const DocNode& node);

  std::string file_;
  std::string directory_;  ///< with the slash, or empty
  Config config_;
};

Result<ConfigPath> ConfigReader::PathOf(const DocNode& node) const {
  const auto text = NonEmptyText(node);
  if (!text) {
    return text.error();
  }
  if (text->starts_with('~')) {
    return Invalid("cannot start with '~': only a shell expands it",
                   "write the path out, or relative to this file");
  }
  return ConfigPath{Resolve(*text), *text, node.line};
}

void ConfigReader::Path(StrictMap& map, std::string_view key, ConfigPath& out) const {
  map.Each(key, [&](const DocNode& node) -> Result<void> {
    auto path = PathOf(node);
    if (!path) {
      return std::move(path).error();
    }
    out = std::move(*path);
    return {};
  });
}

void ConfigReader::Paths(StrictMap& map, std::string_view key, std::vector<ConfigPath>& out) const {
  map.Items(key, [&](const DocNode& node) -> Result<void> {
    auto path = PathOf(node);
    if (!path) {
      return std::move(path).error();
    }
    const bool twice = std::any_of(
        out.begin(), out.end(), [&](const ConfigPath& other) { return other.path == path->path; });
    if (twice) {
      return Invalid("is given twice");
    }
    out.push_back(std::move(*path));
    return {};
  });
}

void ConfigReader::Text(StrictMap& map, std::string_view key, ConfigText& out) {
  map.Each(key, [&](const DocNode& node) -> Result<void> {
    auto text = NonEmptyText(node);
    if (!text) {
      return std::move(text).error();
    }
    out = {std::move(*text), node.line};
    return {};
  });
}

Result<void> ConfigReader::Read(const DocNode& root) {
  StrictMap map(file_, root, "");
  std::string checked_before;
  map.Text("apiVersion", checked_before);
  map.Text("kind", checked_before);
  map.Each("target", [this](const DocNode& node) { return Target(node); });
  map.Each("image", [this](const DocNode& node) { return Image(node); });
  map.Each("cluster", [this](const DocNode& node) { return Cluster(node); });
  map.Each("ray", [this](const DocNode& node) { return Ray(node); });
  map.Each("checkpoint", [this](const DocNode& node) { return Checkpoint(node); });
  map.Each("gpu", [this](const DocNode& node) { return Gpu(node); });
  map.Each("nccl", [this](const DocNode& node) { return Nccl(node); });
  map.Each("framework", [this](const DocNode& node) { return Framework(node); });
  map.Each("workload", [this](const DocNode& node) { return WorkloadPart(node); });
  map.Each("policy", [this](const DocNode& node) { return PolicyPart(node); });
  auto done = map.Finish();
  return done ? CheckNodePaths() : done;
}

Result<void> ConfigReader::Target(const DocNode& node) {
  TargetConfig& target = config_.target;
  StrictMap map(file_, node, "target");
  map.Require("type");
  map.Choice("type", target.type.text, {"local", "env", "replay", "ray"});
  if (const DocNode* type = node.Find("type")) {
    target.type.line = type->line;
  }
  map.Int("ranks", target.ranks, 1, kMostRanks);
  int seconds = 0;
  map.Int("timeoutSeconds", seconds, 1, kMostSeconds);
  if (seconds > 0) {
    target.timeout = std::chrono::seconds(seconds);
  }
  map.Items("plantedFaults", [this](const DocNode& fault) { return PlantedFaultPart(fault); });
  Path(map, "observations", target.observations);
  map.Each("observations", [&target](const DocNode&) -> Result<void> {
    if (target.type.text != "replay") {
      return Invalid("is only for target type replay, not " + target.type.text);
    }
    return {};
  });
  if (target.type.text == "replay") {
    map.Require("observations");
  }
  if (target.type.text == "ray") {
    map.Require("ranks");
  }
  RayTarget(map);
  return map.Finish();
}

void ConfigReader::RayTarget(StrictMap& map) {
  const std::string& type = config_.target.type.text;
  RayTargetConfig& ray = config_.target.ray;
  const auto seconds = [&map](std::string_view key, std::chrono::seconds& out, int least,
                              int most) {
    int number = static_cast<int>(out.count());
    map.Int(key, number, least, most);
    out = std::chrono::seconds(number);
  };
  map.Int("gpusPerRank", ray.gpus_per_rank, 0, 1);
  map.Choice("placement", ray.placement, {"pack", "strict-spread"});
  seconds("waitSeconds", ray.wait, 1, kMostSeconds);
  seconds("leaseSeconds", ray.lease, kLeastLeaseSeconds, kMostLeaseSeconds);
  for (const char* key : {"gpusPerRank", "placement", "waitSeconds", "leaseSeconds"}) {
    map.Each(key, [&type](const DocNode&) -> Result<void> {
      return type == "ray" ? Result<void>() : Invalid("is only for target type ray, not " + type);
    });
  }
}

/// What the ranks of a cluster open is theirs: this file's directory means nothing there.
Result<void> ConfigReader::CheckNodePaths() const {
  const std::pair<const char*, const ConfigPath*> paths[] = {
      {"checkpoint.path", &config_.checkpoint_path},
      {"checkpoint.inspect", &config_.checkpoint_inspect},
      {"nccl.library", &config_.nccl.library},
      {"nccl.logDirectory", &config_.nccl.log_directory}};
  for (const auto& [key, path] : paths) {
    if (config_.target.type.text == "ray" && !path->empty() && !path->written.starts_with('/')) {
      return DocumentError(file_, path->line,
                           std::string(key) + " must start with '/': '" + path->written +
                               "' is opened on the nodes of target ray",
                           "write the path as the pods have it");
    }
  }
  return {};
}

Result<void> ConfigReader::PlantedFaultPart(const DocNode& node) {
  std::vector<FaultConfig>& faults = config_.target.planted_faults;
  PlantedFault fault;
  StrictMap map(file_, node, "target.plantedFaults[" + std::to_string(faults.size()) + "]");
  map.Require("rank");
  const TargetConfig& target = config_.target;
  // How many ranks there are, target env has to ask its surroundings.
  const int ranks = target.type.text == "env" && target.ranks == 0 ? kMostRanks : target.ranks;
  map.Int("rank", fault.rank, 0, std::max(ranks, 1) - 1);
  map.Text("step", fault.step);
  map.Require("kind");
  const auto names = [](const auto& kinds) {
    return std::vector<std::string>(kinds.begin(), kinds.end());
  };
  map.Choice("kind", fault.kind, fault.step.empty() ? names(kFaultsAtStart) : names(kFaultsInStep));
  const bool mounts = fault.kind == kOtherDirectory;
  ConfigPath path;
  Path(map, "path", path);
  map.Each("path", [mounts](const DocNode&) -> Result<void> {
    return mounts ? Result<void>() : Invalid("is only for faults of kind other-directory");
  });
  if (mounts) {
    map.Require("path");
  }
  fault.path = path.path;
  faults.push_back({std::move(fault), node.line});
  return map.Finish();
}

Result<void> ConfigReader::Image(const DocNode& node) {
  StrictMap map(file_, node, "image");
  map.Each("reference", [this](const DocNode& text) { return Reference(text); });
  Paths(map, "manifests", config_.image.manifests);
  map.Each("registry", [this](const DocNode& part) { return Registry(part); });
  return map.Finish();
}

Result<void> ConfigReader::Reference(const DocNode& node) {
  auto text = NonEmptyText(node);
  if (!text) {
    return std::move(text).error();
  }
  const auto reference = ImageReference::Parse(*text);
  if (!reference) {
    return reference.error();
  }
  if (reference->oci_layout) {
    *text = std::string(kLayoutPrefix) + Resolve(text->substr(kLayoutPrefix.size()));
  }
  config_.image.reference = {std::move(*text), node.line};
  return {};
}

Result<void> ConfigReader::Registry(const DocNode& node) {
  RegistryConfig& registry = config_.image.registry;
  StrictMap map(file_, node, "image.registry");
  Path(map, "ca", registry.ca);
  map.Bool("plainHttp", registry.plain_http);
  int seconds = 0;
  map.Int("timeoutSeconds", seconds, 1, kMostSeconds);
  if (seconds > 0) {
    registry.timeout = std::chrono::seconds(seconds);
  }
  map.Each("ca", [&registry](const DocNode&) -> Result<void> {
    if (registry.plain_http) {
      return Invalid("cannot be used with plainHttp", "remove one of them");
    }
    return {};
  });
  return map.Finish();
}

Result<void> ConfigReader::Cluster(const DocNode& node) {
  ClusterConfig& cluster = config_.cluster;
  StrictMap map(file_, node, "cluster");
  Text(map, "name", cluster.name);
  Text(map, "namespace", cluster.name_space);
  Paths(map, "manifests", cluster.manifests);
  Path(map, "kubeconfig", cluster.kubeconfig);
  Text(map, "context", cluster.context);
  return map.Finish();
}

Result<void> ConfigReader::Ray(const DocNode& node) {
  RayConfig& ray = config_.ray;
  StrictMap map(file_, node, "ray");
  Text(map, "address", ray.address);
  Path(map, "ca", ray.ca);
  int seconds = 0;
  map.Int("timeoutSeconds", seconds, 1, kMostSeconds);
  if (seconds > 0) {
    ray.timeout = std::chrono::seconds(seconds);
  }
  Path(map, "version", ray.version);
  Path(map, "nodes", ray.nodes);
  Path(map, "podVersions", ray.pod_versions);
  Paths(map, "jobs", ray.jobs);
  Path(map, "runtimeEnv", ray.runtime_env);
  map.Each("address", [&ray](const DocNode&) -> Result<void> {
    if (const std::string saved = ray.SavedAnswer(); !saved.empty()) {
      return Invalid("cannot be used with " + saved + ", a saved answer of the same dashboard",
                     "remove one of them");
    }
    return {};
  });
  return map.Finish();
}

Result<void> ConfigReader::Checkpoint(const DocNode& node) {
  StrictMap map(file_, node, "checkpoint");
  Path(map, "path", config_.checkpoint_path);
  Path(map, "inspect", config_.checkpoint_inspect);
  map.Each("inspect", [this](const DocNode&) -> Result<void> {
    return config_.checkpoint_path.empty()
               ? Result<void>(Invalid("needs checkpoint.path too",
                                      "without ranks, dlc-check checkpoint --from-checkpoint DIR"))
               : Result<void>();
  });
  return map.Finish();
}

Result<void> ConfigReader::Gpu(const DocNode& node) {
  StrictMap map(file_, node, "gpu");
  map.Double("seconds", config_.gpu.seconds, kLeastGpuSeconds, kMostGpuSeconds);
  map.Double("memoryShare", config_.gpu.memory_share, kLeastGpuShare, kMostGpuShare);
  return map.Finish();
}

Result<void> ConfigReader::Nccl(const DocNode& node) {
  StrictMap map(file_, node, "nccl");
  Path(map, "library", config_.nccl.library);
  Path(map, "logDirectory", config_.nccl.log_directory);
  map.Bool("hostIdPerRank", config_.nccl.host_id_per_rank);
  return map.Finish();
}

Result<void> ConfigReader::Framework(const DocNode& node) {
  StrictMap map(file_, node, "framework");
  map.Text("python", config_.framework.python);
  return map.Finish();
}

Result<void> ConfigReader::WorkloadPart(const DocNode& node) {
  Workload& workload = config_.workload.workload;
  StrictMap map(file_, node, "workload");
  map.Text("model", workload.model);
  map.Int("workers", workload.workers, 1, kMostRanks);
  map.Int("gpusPerWorker", workload.gpus_per_worker, 1, kMostRanks);
  map.Int("nodes", workload.nodes, 1, kMostRanks);
  map.Int("steps", workload.steps, 1, kMostSteps);
  Path(map, "code", config_.workload.code);
  Path(map, "config", config_.workload.config);
  Path(map, "modelConfig", config_.workload.model_config);
  return map.Finish();
}

Result<void> ConfigReader::PolicyPart(const DocNode& node) {
  auto policy = ReadPolicyNode(file_, node);
  if (!policy) {
    return std::move(policy).error();
  }
  config_.policy = std::move(*policy);
  return {};
}

}  // namespace

std::string RayConfig::SavedAnswer() const {
  if (!version.empty()) {
    return "ray.version";
  }
  if (!nodes.empty()) {
    return "ray.nodes";
  }
  return jobs.empty() ? "" : "ray.jobs";
}

std::vector<ConfigPath> Config::Manifests() const {
  std::vector<ConfigPath> all = image.manifests;
  for (const ConfigPath& manifest : cluster.manifests) {
    const bool there = std::any_of(all.begin(), all.end(), [&](const ConfigPath& other) {
      return other.path == manifest.path;
    });
    if (!there) {
      all.push_back(manifest);
    }
  }
  return all;
}

Result<Config> ParseConfig(std::string_view bytes, const std::string& file) {
  const auto root = ParseVersionedFile(bytes, file, {"Config"});
  if (!root) {
    return root.error();
  }
  ConfigReader reader(file);
  if (const auto done = reader.Read(*root); !done) {
    return done.error();
  }
  reader.config().bytes = std::string(bytes);
  return std::move(reader.config());
}

Result<Config> ReadConfig(const std::string& path) {
  const auto bytes = ReadFileBytes(path, DocumentLimits{}.max_bytes);
  if (!bytes) {
    return bytes.error();
  }
  return ParseConfig(*bytes, path);
}

}  // namespace dlc
