#include "checks/ray_pods.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "checks/wording.h"

namespace dlc {
namespace {

/// Registry host and repository of every image that is under test, so that an unlabelled pod can be
/// told from a stranger.
std::set<std::string> ImageNames(const Observations& o) {
  std::set<std::string> names;
  const auto add = [&](const std::string& text) {
    if (const auto reference = ImageReference::Parse(text)) {
      names.insert(reference->Name());
    }
  };
  if (const ServedImage* served = o.served_image.get()) {
    add(served->reference);
  }
  if (const auto* clusters = o.cluster.ray_clusters.get()) {
    for (const RayCluster& cluster : *clusters) {
      const auto add_group = [&](const RayGroup& group) {
        if (!group.pod.containers.empty()) {
          add(group.pod.containers.front().image);
        }
      };
      add_group(cluster.head);
      std::for_each(cluster.workers.begin(), cluster.workers.end(), add_group);
    }
  }
  return names;
}

bool RunsOneOf(const Pod& pod, const std::set<std::string>& names) {
  const ContainerSpec* container = RayContainer(pod);
  const auto reference = ImageReference::Parse(container == nullptr ? "" : container->image);
  return reference && names.count(reference->Name()) > 0;
}

class Selection {
 public:
  explicit Selection(const Observations& o) : names_(ImageNames(o)) {
    if (const auto* clusters = o.cluster.ray_clusters.get()) {
      for (const RayCluster& cluster : *clusters) {
        index_[{cluster.name_space, cluster.name}] = result_.groups.size();
        result_.groups.push_back({cluster.name, &cluster, {}});
      }
      closed_ = !clusters->empty();
    }
  }

  void Add(const Pod& pod) {
    const char* reason = ReasonToLeaveOut(pod);
    RayPodGroup* group = reason == nullptr ? GroupOf(pod) : nullptr;
    if (group != nullptr) {
      group->pods.push_back(&pod);
      ++result_.count;
      return;
    }
    left_out_[reason != nullptr ? reason : "of a RayCluster that is not under test"].push_back(
        pod.name);
  }

  RayPods Take() {
    for (const auto& [reason, pods] : left_out_) {
      result_.left_out.push_back("left out: " + Count(pods.size(), "pod") + " " + reason + " (" +
                                 NameSome(pods, 3) + ")");
    }
    return std::move(result_);
  }

 private:
  const char* ReasonToLeaveOut(const Pod& pod) const {
    if (pod.ray_node_type == "redis-cleanup") {
      return "of KubeRay's redis-cleanup";
    }
    if (PodEnded(pod)) {
      return "that ended (phase Succeeded or Failed)";
    }
    if (pod.deleting) {
      return "being deleted";
    }
    if (pod.ray_cluster.empty() && !RunsOneOf(pod, names_)) {
      return "without label ray.io/cluster whose image is not under test";
    }
    return nullptr;
  }

  /// nullptr: the pod's RayCluster is none of those under test.
  RayPodGroup* GroupOf(const Pod& pod) {
    // A manifest need not name its namespace.
    for (const std::string& name_space : {pod.name_space, std::string()}) {
      if (const auto it = index_.find({name_space, pod.ray_cluster}); it != index_.end()) {
        return &result_.groups[it->second];
      }
    }
    if (closed_ && !pod.ray_cluster.empty()) {
      return nullptr;
    }
    index_[{pod.name_space, pod.ray_cluster}] = result_.groups.size();
    result_.groups.push_back(
        {pod.ray_cluster.empty() ? kNoClusterLabel : pod.ray_cluster, nullptr, {}});
    return &result_.groups.back();
  }

  std::set<std::string> names_;
  bool closed_ = false;
  std::map<std::pair<std::string, std::string>, std::size_t> index_;
  std::map<std::string, std::vector<std::string>> left_out_;
  RayPods result_;
};

}  // namespace

RayPods SelectRayPods(const Observations& observations) {
  Selection selection(observations);
  for (const Pod& pod : observations.cluster.pods.value()) {
    selection.Add(pod);
  }
  return selection.Take();
}

PodSubjects::PodSubjects(const RayPods& pods) {
  const std::string* first = nullptr;
  for (const RayPodGroup& group : pods.groups) {
    for (const Pod* pod : group.pods) {
      first = first == nullptr ? &pod->name_space : first;
      several_namespaces_ = several_namespaces_ || *first != pod->name_space;
    }
  }
}

std::string PodSubjects::NameOf(const Pod& pod) const {
  return several_namespaces_ ? pod.name_space + "/" + pod.name : pod.name;
}

const ContainerSpec* RayContainer(const Pod& pod) {
  return pod.spec.containers.empty() ? nullptr : &pod.spec.containers.front();
}

const ContainerStatus* FindStatus(const std::vector<ContainerStatus>& statuses,
                                  const std::string& name) {
  const auto it = std::find_if(statuses.begin(), statuses.end(),
                               [&](const ContainerStatus& s) { return s.name == name; });
  return it == statuses.end() ? nullptr : &*it;
}

const ContainerStatus* RayStatus(const Pod& pod) {
  const ContainerSpec* container = RayContainer(pod);
  return container == nullptr ? nullptr : FindStatus(pod.statuses, container->name);
}

bool PodEnded(const Pod& pod) {
  return pod.phase == "Succeeded" || pod.phase == "Failed";
}

std::int64_t PodsOfGroup(const RayGroup& group) {
  const int replicas = std::min(std::max(group.replicas, group.min_replicas), group.max_replicas);
  return std::int64_t{replicas} * group.hosts_per_replica;
}

std::int64_t AskedPods(const RayCluster& cluster) {
  if (cluster.suspended) {
    return 0;
  }
  std::int64_t pods = 1;
  for (const RayGroup& group : cluster.workers) {
    const std::int64_t least = std::int64_t{group.min_replicas} * group.hosts_per_replica;
    pods += group.suspended ? 0 : cluster.autoscaling ? least : PodsOfGroup(group);
  }
  return pods;
}

}  // namespace dlc
