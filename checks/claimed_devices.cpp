#include "checks/claimed_devices.h"

#include <algorithm>
#include <utility>

#include "checks/pod_resources.h"
#include "probes/observations/why_unseen.h"

namespace dlc {
namespace {

std::string DeviceKey(const std::string& driver, const std::string& pool,
                      const std::string& device) {
  return driver + '\n' + pool + '\n' + device;
}

bool UsesClaims(const ClusterFacts& facts) {
  const auto has = [](const PodSpec& spec) { return !spec.resource_claims.empty(); };
  bool uses = false;
  if (const auto* pods = facts.pods.get()) {
    uses = std::any_of(pods->begin(), pods->end(), [&](const Pod& pod) { return has(pod.spec); });
  }
  if (const auto* clusters = facts.ray_clusters.get()) {
    for (const RayCluster& cluster : *clusters) {
      uses = uses || has(cluster.head.pod) ||
             std::any_of(cluster.workers.begin(), cluster.workers.end(),
                         [&](const RayGroup& group) { return has(group.pod); });
    }
  }
  return uses;
}

/// The newest generation of a pool: its driver has withdrawn older slices.
std::map<std::string, std::int64_t> NewestGenerations(const std::vector<ResourceSlice>& slices) {
  std::map<std::string, std::int64_t> newest;
  for (const ResourceSlice& slice : slices) {
    std::int64_t& generation = newest[DeviceKey(slice.driver, slice.pool, "")];
    generation = std::max(generation, slice.generation);
  }
  return newest;
}

/// The resource that the device stands for; empty: none that is judged.
std::string ResourceOf(const std::string& driver, const std::string& kind, const std::string& gpu,
                       const std::string& efa) {
  if (driver == kDraGpuDriver) {
    return kind == "gpu" ? gpu : kind == "mig" ? "nvidia.com/mig-by-claim" : "";
  }
  // DRANET publishes every network device of a node, unless told to leave others out.
  return driver == kDraNetworkDriver && kind.find("EFA") != std::string::npos ? efa : "";
}

bool Answers(const ContainerClaim& use, const ClaimedDevice& device) {
  return use.request.empty() || device.request == use.request ||
         device.request.starts_with(use.request + "/");
}

const ResourceClaim* FindClaim(const std::vector<ResourceClaim>& claims,
                               const std::string& name_space, const std::string& name) {
  const auto it = std::find_if(claims.begin(), claims.end(), [&](const ResourceClaim& claim) {
    return claim.name_space == name_space && claim.name == name;
  });
  return it == claims.end() ? nullptr : &*it;
}

template <class T>
std::string WhyUnseen(const char* what, const Observed<T>& observed) {
  return std::string(what) + " not looked at: " + WhyUnseen(observed);
}

}  // namespace

/// What claims give to a Ray container.
struct ClaimedCluster::Given {
  std::map<std::string, int> devices;  ///< by resource
  std::string unread;                  ///< why that is not known
  std::string note;

  bool operator==(const Given& other) const {
    return devices == other.devices && unread == other.unread;
  }
};

ClaimedCluster::ClaimedCluster(const ClusterFacts& facts, const Policy& policy)
    : facts_(facts), gpu_(policy.gpu.resource), efa_(policy.fabric.resource) {
  if (!UsesClaims(facts)) {
    return;
  }
  own_ = facts;
  AddToNodes();
  if (own_->pods.seen()) {
    std::vector<Pod>& pods = own_->pods.value();
    for (std::size_t i = 0; i < pods.size(); ++i) {
      Apply(GivenTo(facts.pods.value()[i]), pods[i].spec);
    }
  }
  if (own_->ray_clusters.seen()) {
    std::vector<RayCluster>& clusters = own_->ray_clusters.value();
    for (std::size_t i = 0; i < clusters.size(); ++i) {
      const RayCluster& before = facts.ray_clusters.value()[i];
      Apply(GivenTo(before, before.head, true), clusters[i].head.pod);
      for (std::size_t group = 0; group < before.workers.size(); ++group) {
        Apply(GivenTo(before, before.workers[group], false), clusters[i].workers[group].pod);
      }
    }
  }
}

void ClaimedCluster::AddToNodes() {
  if (!facts_.dra || !facts_.dra->slices.seen()) {
    return;
  }
  const std::vector<ResourceSlice>& slices = facts_.dra->slices.value();
  const auto newest = NewestGenerations(slices);
  for (const ResourceSlice& slice : slices) {
    if (slice.generation < newest.at(DeviceKey(slice.driver, slice.pool, ""))) {
      continue;
    }
    for (const SliceDevice& device : slice.devices) {
      devices_[DeviceKey(slice.driver, slice.pool, device.name)] = &device;
      const std::string resource = ResourceOf(slice.driver, device.kind, gpu_, efa_);
      if (!slice.node.empty() && !resource.empty()) {
        ++nodes_[slice.node][resource];
      }
    }
  }
  if (!own_->nodes.seen()) {
    return;
  }
  for (Node& node : own_->nodes.value()) {
    for (const auto& [resource, count] : nodes_[node.name]) {
      // A device plugin beside the driver would offer the same devices twice.
      if (node.allocatable.emplace(resource, std::to_string(count)).second) {
        node_notes_[node.name] += (node_notes_[node.name].empty() ? "" : "; ") +
                                  std::to_string(count) + " " + resource +
                                  " are devices of ResourceSlices, which the node has by DRA";
      }
    }
  }
}

const SliceDevice* ClaimedCluster::Find(const ClaimedDevice& device) const {
  const auto it = devices_.find(DeviceKey(device.driver, device.pool, device.device));
  return it == devices_.end() ? nullptr : it->second;
}

/// Nothing where the pod's claims can be read.
std::string ClaimedCluster::WhyUnread(const Pod& pod) const {
  const auto uses = [](const ContainerSpec& container) { return !container.claims.empty(); };
  if (std::none_of(pod.spec.containers.begin(), pod.spec.containers.end(), uses)) {
    return "which container uses the pod's resource claims was not seen";
  }
  if (!facts_.dra) {
    return "the pod's resource claims were not looked at";
  }
  return facts_.dra->claims.seen() ? "" : WhyUnseen("ResourceClaims", facts_.dra->claims);
}

/// What `claim` gives by `use`; else why that is not known.
std::string ClaimedCluster::Add(const ContainerClaim& use, const ResourceClaim& claim,
                                Given& given) const {
  const std::string of_claim = " of ResourceClaim " + claim.name;
  for (const ClaimedDevice& device : claim.devices) {
    const bool gpu = device.driver == kDraGpuDriver;
    if (!Answers(use, device) || (!gpu && device.driver != kDraNetworkDriver)) {
      continue;
    }
    const SliceDevice* found = Find(device);
    if (found == nullptr) {
      return facts_.dra->slices.seen()
                 ? "device " + device.device + of_claim + " is in no ResourceSlice"
                 : WhyUnseen("ResourceSlices", facts_.dra->slices);
    }
    const std::string resource = ResourceOf(device.driver, found->kind, gpu_, efa_);
    if (resource.empty() && gpu) {
      return "device " + device.device + of_claim +
             " is neither a GPU nor a MIG slice to its driver, but '" + found->kind + "'";
    }
    if (!resource.empty()) {
      ++given.devices[resource];
    }
  }
  given.note += (given.note.empty() ? "" : ", ") + claim.name;
  return "";
}

ClaimedCluster::Given ClaimedCluster::GivenTo(const Pod& pod) const {
  Given given;
  if (pod.spec.resource_claims.empty()) {
    return given;
  }
  given.unread = WhyUnread(pod);
  if (!given.unread.empty()) {
    return given;
  }
  for (const ContainerClaim& use : pod.spec.containers[0].claims) {
    const auto name = pod.claim_objects.find(use.name);
    const ResourceClaim* claim =
        name == pod.claim_objects.end()
            ? nullptr
            : FindClaim(facts_.dra->claims.value(), pod.name_space, name->second);
    if (claim == nullptr) {
      given.unread = "resource claim '" + use.name + "' has no ResourceClaim that was seen";
    } else if (!claim->allocated) {
      given.unread =
          "resource claim '" + use.name + "' is not allocated: ResourceClaim " + claim->name;
    } else {
      given.unread = Add(use, *claim, given);
    }
    if (!given.unread.empty()) {
      given.devices.clear();
      break;
    }
  }
  return given;
}

ClaimedCluster::Given ClaimedCluster::GivenTo(const RayCluster& cluster, const RayGroup& group,
                                              bool head) const {
  Given given;
  if (group.pod.resource_claims.empty()) {
    return given;
  }
  given.unread = "no pod of the group was seen, and a template does not tell what its claims give";
  bool first = true;
  const auto* pods = facts_.pods.get();
  for (std::size_t i = 0; pods != nullptr && i < pods->size(); ++i) {
    const Pod& pod = (*pods)[i];
    const bool of_group = pod.name_space == cluster.name_space && pod.ray_cluster == cluster.name &&
                          (head ? pod.ray_node_type == "head"
                                : pod.ray_node_type == "worker" && pod.ray_group == group.name);
    if (!of_group || pod.deleting) {
      continue;
    }
    Given own = GivenTo(pod);
    if (first) {
      given = std::move(own);
      given.note = given.note.empty() ? "" : "the claims of its pods";
      first = false;
    } else if (!(own == given)) {
      given = {};
      given.unread = own.unread.empty()
                         ? "the claims of the group's pods give them different devices"
                         : own.unread;
      return given;
    }
  }
  return given;
}

void ClaimedCluster::Apply(const Given& given, PodSpec& spec) {
  if (!given.unread.empty()) {
    unread_[&spec] = given.unread;
    return;
  }
  std::string what;
  for (const auto& [resource, count] : given.devices) {
    std::string& limit = spec.containers[0].limits[resource];
    const std::int64_t before = WholeQuantity(spec.containers[0].limits, resource).value_or(0);
    limit = std::to_string(before + count);
    what += (what.empty() ? "" : ", ") + std::to_string(count) + " " + resource;
  }
  if (!what.empty()) {
    notes_[&spec] = "by resource claims (" + given.note + "), not by limits: " + what;
  }
}

std::vector<RayClusterView> ClaimedCluster::Views() const {
  std::vector<RayClusterView> views = ViewRayClusters(Facts());
  for (RayClusterView& view : views) {
    for (auto* units : {&view.groups, &view.pods}) {
      for (RayUnit& unit : *units) {
        if (const auto it = unread_.find(unit.spec); it != unread_.end()) {
          unit.claims_unread = it->second;
        }
        unit.by_claims = notes_.contains(unit.spec);
      }
    }
  }
  return views;
}

void ClaimedCluster::Explain(const std::vector<RayClusterView>& views,
                             std::vector<Finding>& findings) const {
  if (notes_.empty() && node_notes_.empty()) {
    return;
  }
  std::map<std::pair<std::string, std::string>, std::string> by_subject;
  for (const auto& [node, note] : node_notes_) {
    by_subject[{"node", node}] = note;
  }
  for (const RayClusterView& view : views) {
    for (const auto* units : {&view.groups, &view.pods}) {
      for (const RayUnit& unit : *units) {
        if (const auto it = notes_.find(unit.spec); it != notes_.end()) {
          by_subject[{unit.subject.kind, unit.subject.name}] = it->second;
        }
      }
    }
  }
  for (Finding& finding : findings) {
    const auto it = by_subject.find({finding.subject.kind, finding.subject.name});
    if (it != by_subject.end() && !finding.assertions.empty()) {
      finding.notes.push_back(it->second);
    }
  }
}

bool IsLimitUnknown(const RayUnit& unit, const std::string& resource) {
  return !unit.claims_unread.empty() && AskFor(*unit.spec, resource).Count() == 0;
}

}  // namespace dlc
