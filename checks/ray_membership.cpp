#include "checks/ray_membership.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "checks/wording.h"

namespace dlc {
namespace {

struct Membership {
  std::int64_t ready = 0;
  std::vector<std::string> absent;  // ready pods whose IP no alive node has
  bool by_address = true;
};

Membership MatchPods(const RayPods& pods, const std::set<std::string>& alive_ips) {
  Membership m;
  for (const RayPodGroup& group : pods.groups) {
    for (const Pod* pod : group.pods) {
      const ContainerStatus* status = RayStatus(*pod);
      if (status == nullptr || !status->ready) {
        continue;
      }
      ++m.ready;
      m.by_address = m.by_address && !pod->pod_ip.empty() && !pod->spec.host_network;
      if (alive_ips.count(pod->pod_ip) == 0) {
        m.absent.push_back(pod->name);
      }
    }
  }
  return m;
}

}  // namespace

void JudgeRayNodesAlive(const Observations& o, const RayPods& pods, bool one_cluster,
                        Judge& judge) {
  const Subject subject{"cluster", pods.groups.size() == 1 ? pods.groups.front().name : "Ray pods"};
  if (!o.ray.nodes.seen()) {
    judge.Unseen(kRayNodesAlive.id, subject, "Ray's node list", o.ray.nodes);
    return;
  }
  if (!o.cluster.pods.seen()) {
    judge.Unseen(kRayNodesAlive.id, subject, "the pods", o.cluster.pods);
    return;
  }
  if (!one_cluster && pods.count > 0) {
    judge.Unknown(
        kRayNodesAlive.id, subject,
        {"unavailable",
         "Ray's node list is of one cluster, and pods of several RayClusters were seen", ""});
    return;
  }
  std::int64_t alive = 0;
  std::set<std::string> ips;
  for (const RayNode& node : o.ray.nodes.value()) {
    if (node.alive) {
      ++alive;
      ips.insert(node.node_ip);
    }
  }
  const Membership m = MatchPods(pods, ips);
  if (m.ready == 0) {
    judge.Unknown(kRayNodesAlive.id, subject, {"not-found", "no ready Ray pod was found", ""})
        .notes = pods.left_out;
    return;
  }
  // By address where both sides have one; else only the numbers can be compared.
  const std::int64_t members =
      m.by_address ? m.ready - static_cast<std::int64_t>(m.absent.size()) : alive;
  Finding& finding = judge.Decide(kRayNodesAlive.id, subject,
                                  {{"alive Ray nodes of ready pods", Op::kGe, m.ready, members, "",
                                    "observation:cluster.pods"}});
  if (m.by_address && !m.absent.empty()) {
    finding.notes.push_back("no alive Ray node has the address of " + NameSome(m.absent));
  }
}

}  // namespace dlc
