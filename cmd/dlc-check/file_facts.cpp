#include "cmd/dlc-check/file_facts.h"

#include <algorithm>
#include <utility>

#include "cmd/dlc-check/model_config.h"
#include "probes/control/files/cluster_file.h"
#include "probes/control/files/ray_answers.h"
#include "probes/control/sha256/sha256.h"
#include "probes/documents/node.h"
#include "probes/input/read_file.h"

namespace dlc {
namespace {

InputFile Input(std::string_view role, const std::string& name, std::string_view bytes) {
  return {std::string(role), name, Sha256Of(bytes), static_cast<std::int64_t>(bytes.size())};
}

}  // namespace

void FileFacts::AddPolicy(const PolicySource& source) {
  observations_.run.inputs.push_back(Input("policy", source.name, source.text));
}

Result<std::string> FileFacts::Take(std::string_view role, const ConfigPath& path) {
  auto bytes = ReadFileBytes(path.path, kClusterFileLimits.max_bytes);
  if (bytes) {
    observations_.run.inputs.push_back(Input(role, path.written, *bytes));
  }
  return bytes;
}

Result<void> FileFacts::ReadManifest(const ConfigPath& path) {
  auto bytes = Take("manifest", path);
  if (!bytes) {
    return bytes.error();
  }
  return ParseClusterFile(*bytes, path.written, observations_.cluster, notes_);
}

Result<void> FileFacts::ReadRay(const RayConfig& files) {
  const auto read = [&](std::string_view role, const ConfigPath& path, auto parse,
                        auto& out) -> Result<void> {
    if (path.empty()) {
      return {};
    }
    auto bytes = Take(role, path);
    if (!bytes) {
      return bytes.error();
    }
    auto value = parse(*bytes, path.written);
    if (!value) {
      return value.error();
    }
    out = std::move(value).value();
    return {};
  };
  RayFacts& ray = observations_.ray;
  if (auto done = read("ray-version", files.version, ParseRayVersion, ray.version); !done) {
    return done;
  }
  if (auto done = read("ray-nodes", files.nodes, ParseRayNodes, ray.nodes); !done) {
    return done;
  }
  if (auto done = read("pod-versions", files.pod_versions, ParsePodVersions, ray.pod_versions);
      !done) {
    return done;
  }
  std::vector<ConfigPath> jobs = files.jobs;
  if (!files.runtime_env.empty()) {
    jobs.push_back(files.runtime_env);
  }
  std::vector<RayJob> all;
  for (const ConfigPath& path : jobs) {
    std::vector<RayJob> some;
    if (auto done = read("ray-jobs", path, ParseRayJobs, some); !done) {
      return done;
    }
    all.insert(all.end(), some.begin(), some.end());
  }
  if (!jobs.empty()) {
    ray.jobs = std::move(all);
  }
  return {};
}

Result<void> FileFacts::ReadWorkload(const WorkloadConfig& workload) {
  observations_.run.workload = workload.workload;
  for (const auto& [role, path] :
       {std::pair{"job-code", workload.code}, std::pair{"workload-config", workload.config}}) {
    if (!path.empty()) {
      if (auto bytes = Take(role, path); !bytes) {
        return bytes.error();
      }
    }
  }
  if (workload.model_config.empty()) {
    return {};
  }
  const auto bytes = Take("model-config", workload.model_config);
  if (!bytes) {
    return bytes.error();
  }
  auto model = ParseModelConfig(*bytes, workload.model_config.written);
  if (!model) {
    return model.error();
  }
  workload_model_ = std::move(model).value();
  return {};
}

Result<void> FileFacts::SelectCluster(const Config& config) {
  const std::string& name = config.cluster.name.text;
  const std::string& name_space = config.cluster.name_space.text;
  if ((name.empty() && name_space.empty()) || !observations_.cluster.ray_clusters.seen()) {
    return {};
  }
  std::vector<RayCluster>& clusters = observations_.cluster.ray_clusters.value();
  std::string seen;
  for (const RayCluster& cluster : clusters) {
    seen += (seen.empty() ? "" : ", ") + cluster.name_space + "/" + cluster.name;
  }
  const auto other = [&](const RayCluster& cluster) {
    return (!name.empty() && cluster.name != name) ||
           (!name_space.empty() && cluster.name_space != name_space);
  };
  clusters.erase(std::remove_if(clusters.begin(), clusters.end(), other), clusters.end());
  if (clusters.empty()) {
    const int line = std::max(config.cluster.name.line, config.cluster.name_space.line);
    return DocumentError(config.file, line,
                         "no RayCluster '" + name_space + "/" + name + "' in the manifests",
                         seen.empty() ? "they hold none" : "they hold " + seen);
  }
  if (observations_.cluster.pods.seen()) {
    std::vector<Pod>& pods = observations_.cluster.pods.value();
    const auto elsewhere = [&](const Pod& pod) {
      return std::none_of(clusters.begin(), clusters.end(), [&](const RayCluster& cluster) {
        return cluster.name == pod.ray_cluster && cluster.name_space == pod.name_space;
      });
    };
    pods.erase(std::remove_if(pods.begin(), pods.end(), elsewhere), pods.end());
  }
  return {};
}

Result<void> FileFacts::Read(const Config* config, const std::vector<std::string>& manifests) {
  if (config != nullptr) {
    observations_.run.inputs.push_back(Input("config", config->file, config->bytes));
    for (const ConfigPath& path : config->Manifests()) {
      if (auto done = ReadManifest(path); !done) {
        return done;
      }
    }
  }
  for (const std::string& path : manifests) {
    if (auto done = ReadManifest({path, path, 0}); !done) {
      return done;
    }
  }
  if (config == nullptr) {
    return {};
  }
  if (auto done = ReadRay(config->ray); !done) {
    return done;
  }
  if (auto done = ReadWorkload(config->workload); !done) {
    return done;
  }
  return SelectCluster(*config);
}

}  // namespace dlc
