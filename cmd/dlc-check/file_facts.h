#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/dlc-check/config.h"
#include "probes/observations/observations.h"
#include "probes/observations/plan.h"
#include "probes/observations/result.h"
#include "reports/report.h"

namespace dlc {

/// Puts what the user's files say into the observations, and each file's digest into the run's
/// inputs. A file is read once, so that a pipe (`-f <(kubectl get pods -o json)`) works.
class FileFacts {
 public:
  FileFacts(Observations& observations, std::vector<std::string>& notes)
      : observations_(observations), notes_(notes) {}

  void AddPolicy(const PolicySource& source);
  /// Everything that the config names (it may be null), then `manifests`. kInvalidInput with file
  /// and line.
  Result<void> Read(const Config* config, const std::vector<std::string>& manifests);
  /// Of workload.modelConfig; absent where the config names none.
  const std::optional<FsdpModel>& WorkloadModel() const { return workload_model_; }

 private:
  /// The bytes, after recording them as an input.
  Result<std::string> Take(std::string_view role, const ConfigPath& path);
  Result<void> ReadManifest(const ConfigPath& path);
  Result<void> ReadRay(const RayConfig& files);
  Result<void> ReadWorkload(const WorkloadConfig& workload);
  Result<void> SelectCluster(const Config& config);

  Observations& observations_;
  std::vector<std::string>& notes_;
  std::optional<FsdpModel> workload_model_;
};

}  // namespace dlc
