#include "checks/image_placement.h"

#include <set>
#include <string>
#include <vector>

#include "checks/image_references.h"
#include "checks/node_fit.h"
#include "checks/wording.h"

namespace dlc {
namespace {

using List = std::vector<std::string>;

void JudgeReference(const UsedReference& used, Judge& judge) {
  const Subject subject{"image", used.text};
  const auto reference = ImageReference::Parse(used.text);
  if (!reference) {
    for (const Rule* rule : {&kReferencePinned, &kPullPolicyRule}) {
      judge.Unknown(rule->id, subject, {"invalid-input", reference.error().message, ""});
    }
    return;
  }
  const bool pinned = !reference->digest.empty();
  Finding& finding =
      judge.Decide(kReferencePinned.id, subject,
                   {{"reference has @sha256", Op::kEq, true, pinned, "", "observation:cluster"}});
  if (finding.verdict == Verdict::kFail) {
    finding.expected = reference->Name() + "@sha256:...";
    finding.actual = used.text;
    finding.reason.message = reference->tag.empty()
                                 ? "neither tag nor digest: the registry's latest is pulled"
                                 : "tag " + reference->tag + " can be moved to another image";
  }
  if (!used.places.empty()) {
    finding.notes.push_back("written in " + NameSome(used.places));
  }
  if (used.pods > 0) {
    finding.notes.push_back("asked for by " + Count(used.pods, "pod"));
  }
  if (!pinned && IsFullVersionTag(reference->tag)) {
    finding.notes.push_back("tag " + reference->tag +
                            " names one release and is not meant to move, but a tag can");
  }
  if (pinned) {
    judge.NotApplicable(kPullPolicyRule.id, subject,
                        "pinned by digest: an older copy has another name");
    return;
  }
  Finding& pull = judge.Decide(kPullPolicyRule.id, subject,
                               {{"imagePullPolicy", Op::kSubset, List{"Always"}, used.pull_policies,
                                 "", "observation:cluster"}});
  if (used.default_policy) {
    pull.notes.emplace_back("imagePullPolicy is not written: Kubernetes' default applies");
  }
}

void JudgeNode(const Policy& policy, const DigestDemand& demand, const std::string& name,
               const Node* node, Judge& judge) {
  const Subject subject{"node", name};
  if (node == nullptr || node->architecture.empty()) {
    judge.Unknown(kNodeArchitecture.id, subject,
                  {"not-found", "a Ray pod runs there, and its architecture was not seen", ""});
    return;
  }
  const std::string own = "linux/" + node->architecture;
  judge.Decide(kNodeArchitecture.id, subject,
               {{"platform of the node", Op::kIn, demand.Served()->Platforms(), own, "",
                 "observation:servedImage"},
                {"platform of the node", Op::kEq, PlatformWithoutVariant(policy.image.platform),
                 own, "", "policy:image.platform"}});
}

}  // namespace

void JudgeReferences(const Observations& o, const RayPods* pods, Judge& judge) {
  const auto references = CollectReferences(o, pods);
  for (const UsedReference& used : references) {
    JudgeReference(used, judge);
  }
  if (!references.empty()) {
    return;
  }
  const Subject subject{"cluster", "references of Ray containers"};
  for (const Rule* rule : {&kReferencePinned, &kPullPolicyRule}) {
    if (!o.cluster.ray_clusters.seen()) {
      judge.Unseen(rule->id, subject, "the RayClusters", o.cluster.ray_clusters);
    } else {
      judge.Unknown(rule->id, subject,
                    {"not-found", "no RayCluster and no Ray pod names an image", ""});
    }
  }
}

void JudgeArchitecture(const Observations& o, const Policy& policy, const RayPods* pods,
                       const DigestDemand& demand, Judge& judge) {
  const Subject all{"cluster", "nodes of Ray pods"};
  if (!o.cluster.nodes.seen()) {
    judge.Unseen(kNodeArchitecture.id, all, "the nodes", o.cluster.nodes);
    return;
  }
  if (pods == nullptr) {
    judge.Unseen(kNodeArchitecture.id, all, "the pods", o.cluster.pods);
    return;
  }
  if (!o.served_image.seen()) {
    judge.Unseen(kNodeArchitecture.id, all, kServedName, o.served_image);
    return;
  }
  if (demand.Served()->Platforms().empty()) {
    judge.Unseen(kNodeArchitecture.id, all, "the image's config", o.served_image.value().config);
    return;
  }
  const NodesByName nodes = IndexNodes(o.cluster.nodes.value());
  std::set<std::string> judged;
  for (const RayPodGroup& group : pods->groups) {
    for (const Pod* pod : group.pods) {
      if (!pod->node.empty() && judged.insert(pod->node).second) {
        const auto it = nodes.find(pod->node);
        JudgeNode(policy, demand, pod->node, it == nodes.end() ? nullptr : it->second, judge);
      }
    }
  }
  if (judged.empty()) {
    judge.Unknown(kNodeArchitecture.id, all, {"not-found", "no Ray pod has been given a node", ""});
  }
}

}  // namespace dlc
