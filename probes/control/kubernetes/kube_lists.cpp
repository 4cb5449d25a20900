#include "probes/control/kubernetes/kube_lists.h"

#include <utility>

#include "probes/control/files/fields.h"
#include "probes/control/files/kube_objects.h"
#include "probes/control/files/ray_answers.h"
#include "probes/documents/node.h"

namespace dlc {
namespace {

/// etcd keeps no object above 1.5 MiB.
constexpr DocumentLimits kObjectLimits{8U << 20U, 500'000, 128};
constexpr std::size_t kMaxObjects = 500'000;

/// Live objects have a path and no line.
std::string WithoutLine(std::string message) {
  const std::string line = ": line 1: ";
  if (const auto at = message.find(line); at != std::string::npos) {
    message.replace(at, line.size(), ": ");
  }
  return message;
}

Source LiveSource(const Fields& object) {
  return {object.Reading().file, 0};
}

/// Reads the objects of one list, page by page.
template <class T>
class Objects {
 public:
  using Read = std::function<Result<T>(const Fields& object)>;
  using Wanted = std::function<bool(const Fields& object)>;

  Objects(std::string path, Read read, Wanted wanted, KubeListNotes& notes)
      : path_(std::move(path)), read_(std::move(read)), wanted_(std::move(wanted)), notes_(notes) {}

  void Restart() {
    objects_.clear();
    notes_.notes.clear();
    seen_ = 0;
  }

  Result<void> Take(const std::vector<std::string_view>& items) {
    for (const std::string_view item : items) {
      if (auto taken = TakeOne(item); !taken) {
        return Error{ErrorCode::kUnavailable, WithoutLine(taken.error().message),
                     taken.error().hint};
      }
    }
    return {};
  }

  std::vector<T> Finish() {
    notes_.facts.objects = static_cast<int>(seen_);
    return std::move(objects_);
  }

 private:
  Result<void> TakeOne(std::string_view item) {
    if (++seen_ > kMaxObjects) {
      return Error{ErrorCode::kUnsupported,
                   path_ + " holds more than " + std::to_string(kMaxObjects) + " objects", ""};
    }
    const auto root = ParseJsonValue(item, path_, kObjectLimits);
    if (!root) {
      return root.error();
    }
    FileReading reading;
    const DocNode* name = root->Find({"metadata", "name"});
    reading.file = path_ + "/" + (name == nullptr ? std::string("?") : name->text);
    const Fields object(reading, &*root, "");
    if (wanted_ && !wanted_(object)) {
      return {};
    }
    auto value = read_(object);
    if (reading.failed || !value) {
      return reading.failed ? reading.error : std::move(value).error();
    }
    value->source = LiveSource(object);
    objects_.push_back(std::move(*value));
    for (std::string& note : reading.notes) {
      notes_.notes.push_back(reading.file + ": " + note);
    }
    return {};
  }

  std::string path_;
  Read read_;
  Wanted wanted_;
  KubeListNotes& notes_;
  std::vector<T> objects_;
  std::size_t seen_ = 0;
};

template <class T>
Observed<std::vector<T>> ListObjects(KubeClient& client, const KubeListing& listing,
                                     typename Objects<T>::Read read,
                                     typename Objects<T>::Wanted wanted, Deadline deadline,
                                     KubeListNotes& notes) {
  const KubeRight& right = listing.right;
  KubeListRequest list;
  list.path = KubePath(right.group, listing.version, right.name_space, right.resource);
  list.label_selector = listing.label_selector;
  list.need = right;
  Objects<T> objects(list.path, std::move(read), std::move(wanted), notes);
  list.restart = [&] { objects.Restart(); };
  list.page = [&](const std::vector<std::string_view>& items) { return objects.Take(items); };
  notes.facts.path = list.path;
  const auto end = client.List(list, deadline);
  if (!end) {
    return end.error();
  }
  notes.facts.resource_version = end->resource_version;
  notes.facts.pages = end->pages;
  return objects.Finish();
}

}  // namespace

Observed<std::vector<RayCluster>> ListRayClusters(KubeClient& client, const KubeListing& listing,
                                                  Deadline deadline, KubeListNotes& notes) {
  const auto read = [](const Fields& object) -> Result<RayCluster> {
    RayCluster cluster = ReadRayCluster(object);
    cluster.head.source = LiveSource(object);
    for (RayGroup& group : cluster.workers) {
      group.source = LiveSource(object);
    }
    return cluster;
  };
  return ListObjects<RayCluster>(client, listing, read, nullptr, deadline, notes);
}

Observed<std::vector<RayJob>> ListRayJobs(KubeClient& client, const KubeListing& listing,
                                          const std::string& cluster, Deadline deadline,
                                          KubeListNotes& notes) {
  const auto of_cluster = [&](const Fields& object) {
    const std::string made = object.Map("status").FreeText("rayClusterName");
    const std::string chosen = object.Map("spec").Map("clusterSelector").FreeText("ray.io/cluster");
    // A RayJob without either is about to make a cluster of its own, or to fail.
    return cluster.empty() || made == cluster || chosen == cluster;
  };
  return ListObjects<RayJob>(client, listing, ReadRayJobObject, of_cluster, deadline, notes);
}

Observed<std::vector<Pod>> ListPods(KubeClient& client, const KubeListing& listing,
                                    Deadline deadline, KubeListNotes& notes) {
  const auto read = [](const Fields& object) -> Result<Pod> { return ReadPod(object); };
  return ListObjects<Pod>(client, listing, read, nullptr, deadline, notes);
}

Observed<std::vector<Node>> ListNodes(KubeClient& client, const KubeListing& listing,
                                      Deadline deadline, KubeListNotes& notes) {
  const auto read = [](const Fields& object) -> Result<Node> { return ReadNode(object); };
  return ListObjects<Node>(client, listing, read, nullptr, deadline, notes);
}

Observed<std::vector<ResourceSlice>> ListResourceSlices(KubeClient& client,
                                                        const KubeListing& listing,
                                                        Deadline deadline, KubeListNotes& notes) {
  const auto read = [](const Fields& object) -> Result<ResourceSlice> {
    return ReadResourceSlice(object);
  };
  return ListObjects<ResourceSlice>(client, listing, read, nullptr, deadline, notes);
}

Observed<std::vector<ResourceClaim>> ListResourceClaims(KubeClient& client,
                                                        const KubeListing& listing,
                                                        Deadline deadline, KubeListNotes& notes) {
  const auto read = [](const Fields& object) -> Result<ResourceClaim> {
    return ReadResourceClaim(object);
  };
  return ListObjects<ResourceClaim>(client, listing, read, nullptr, deadline, notes);
}

}  // namespace dlc
