#include "checks/image_references.h"

#include <algorithm>
#include <map>

namespace dlc {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

std::string Place(const std::string& what, const RayCluster& cluster, const Source& source) {
  std::string place = what + " of RayCluster " + cluster.name;
  if (!source.file.empty()) {
    place += " (" + source.file +
             (source.line > 0 ? " line " + std::to_string(source.line) : std::string()) + ")";
  }
  return place;
}

class References {
 public:
  UsedReference& Add(const ContainerSpec& container) {
    const auto [it, is_new] = index_.emplace(container.image, list_.size());
    if (is_new) {
      list_.emplace_back().text = container.image;
    }
    UsedReference& reference = list_[it->second];
    const std::string policy = EffectivePullPolicy(container);
    auto& policies = reference.pull_policies;
    if (std::find(policies.begin(), policies.end(), policy) == policies.end()) {
      policies.push_back(policy);
    }
    reference.default_policy = reference.default_policy || container.image_pull_policy.empty();
    return reference;
  }

  void AddGroup(const std::string& what, const RayCluster& cluster, const RayGroup& group) {
    if (!group.pod.containers.empty()) {
      Add(group.pod.containers.front()).places.push_back(Place(what, cluster, group.source));
    }
  }

  std::vector<UsedReference> Take() { return std::move(list_); }

 private:
  std::map<std::string, std::size_t> index_;
  std::vector<UsedReference> list_;
};

}  // namespace

std::vector<UsedReference> CollectReferences(const Observations& observations,
                                             const RayPods* pods) {
  References references;
  if (const auto* clusters = observations.cluster.ray_clusters.get()) {
    for (const RayCluster& cluster : *clusters) {
      references.AddGroup("head", cluster, cluster.head);
      for (const RayGroup& group : cluster.workers) {
        references.AddGroup("worker group " + group.name, cluster, group);
      }
    }
  }
  if (pods != nullptr) {
    for (const RayPodGroup& group : pods->groups) {
      for (const Pod* pod : group.pods) {
        if (const ContainerSpec* container = RayContainer(*pod)) {
          ++references.Add(*container).pods;
        }
      }
    }
  }
  return references.Take();
}

std::string EffectivePullPolicy(const ContainerSpec& container) {
  if (!container.image_pull_policy.empty()) {
    return container.image_pull_policy;
  }
  const auto reference = ImageReference::Parse(container.image);
  const bool latest = reference && reference->digest.empty() &&
                      (reference->tag.empty() || reference->tag == "latest");
  return latest ? "Always" : "IfNotPresent";
}

bool IsFullVersionTag(const std::string& tag) {
  // Three runs of digits joined by dots at the end, with nothing that continues the first.
  std::size_t end = tag.size();
  for (int part = 0; part < 3; ++part) {
    std::size_t begin = end;
    while (begin > 0 && IsDigit(tag[begin - 1])) {
      --begin;
    }
    if (begin == end) {
      return false;
    }
    if (part == 2) {
      return begin == 0 || tag[begin - 1] == 'v' || tag[begin - 1] == '-';
    }
    if (begin == 0 || tag[begin - 1] != '.') {
      return false;
    }
    end = begin - 1;
  }
  return false;
}

}  // namespace dlc
