#include "checks/ray_cluster_view.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "checks/ray_pods.h"

namespace dlc {
namespace {

using ClusterKey = std::pair<std::string, std::string>;  // namespace, name

bool IsRayNode(const Pod& pod) {
  return !pod.ray_cluster.empty() && (pod.ray_node_type == "head" || pod.ray_node_type == "worker");
}

class Builder {
 public:
  explicit Builder(const ClusterFacts& facts) {
    if (const auto* clusters = facts.ray_clusters.get()) {
      for (const RayCluster& cluster : *clusters) {
        namespaces_.insert(cluster.name_space);
      }
    }
    if (const auto* pods = facts.pods.get()) {
      for (const Pod& pod : *pods) {
        if (IsRayNode(pod)) {
          namespaces_.insert(pod.name_space);
        }
      }
    }
  }

  void AddObject(const RayCluster& cluster) {
    RayClusterView& view = At({cluster.name_space, cluster.name});
    view.object = &cluster;
    view.groups.push_back({{"group", view.name + "/" + cluster.head.name},
                           true,
                           &cluster.head.pod,
                           &cluster.head,
                           nullptr});
    for (const RayGroup& group : cluster.workers) {
      if (group.suspended) {
        view.suspended_groups.push_back(group.name);
      } else {
        view.groups.push_back(
            {{"group", view.name + "/" + group.name}, false, &group.pod, &group, nullptr});
      }
    }
  }

  void AddPod(const Pod& pod) {
    if (!IsRayNode(pod) || pod.deleting || PodEnded(pod)) {
      return;
    }
    RayClusterView& view = At({pod.name_space, pod.ray_cluster});
    const bool head = pod.ray_node_type == "head";
    const auto group =
        std::find_if(view.groups.begin(), view.groups.end(), [&](const RayUnit& unit) {
          return unit.head == head && (head || unit.group->name == pod.ray_group);
        });
    view.pods.push_back({{"pod", Qualified(pod.name_space, pod.name)},
                         head,
                         &pod.spec,
                         group == view.groups.end() ? nullptr : group->group,
                         &pod});
  }

  std::vector<RayClusterView> Take() { return std::move(views_); }

 private:
  std::string Qualified(const std::string& name_space, const std::string& name) const {
    return namespaces_.size() > 1 ? name_space + "/" + name : name;
  }
  RayClusterView& At(const ClusterKey& key) {
    const auto [it, added] = index_.emplace(key, views_.size());
    if (added) {
      views_.emplace_back().name = Qualified(key.first, key.second);
    }
    return views_[it->second];
  }

  std::set<std::string> namespaces_;
  std::map<ClusterKey, std::size_t> index_;
  std::vector<RayClusterView> views_;
};

}  // namespace

std::vector<RayClusterView> ViewRayClusters(const ClusterFacts& facts) {
  Builder builder(facts);
  if (const auto* clusters = facts.ray_clusters.get()) {
    for (const RayCluster& cluster : *clusters) {
      builder.AddObject(cluster);
    }
  }
  if (const auto* pods = facts.pods.get()) {
    for (const Pod& pod : *pods) {
      builder.AddPod(pod);
    }
  }
  return builder.Take();
}

std::int64_t RayClusterView::WorkerPodsAsked() const {
  if (object == nullptr || object->suspended) {
    return 0;
  }
  std::int64_t pods_asked = 0;
  for (const RayUnit& unit : groups) {
    pods_asked += unit.head ? 0 : PodsOfGroup(*unit.group);
  }
  return pods_asked;
}

std::vector<const RayUnit*> RayClusterView::WorkerPods() const {
  std::vector<const RayUnit*> workers;
  for (const RayUnit& unit : pods) {
    if (!unit.head) {
      workers.push_back(&unit);
    }
  }
  return workers;
}

const RayUnit* UnitOfHost(const std::vector<RayClusterView>& views, std::string_view host) {
  for (const RayClusterView& view : views) {
    for (const RayUnit& unit : view.pods) {
      if (unit.pod != nullptr && unit.pod->name == host) {
        return &unit;
      }
    }
  }
  return nullptr;
}

void NothingOfRay(const ClusterFacts& facts, std::initializer_list<std::string_view> rules,
                  Judge& judge) {
  const Subject subject{"cluster", ""};
  for (const std::string_view rule : rules) {
    if (!facts.ray_clusters.seen()) {
      judge.Unseen(rule, subject, "the RayCluster", facts.ray_clusters);
    } else if (!facts.pods.seen()) {
      judge.Unseen(rule, subject, "the pods", facts.pods);
    } else {
      judge.Unknown(rule, subject, {"not-found", "no RayCluster and no Ray pod was found", ""});
    }
  }
}

bool RayContainerRuns(const Pod& pod) {
  if (pod.phase != "Running" || RayContainer(pod) == nullptr) {
    return false;
  }
  const ContainerStatus* status = RayStatus(pod);
  return status == nullptr || status->state == "running";
}

}  // namespace dlc
