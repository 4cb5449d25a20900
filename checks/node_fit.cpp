#include "checks/node_fit.h"

#include <algorithm>

#include "checks/pod_resources.h"

namespace dlc {
namespace {

bool Tolerates(const Toleration& toleration, const Taint& taint) {
  const bool exists = toleration.op == "Exists";
  const bool key = toleration.key == taint.key || (toleration.key.empty() && exists);
  const bool effect = toleration.effect.empty() || toleration.effect == taint.effect;
  return key && effect && (exists || toleration.value == taint.value);
}

std::string TaintText(const Taint& taint) {
  return taint.key + (taint.value.empty() ? "" : "=" + taint.value) + ":" + taint.effect;
}

std::string SelectorText(const PodSpec& spec) {
  std::string text;
  for (const auto& [key, value] : spec.node_selector) {
    text.append(text.empty() ? "" : ",").append(key).append("=").append(value);
  }
  return text;
}

/// Which offers the resource as a rule. It is not looked at: another may do so too.
std::string DaemonSetOf(const std::string& resource) {
  if (resource.starts_with("nvidia.com/")) {
    return "NVIDIA's DaemonSet (nvidia-device-plugin-daemonset)";
  }
  return resource.starts_with("vpc.amazonaws.com/")
             ? "the DaemonSet aws-efa-k8s-device-plugin of kube-system"
             : "the plugin's DaemonSet";
}

void ExplainAllocatable(Finding& finding, const std::string& resource, const AssertedValue& offer) {
  if (finding.verdict != Verdict::kFail) {
    return;
  }
  if (std::holds_alternative<std::monostate>(offer)) {
    finding.hint = "no device plugin has registered " + resource + " on this node: check " +
                   DaemonSetOf(resource) +
                   ", its node affinity and the taints that it tolerates; with a DRA driver, its "
                   "ResourceSlices of the node";
  } else if (offer == AssertedValue(std::int64_t{0})) {
    finding.hint = "the device plugin registered and offers no " + resource +
                   ": check the driver on the node and the plugin's log";
  }
}

struct Placement {
  std::map<std::string_view, std::int64_t> reserved;  // per node name
  std::vector<const RayUnit*> open_groups;            // not all of its pods are scheduled
};

/// Counts pods of the view that sit on a node; a group with fewer of those than it asks for stays
/// open.
void Place(const RayClusterView& view, const std::string& resource, Placement& placement) {
  std::map<const RayGroup*, std::int64_t> scheduled;
  for (const RayUnit* unit : view.WorkerPods()) {
    if (!unit->pod->node.empty()) {
      ++scheduled[unit->group];
      if (const auto count = Reserved(*unit->spec, resource); count > 0) {
        placement.reserved[unit->pod->node] += count;
      }
    }
  }
  if (view.object == nullptr || view.object->suspended) {
    return;
  }
  for (const RayUnit& unit : view.groups) {
    if (!unit.head && Reserved(*unit.spec, resource) > 0 &&
        scheduled[unit.group] < PodsOfGroup(*unit.group)) {
      placement.open_groups.push_back(&unit);
    }
  }
}

void JudgeOpenGroup(Judge& judge, std::string_view rule, const std::string& resource,
                    const RayUnit& unit, const std::vector<Node>& nodes) {
  const std::int64_t each = Reserved(*unit.spec, resource);
  const Fit fit = FitNodes(*unit.spec, nodes);
  std::int64_t room = 0;
  for (const Node* node : fit.nodes) {
    room += WholeQuantity(node->allocatable, resource).value_or(0) / each;
  }
  Finding& finding =
      judge.Decide(rule, unit.subject,
                   {{"pods with " + resource + "=" + std::to_string(each) + " that the nodes hold",
                     Op::kGe, PodsOfGroup(*unit.group), room, "", "observation:cluster.nodes"}});
  finding.notes.push_back("allocatable of " + std::to_string(fit.nodes.size()) +
                          " nodes that nodeSelector and tolerations admit; what other pods hold is "
                          "not subtracted");
}

void JudgeGroupAgainstNodes(Judge& judge, std::string_view rule, const RayUnit& unit,
                            const std::vector<Node>& nodes) {
  const Fit fit = FitNodes(*unit.spec, nodes);
  Finding& finding = judge.Decide(
      rule, unit.subject,
      {{"nodes that fit", Op::kGe, std::int64_t{1}, static_cast<std::int64_t>(fit.nodes.size()), "",
        "observation:cluster.nodes"}});
  if (fit.nodes.empty()) {
    finding.reason.message = WhyNoneFits(*unit.spec, fit);
  }
}

}  // namespace

bool Selects(const PodSpec& spec, const Node& node) {
  return std::all_of(spec.node_selector.begin(), spec.node_selector.end(), [&](const auto& want) {
    const auto it = node.labels.find(want.first);
    return it != node.labels.end() && it->second == want.second;
  });
}

std::optional<std::string> UntoleratedTaint(const PodSpec& spec, const Node& node) {
  for (const Taint& taint : node.taints) {
    const bool blocks = taint.effect == "NoSchedule" || taint.effect == "NoExecute";
    if (blocks && std::none_of(spec.tolerations.begin(), spec.tolerations.end(),
                               [&](const Toleration& t) { return Tolerates(t, taint); })) {
      return TaintText(taint);
    }
  }
  return std::nullopt;
}

Fit FitNodes(const PodSpec& spec, const std::vector<Node>& nodes) {
  Fit fit;
  for (const Node& node : nodes) {
    if (!Selects(spec, node)) {
      ++fit.not_selected;
    } else if (const auto taint = UntoleratedTaint(spec, node)) {
      ++fit.tainted;
      fit.example_taint = *taint;
    } else if (!node.ready || node.unschedulable) {
      ++fit.not_ready;
    } else {
      fit.nodes.push_back(&node);
    }
  }
  return fit;
}

std::string WhyNoneFits(const PodSpec& spec, const Fit& fit) {
  std::string text =
      "none of " + std::to_string(fit.not_selected + fit.tainted + fit.not_ready) + " nodes";
  std::string separator = ": ";
  const auto add = [&](int count, const std::string& what) {
    if (count > 0) {
      text += separator + std::to_string(count) + " " + what;
      separator = ", ";
    }
  };
  add(fit.not_selected, "without label " + SelectorText(spec));
  add(fit.tainted, "with a taint that is not tolerated (" + fit.example_taint + ")");
  add(fit.not_ready, "not ready or cordoned");
  return text;
}

NodesByName IndexNodes(const std::vector<Node>& nodes) {
  NodesByName index;
  for (const Node& node : nodes) {
    index.emplace(node.name, &node);
  }
  return index;
}

void JudgeMisplaced(Judge& judge, std::string_view rule, const Subject& subject,
                    const std::string& resource, const ResourceAsk& ask) {
  Finding& finding = judge.Decide(rule, subject,
                                  {{"limits[" + resource + "] of containers[0]", Op::kGe,
                                    std::int64_t{1}, ask.limit, "", "constant"}});
  if (ask.elsewhere.empty()) {
    finding.notes.push_back("there is a request of " + AssertedValueText(ask.request) +
                            " without a limit");
  }
  for (const std::string& holder : ask.elsewhere) {
    finding.notes.push_back("the limit is on " + holder);
  }
}

void JudgeAllocatable(Judge& judge, std::string_view rule, const std::string& resource,
                      const std::vector<RayClusterView>& views,
                      const Observed<std::vector<Node>>& nodes) {
  Placement placement;
  for (const RayClusterView& view : views) {
    Place(view, resource, placement);
  }
  if (placement.reserved.empty() && placement.open_groups.empty()) {
    return;
  }
  if (!nodes.seen()) {
    judge.Unseen(rule, views.front().ClusterSubject(), "the nodes", nodes);
    return;
  }
  const NodesByName index = IndexNodes(nodes.value());
  for (const auto& [name, reserved] : placement.reserved) {
    const auto it = index.find(name);
    const Subject subject{"node", std::string(name)};
    if (it == index.end()) {
      judge.Unknown(
          rule, subject,
          {"not-found", "a worker pod runs there, but it is not in the list of nodes", ""});
      continue;
    }
    const AssertedValue offer = QuantityValue(it->second->allocatable, resource);
    ExplainAllocatable(judge.Decide(rule, subject,
                                    {{"allocatable[" + resource + "]", Op::kGe, reserved, offer, "",
                                      "observation:cluster.pods"}}),
                       resource, offer);
  }
  for (const RayUnit* unit : placement.open_groups) {
    JudgeOpenGroup(judge, rule, resource, *unit, nodes.value());
  }
}

void JudgeSchedulable(Judge& judge, std::string_view rule, const RayClusterView& view,
                      const Observed<std::vector<Node>>& nodes) {
  std::map<const RayGroup*, std::int64_t> scheduled;
  std::map<std::string_view, const RayUnit*> waiting;
  std::int64_t unclaimed = 0;
  for (const RayUnit* unit : view.WorkerPods()) {
    const bool on_node = !unit->pod->node.empty();
    if (unit->group != nullptr) {
      scheduled[unit->group] += on_node ? 1 : 0;
    } else if (on_node) {
      ++unclaimed;
    } else {
      waiting.emplace(unit->pod->ray_group, unit);
    }
  }
  const auto hold_against_nodes = [&](const RayUnit& unit) {
    if (nodes.seen()) {
      JudgeGroupAgainstNodes(judge, rule, unit, nodes.value());
    } else {
      judge.Unseen(rule, unit.subject, "the nodes", nodes);
    }
  };
  const auto on_nodes = [&](const Subject& subject, std::int64_t wanted, std::int64_t count) {
    judge.Decide(rule, subject,
                 {{"pods on a node", Op::kGe, wanted, count, "", "observation:cluster.pods"}});
  };
  for (const RayUnit& unit : view.groups) {
    if (unit.head) {
      continue;
    }
    const std::int64_t wanted = std::max<std::int64_t>(1, PodsOfGroup(*unit.group));
    if (scheduled[unit.group] >= wanted) {
      on_nodes(unit.subject, wanted, scheduled[unit.group]);
    } else {
      hold_against_nodes(unit);
    }
  }
  if (unclaimed > 0) {
    on_nodes(view.ClusterSubject(), 1, unclaimed);
  }
  for (const auto& [group, unit] : waiting) {
    hold_against_nodes(*unit);
  }
}

}  // namespace dlc
