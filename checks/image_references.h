#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "checks/ray_pods.h"
#include "probes/observations/observations.h"

namespace dlc {

/// An image text of Ray containers, and where it stands.
struct UsedReference {
  std::string text;
  /// Pull policies as they take effect: Kubernetes' default is filled in.
  std::vector<std::string> pull_policies;
  bool default_policy = false;      ///< some container leaves the pull policy to the default
  std::vector<std::string> places;  ///< "head of RayCluster c (cluster.yaml line 12)"
  std::size_t pods = 0;
};

/// Of the RayClusters' templates and of `pods` (nullptr: not seen), each text once, in order.
std::vector<UsedReference> CollectReferences(const Observations& observations, const RayPods* pods);

/// kubelet's default when imagePullPolicy is not written: Always for :latest or no tag, else
/// IfNotPresent.
std::string EffectivePullPolicy(const ContainerSpec& container);

/// A tag that ends in three numbers ("train-ml-cuda-v1.1.0"): publishers mean it to stay, which a
/// registry does not enforce.
bool IsFullVersionTag(const std::string& tag);

}  // namespace dlc
