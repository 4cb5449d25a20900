#include "probes/control/kubernetes/observe_cluster.h"

#include <algorithm>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "probes/control/kubernetes/kube_lists.h"
#include "probes/control/kubernetes/rights.h"
#include "probes/observations/strict_json.h"

namespace dlc {
namespace {

constexpr std::string_view kClusterLabel = "ray.io/cluster";

/// gitVersion of /version, or nothing: every authenticated user may usually ask.
std::string ServerVersion(KubeClient& client, Deadline deadline) {
  const auto body = client.Get("/version", {"get", "", "version", "", ""}, deadline);
  const auto document =
      body ? ParseStrictJson(*body, {1U << 20U, 16}) : Result<nlohmann::ordered_json>(body.error());
  if (!document || !document->is_object() || !document->contains("gitVersion")) {
    return {};
  }
  const auto& version = (*document)["gitVersion"];
  return version.is_string() ? version.get<std::string>() : std::string();
}

std::string Named(const std::vector<RayCluster>& clusters) {
  std::string names;
  for (const RayCluster& cluster : clusters) {
    names += (names.empty() ? "" : ", ") + cluster.name;
  }
  return names;
}

/// The version of an API group that the server offers first and that is read here.
Result<std::string> PreferredVersion(KubeClient& client, const std::string& group,
                                     Deadline deadline) {
  const auto body = client.Get("/apis/" + group, {"get", "", group, "", ""}, deadline);
  if (!body && body.error().code == ErrorCode::kNotFound) {
    return Error{ErrorCode::kNotFound, "the API server has no " + group + " (Kubernetes 1.32)", ""};
  }
  if (!body) {
    return body.error();
  }
  const auto document = ParseStrictJson(*body, {1U << 20U, 16});
  const auto versions =
      document ? document->find("versions") : nlohmann::ordered_json::const_iterator();
  for (const char* known : {"v1", "v1beta2", "v1beta1"}) {
    for (std::size_t i = 0; document && versions != document->end() && i < versions->size(); ++i) {
      if (const auto& one = (*versions)[i]; one.is_object() && one.value("version", "") == known) {
        return std::string(known);
      }
    }
  }
  return Error{ErrorCode::kUnsupported,
               "the API server offers no version of " + group +
                   " that is read here (v1, v1beta2, "
                   "v1beta1)",
               ""};
}

/// Whether a Ray pod, or a group's template, gets devices by claim.
bool HasResourceClaims(const ClusterFacts& facts) {
  const auto has = [](const PodSpec& spec) { return !spec.resource_claims.empty(); };
  const auto* pods = facts.pods.get();
  if (pods != nullptr &&
      std::any_of(pods->begin(), pods->end(), [&](const Pod& pod) { return has(pod.spec); })) {
    return true;
  }
  const auto* clusters = facts.ray_clusters.get();
  return clusters != nullptr &&
         std::any_of(clusters->begin(), clusters->end(), [&](const RayCluster& cluster) {
           return has(cluster.head.pod) ||
                  std::any_of(cluster.workers.begin(), cluster.workers.end(),
                              [&](const RayGroup& group) { return has(group.pod); });
         });
}

class Look {
 public:
  Look(KubeClient& client, const ClusterLook& look, Deadline deadline, const ClusterTalk& talk,
       Observations& observations)
      : client_(client),
        look_(look),
        deadline_(deadline),
        talk_(talk),
        observations_(observations) {}

  Result<void> Run() {
    ApiServerFacts& server = observations_.cluster.api_server.emplace();
    server.server = client_.Access().server.text;
    server.context = client_.Access().context;
    server.name_space = look_.name_space;
    talk_.step("asking " + server.server + " what may be seen");
    if (const auto nothing_answers = AskRights()) {
      observations_.cluster.ray_clusters = *nothing_answers;
      observations_.cluster.pods = *nothing_answers;
      observations_.cluster.nodes = *nothing_answers;
      if (listings_.count("rayjobs") > 0) {
        observations_.ray.job_objects = *nothing_answers;
      }
      return {};
    }
    if (auto chosen = Clusters(); !chosen) {
      return chosen;
    }
    Rest();
    return {};
  }

 private:
  /// Several at a time: each is a round trip, and a bastion is far away. The Error of all, when not
  /// one question was answered: every list would wait for the same.
  std::optional<Error> AskRights() {
    std::vector<KubeRight> rights = RightsOf(look_.stages, look_.name_space);
    std::erase_if(rights,
                  [this](const KubeRight& right) { return !IsFirstAsked(right, look_.dashboard); });
    auto version =
        std::async(std::launch::async, [this] { return ServerVersion(client_, deadline_); });
    std::optional<Error> failure;
    bool answered = false;
    std::vector<std::future<Result<bool>>> answers;
    for (const KubeRight& right : rights) {
      answers.push_back(std::async(std::launch::async,
                                   [this, &right] { return client_.Allows(right, deadline_); }));
    }
    for (std::size_t i = 0; i < rights.size(); ++i) {
      const auto allowed = answers[i].get();
      answered = answered || allowed;
      if (!allowed && !failure) {
        failure = allowed.error();
      }
      if (rights[i].verb != "list") {
        continue;  // the client remembers the answer for who goes to the dashboard
      }
      listings_.emplace(rights[i].resource, KubeListing{rights[i], "", "v1"});
      if (allowed && !*allowed) {
        denied_.emplace(rights[i].resource, "needs " + rights[i].ToString());
        talk_.warn("this user lacks " + rights[i].ToString() +
                   "; 'dlc-check manifest rbac' prints the rights that a run needs");
      }
    }
    std::string told = version.get();
    answered = answered || !told.empty();
    observations_.cluster.api_server->version = std::move(told);
    return answered ? std::nullopt : failure;
  }

  /// Nothing where `resource` may be listed.
  std::optional<NotLookedAt> WhyNot(const std::string& resource) const {
    if (listings_.count(resource) == 0) {
      return NotLookedAt{"no selected stage reads it", ""};
    }
    const auto it = denied_.find(resource);
    return it == denied_.end() ? std::nullopt : std::optional(NotLookedAt{it->second, ""});
  }

  /// A 403 in spite of the review says the same as a review that says no.
  template <class T>
  static Observed<T> Settled(Observed<T> observed) {
    if (observed.failed() && observed.error().code == ErrorCode::kPermissionDenied &&
        observed.error().message.starts_with("needs ")) {
      return NotLookedAt{observed.error().message, ""};
    }
    return observed;
  }

  void Record(KubeListNotes notes, bool seen) {
    if (seen) {
      observations_.cluster.api_server->lists.push_back(std::move(notes.facts));
    }
    for (const std::string& note : notes.notes) {
      talk_.warn(note);
    }
  }

  Result<void> Clusters() {
    auto& clusters = observations_.cluster.ray_clusters;
    if (auto why = WhyNot("rayclusters")) {
      clusters = std::move(*why);
      return {};
    }
    talk_.step("listing rayclusters in namespace " + look_.name_space);
    KubeListNotes notes;
    clusters = Settled(ListRayClusters(client_, listings_.at("rayclusters"), deadline_, notes));
    Record(std::move(notes), clusters.seen());
    return clusters.seen() ? Choose(clusters.value()) : Result<void>();
  }

  Result<void> Choose(std::vector<RayCluster>& clusters) {
    const std::string in_namespace = "in namespace " + look_.name_space;
    if (clusters.empty()) {
      return Error{ErrorCode::kInvalidInput,
                   "no RayCluster " + in_namespace + " of " + client_.Access().server.text,
                   "choose another namespace with -n, or another --context"};
    }
    if (look_.ray_cluster.empty() && clusters.size() > 1) {
      return Error{
          ErrorCode::kInvalidInput,
          std::to_string(clusters.size()) + " RayClusters " + in_namespace + ": " + Named(clusters),
          "choose one with --ray-cluster NAME"};
    }
    if (look_.ray_cluster.empty()) {
      return {};
    }
    const std::string there = Named(clusters);
    std::erase_if(clusters,
                  [&](const RayCluster& cluster) { return cluster.name != look_.ray_cluster; });
    if (clusters.empty()) {
      return Error{ErrorCode::kInvalidInput,
                   "no RayCluster '" + look_.ray_cluster + "' " + in_namespace,
                   "there is " + there};
    }
    return {};
  }

  /// Of the chosen cluster, or of all where its name is not known.
  std::string ClusterName() const {
    const auto* clusters = observations_.cluster.ray_clusters.get();
    return clusters != nullptr && !clusters->empty() ? clusters->front().name : look_.ray_cluster;
  }

  void Rest() {
    const std::string name = ClusterName();
    const std::string selector = std::string(kClusterLabel) + (name.empty() ? "" : "=" + name);
    talk_.step("listing pods, nodes and rayjobs");
    // Each has notes of its own; what they share, the client, is made for it.
    auto pods = Start<Pod>("pods", [this, selector](KubeListing listing, KubeListNotes& notes) {
      listing.label_selector = selector;
      return ListPods(client_, listing, deadline_, notes);
    });
    auto nodes = Start<Node>("nodes", [this](const KubeListing& listing, KubeListNotes& notes) {
      return ListNodes(client_, listing, deadline_, notes);
    });
    auto jobs =
        Start<RayJob>("rayjobs", [this, name](const KubeListing& listing, KubeListNotes& notes) {
          return ListRayJobs(client_, listing, name, deadline_, notes);
        });
    observations_.cluster.pods = End(pods);
    observations_.cluster.nodes = End(nodes);
    Observed<std::vector<RayJob>> objects = End(jobs);
    if (listings_.count("rayjobs") > 0) {
      observations_.ray.job_objects = std::move(objects);
    }
    if (HasResourceClaims(observations_.cluster)) {
      ObserveClaims();
    }
  }

  /// Devices that come by claims. Only asked for here: most clusters have none.
  void ObserveClaims() {
    for (const KubeRight& right : RightsOf(look_.stages, look_.name_space)) {
      if (right.group != kDraGroup) {
        continue;
      }
      const auto allowed = client_.Allows(right, deadline_);
      listings_.emplace(right.resource, KubeListing{right, "", ""});
      if (allowed && !*allowed) {
        denied_.emplace(right.resource, "needs " + right.ToString());
        talk_.warn("this user lacks " + right.ToString() +
                   ", and what the pods' resource claims give is not known");
      }
    }
    if (listings_.count("resourceclaims") == 0) {
      return;  // no stage reads it
    }
    observations_.cluster.dra.emplace();
    talk_.step("listing resourceslices and resourceclaims");
    const auto version = PreferredVersion(client_, kDraGroup, deadline_);
    if (!version) {
      observations_.cluster.dra->slices = version.error();
      observations_.cluster.dra->claims = version.error();
      return;
    }
    for (const char* resource : {"resourceslices", "resourceclaims"}) {
      listings_.at(resource).version = *version;
    }
    auto slices = Start<ResourceSlice>(
        "resourceslices", [this](const KubeListing& listing, KubeListNotes& notes) {
          return ListResourceSlices(client_, listing, deadline_, notes);
        });
    auto claims = Start<ResourceClaim>(
        "resourceclaims", [this](const KubeListing& listing, KubeListNotes& notes) {
          return ListResourceClaims(client_, listing, deadline_, notes);
        });
    observations_.cluster.dra->slices = End(slices);
    observations_.cluster.dra->claims = End(claims);
  }

  template <class T>
  using Listed = std::pair<Observed<std::vector<T>>, KubeListNotes>;

  template <class T>
  std::future<Listed<T>> Start(
      const std::string& resource,
      std::function<Observed<std::vector<T>>(const KubeListing&, KubeListNotes&)> list) {
    if (auto why = WhyNot(resource)) {
      return std::async(std::launch::deferred, [reason = std::move(*why)] {
        return Listed<T>{reason, {}};
      });
    }
    const KubeListing& listing = listings_.at(resource);
    return std::async(std::launch::async, [&listing, run = std::move(list)] {
      Listed<T> listed;
      listed.first = Settled(run(listing, listed.second));
      return listed;
    });
  }

  template <class T>
  Observed<std::vector<T>> End(std::future<Listed<T>>& future) {
    Listed<T> listed = future.get();
    Record(std::move(listed.second), listed.first.seen());
    return std::move(listed.first);
  }

  KubeClient& client_;
  const ClusterLook& look_;
  Deadline deadline_;
  const ClusterTalk& talk_;
  Observations& observations_;
  std::map<std::string, KubeListing> listings_;  ///< by resource, of the rights asked for
  std::map<std::string, std::string> denied_;
};

}  // namespace

Result<void> ObserveCluster(KubeClient& client, const ClusterLook& look, Deadline deadline,
                            const ClusterTalk& talk, Observations& observations) {
  return Look(client, look, deadline, talk, observations).Run();
}

}  // namespace dlc
