#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checks/finding.h"
#include "probes/observations/cluster.h"

namespace dlc {

/// What a pod asks for of one extended resource (whole devices, limits only: a request without a
/// limit is invalid). KubeRay's Ray container is containers[0].
struct ResourceAsk {
  AssertedValue limit;  ///< of the Ray container: whole number; text that is none; or not there
  AssertedValue request;
  std::vector<std::string> elsewhere;  ///< "init container 'x' (4)": other holders of a limit

  /// The Ray container's limit, 0 when it is not there or no whole number.
  std::int64_t Count() const;
  /// Asked for, but not by the Ray container's limit.
  bool Misplaced() const;
};
ResourceAsk AskFor(const PodSpec& spec, const std::string& resource);

/// What the scheduler reserves: the larger of all containers together and any init container.
std::int64_t Reserved(const PodSpec& spec, const std::string& resource);

/// Limits of the Ray container named nvidia.com/mig-*, summed.
std::int64_t MigSlices(const PodSpec& spec);

/// What the Ray container is given: whole GPUs (`resource`) and MIG slices. Text when the limit is
/// no whole number.
AssertedValue AllottedGpus(const PodSpec& spec, const std::string& resource);
/// Same, 0 for text.
std::int64_t AllottedGpuCount(const PodSpec& spec, const std::string& resource);

/// The GPU limit that KubeRay passes as --num-gpus when rayStartParams does not say: the first key,
/// sorted, that ends in "gpu" or names a MIG profile (ray-operator controllers/ray/common/pod.go).
/// Empty key: KubeRay passes nothing, and Ray counts what it can see.
struct DerivedGpuFlag {
  std::string resource;
  AssertedValue count;
};
DerivedGpuFlag KubeRayGpuFlag(const PodSpec& spec);

/// The literal value of an environment variable of the Ray container; the last entry wins, as in
/// Kubernetes. nullptr when it is not set.
const EnvVar* RayEnv(const PodSpec& spec, std::string_view name);

/// A quantity as a value to assert: whole number, else the text, else not there.
AssertedValue QuantityValue(const std::map<std::string, std::string>& quantities,
                            const std::string& key);

}  // namespace dlc
