#include "checks/ray_advertised.h"

#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "checks/claimed_devices.h"
#include "checks/pod_resources.h"

namespace dlc {
namespace {

struct Context {
  Judge& judge;
  std::string_view rule;
  const std::string& resource;
  const std::vector<RayClusterView>& views;
};

AssertedValue Advertised(const RayNode& node) {
  const auto it = node.resources.find("GPU");
  const double count = it == node.resources.end() ? 0 : it->second;
  if (count == std::floor(count) && std::abs(count) < 1e9) {
    return static_cast<std::int64_t>(count);
  }
  return count;
}

void DecideAdvertised(Context& context, Subject subject, const RayNode& node,
                      const AssertedValue& allotted) {
  context.judge
      .Decide(
          context.rule, std::move(subject),
          {{"GPU of the Ray node", Op::kEq, allotted, Advertised(node), "", "observation:cluster"}})
      .notes.push_back("Ray node " + node.node_ip + (node.is_head ? " (head)" : "") +
                       ": its count is only declared, Ray repeats what it was started with");
}

/// Ray nodes by IP: pods on the host network share one, so several are possible.
using RayNodesByIp = std::multimap<std::string_view, const RayNode*>;

void JudgePod(Context& context, const RayUnit& unit, const std::vector<const RayNode*>& matches) {
  const std::string& address = unit.pod->pod_ip;
  if (matches.size() == 1 && IsLimitUnknown(unit, context.resource)) {
    context.judge.Unknown(context.rule, unit.subject, {"not-looked-at", unit.claims_unread, ""});
  } else if (matches.size() == 1) {
    DecideAdvertised(context, unit.subject, *matches[0],
                     AllottedGpus(*unit.spec, context.resource));
  } else if (matches.size() > 1) {
    context.judge.Unknown(context.rule, unit.subject,
                          {"unsupported", "several Ray nodes share the address " + address, ""});
  } else if (context.views.size() > 1) {
    context.judge.Unknown(context.rule, unit.subject,
                          {"not-found", "the node list may be of another Ray cluster", ""});
  } else {
    context.judge.Decide(context.rule, unit.subject,
                         {{"live Ray nodes with address " + address, Op::kGe, std::int64_t{1},
                           std::int64_t{0}, "", "constant"}});
  }
}

void ByPod(Context& context, const RayNodesByIp& nodes) {
  std::set<const RayNode*> joined;
  for (const RayClusterView& view : context.views) {
    for (const RayUnit& unit : view.pods) {
      if (!RayContainerRuns(*unit.pod)) {
        continue;  // worker-pods-running speaks of it
      }
      std::vector<const RayNode*> matches;
      const auto [begin, end] = nodes.equal_range(unit.pod->pod_ip);
      for (auto it = begin; it != end; ++it) {
        joined.insert(it->second);
        if (it->second->is_head == unit.head) {
          matches.push_back(it->second);
        }
      }
      JudgePod(context, unit, matches);
    }
  }
  for (const auto& [ip, node] : nodes) {
    if (!joined.contains(node)) {
      context.judge.Unknown(context.rule, {"node", "ray node " + node->node_ip},
                            {"not-found", "no running Ray pod has this address", ""});
    }
  }
}

void ByRole(Context& context, const RayClusterView& view, const RayNodesByIp& nodes) {
  std::int64_t workers = 0;
  for (const auto& [ip, node] : nodes) {
    workers += node->is_head ? 0 : 1;
    const RayUnit* like = nullptr;
    bool alike = true;
    const RayUnit* unread = nullptr;
    for (const RayUnit& unit : view.groups) {
      if (unit.head == node->is_head) {
        unread = IsLimitUnknown(unit, context.resource) ? &unit : unread;
        alike = alike && (like == nullptr || AllottedGpus(*like->spec, context.resource) ==
                                                 AllottedGpus(*unit.spec, context.resource));
        like = &unit;
      }
    }
    const Subject subject{"node", "ray node " + node->node_ip};
    if (unread != nullptr) {
      context.judge.Unknown(context.rule, subject, {"not-looked-at", unread->claims_unread, ""});
    } else if (like == nullptr || !alike) {
      context.judge.Unknown(context.rule, subject,
                            {"not-looked-at",
                             "the pods were not seen, and worker groups differ in their GPU limit: "
                             "which group this node belongs to is not known",
                             ""});
    } else {
      DecideAdvertised(context, subject, *node, AllottedGpus(*like->spec, context.resource));
    }
  }
  context.judge.Decide(context.rule, view.ClusterSubject(),
                       {{"live Ray worker nodes", Op::kGe, view.WorkerPodsAsked(), workers, "",
                         "observation:cluster.rayClusters"}});
}

}  // namespace

void JudgeAdvertisedGpus(Judge& judge, std::string_view rule, const std::string& resource,
                         const std::vector<RayClusterView>& views,
                         const Observations& observations) {
  Context context{judge, rule, resource, views};
  const Subject subject = context.views.front().ClusterSubject();
  if (!observations.ray.nodes.seen()) {
    context.judge.Unseen(context.rule, subject, "Ray's list of nodes", observations.ray.nodes);
    return;
  }
  RayNodesByIp nodes;
  for (const RayNode& node : observations.ray.nodes.value()) {
    if (node.alive) {
      nodes.emplace(node.node_ip, &node);
    }
  }
  if (nodes.empty()) {
    context.judge.Unknown(context.rule, subject, {"not-found", "Ray lists no live node", ""});
  } else if (observations.cluster.pods.seen()) {
    ByPod(context, nodes);
  } else if (context.views.size() == 1) {
    ByRole(context, context.views.front(), nodes);
  } else {
    context.judge.Unknown(context.rule, subject,
                          {"not-looked-at",
                           "the pods were not seen, and there are several RayClusters that the "
                           "nodes may belong to",
                           ""});
  }
}

}  // namespace dlc
