#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checks/check.h"
#include "checks/pod_resources.h"
#include "checks/ray_cluster_view.h"
#include "probes/observations/cluster.h"

namespace dlc {

/// Every key of the nodeSelector is a label of the node with that value.
bool Selects(const PodSpec& spec, const Node& node);
/// The first NoSchedule or NoExecute taint without a toleration, as kubectl writes it
/// ("nvidia.com/gpu=true:NoSchedule"); nullopt when there is none.
std::optional<std::string> UntoleratedTaint(const PodSpec& spec, const Node& node);

/// Nodes where the scheduler may place the pod, and why others drop out. Affinity and free
/// resources are not looked at.
struct Fit {
  std::vector<const Node*> nodes;
  int not_selected = 0;
  int tainted = 0;
  int not_ready = 0;  ///< not Ready, or cordoned
  std::string example_taint;
};
Fit FitNodes(const PodSpec& spec, const std::vector<Node>& nodes);
/// "none of 3 nodes: 2 not selected by nodeSelector role=gpu, 1 with taint x=y:NoSchedule".
std::string WhyNoneFits(const PodSpec& spec, const Fit& fit);

using NodesByName = std::map<std::string_view, const Node*>;
NodesByName IndexNodes(const std::vector<Node>& nodes);

/// A resource that the pod asks for otherwise than by a limit of the Ray container. Precondition:
/// ask.Misplaced().
void JudgeMisplaced(Judge& judge, std::string_view rule, const Subject& subject,
                    const std::string& resource, const ResourceAsk& ask);

/// Whether nodes offer what the clusters' worker pods reserve of `resource`. Scheduled pods are
/// summed per node; a group whose pods are not all scheduled is held against the nodes that it fits
/// on. Unknown when nodes were not seen. Emits nothing where nothing is reserved.
void JudgeAllocatable(Judge& judge, std::string_view rule, const std::string& resource,
                      const std::vector<RayClusterView>& views,
                      const Observed<std::vector<Node>>& nodes);

/// Whether the view's worker groups have nodes to run on. Pods that sit on a node were schedulable;
/// a group that lacks some is held against the nodes. Without the RayCluster object, the first
/// waiting pod speaks for its group.
void JudgeSchedulable(Judge& judge, std::string_view rule, const RayClusterView& view,
                      const Observed<std::vector<Node>>& nodes);

}  // namespace dlc
