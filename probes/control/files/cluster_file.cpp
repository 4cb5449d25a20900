#include "probes/control/files/cluster_file.h"

#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "probes/control/files/fields.h"
#include "probes/control/files/kube_objects.h"
#include "probes/input/read_file.h"

namespace dlc {
namespace {

/// Collects the objects of one file; what `facts` already holds is only looked at.
class Collector {
 public:
  Collector(std::string name, const ClusterFacts& facts) {
    reading_.file = std::move(name);
    Remember("RayCluster", facts.ray_clusters);
    Remember("Pod", facts.pods);
    if (const auto* nodes = facts.nodes.get()) {
      for (const Node& node : *nodes) {
        places_["Node " + node.name] = node.source;
      }
    }
    if (facts.dra) {
      Remember("ResourceClaim", facts.dra->claims);
      if (const auto* slices = facts.dra->slices.get()) {
        for (const ResourceSlice& slice : *slices) {
          places_["ResourceSlice " + slice.name] = slice.source;
        }
      }
    }
  }

  void AddDocument(const DocNode& root) {
    if (root.IsSequence()) {  // `kubectl get -o json | jq .items`
      for (std::size_t i = 0; i < root.items.size(); ++i) {
        const Fields object(reading_, &root.items[i], "[" + std::to_string(i) + "]");
        AddObject(object, object.Text("kind"), object.Text("apiVersion"));
      }
      return;
    }
    const Fields object(reading_, &root, "");
    AddObject(object, object.Text("kind"), object.Text("apiVersion"));
  }

  Result<void> MergeInto(ClusterFacts& facts, std::vector<std::string>& notes) {
    if (!reading_.failed && !clusters_.seen() && !pods_.seen() && !nodes_.seen() &&
        !slices_.seen() && !claims_.seen()) {
      std::string kinds;
      for (const std::string& kind : other_kinds_) {
        kinds += (kinds.empty() ? "" : ", ") + kind;
      }
      reading_.Fail({}, "",
                    "holds no RayCluster, RayJob, RayService, Pod or Node" +
                        (kinds.empty() ? std::string() : " (found: " + kinds + ")"),
                    "give a RayCluster manifest, or the output of kubectl get "
                    "rayclusters,pods,nodes -o json");
    }
    if (reading_.failed) {
      return reading_.error;
    }
    Append(facts.ray_clusters, clusters_);
    Append(facts.pods, pods_);
    Append(facts.nodes, nodes_);
    if (slices_.seen() || claims_.seen()) {
      DraFacts& dra = facts.dra ? *facts.dra : facts.dra.emplace();
      Append(dra.slices, slices_);
      Append(dra.claims, claims_);
    }
    if (pods_left_out_ > 0) {
      reading_.notes.push_back(std::to_string(pods_left_out_) +
                               " pods without label ray.io/cluster left out");
    }
    for (const std::string& note : reading_.notes) {
      notes.push_back(reading_.file + ": " + note);
    }
    return {};
  }

 private:
  template <class T>
  static void Append(Observed<std::vector<T>>& all, Observed<std::vector<T>>& more) {
    if (!more.seen()) {
      return;
    }
    if (!all.seen()) {
      all = std::vector<T>{};
    }
    std::move(more.value().begin(), more.value().end(), std::back_inserter(all.value()));
  }

  template <class T>
  void Remember(const std::string& kind, const Observed<std::vector<T>>& seen) {
    if (const auto* objects = seen.get()) {
      for (const T& object : *objects) {
        places_[kind + " " + object.name_space + "/" + object.name] = object.source;
      }
    }
  }

  template <class T>
  static std::vector<T>& Seen(Observed<std::vector<T>>& list) {
    if (!list.seen()) {
      list = std::vector<T>{};
    }
    return list.value();
  }

  /// Two versions of one object cannot both be the truth: which is newer, only the user knows.
  void RefuseSecond(const Fields& object, const std::string& what, const Source& source) {
    const auto [it, added] = places_.emplace(what, source);
    if (!added) {
      object.Fail(
          "metadata",
          what + " is also in " + it->second.file + ", line " + std::to_string(it->second.line),
          "give each object once: the manifest or the saved object, not both");
    }
  }

  void AddCluster(const Fields& object, RayCluster cluster) {
    RefuseSecond(object, "RayCluster " + cluster.name_space + "/" + cluster.name, cluster.source);
    Seen(clusters_).push_back(std::move(cluster));
  }

  void AddPod(const Fields& object) {
    auto& pods = Seen(pods_);
    if (!object.Map("metadata").Map("labels").Has("ray.io/cluster")) {
      ++pods_left_out_;
      return;
    }
    Pod pod = ReadPod(object);
    RefuseSecond(object, "Pod " + pod.name_space + "/" + pod.name, pod.source);
    pods.push_back(std::move(pod));
  }

  void AddNode(const Fields& object) {
    Node node = ReadNode(object);
    RefuseSecond(object, "Node " + node.name, node.source);
    Seen(nodes_).push_back(std::move(node));
  }

  void AddDraObject(const Fields& object, const std::string& kind) {
    if (kind == "ResourceSlice") {
      ResourceSlice slice = ReadResourceSlice(object);
      RefuseSecond(object, "ResourceSlice " + slice.name, slice.source);
      Seen(slices_).push_back(std::move(slice));
    } else {
      ResourceClaim claim = ReadResourceClaim(object);
      RefuseSecond(object, "ResourceClaim " + claim.name_space + "/" + claim.name, claim.source);
      Seen(claims_).push_back(std::move(claim));
    }
  }

  void AddRayObject(const Fields& object, const std::string& kind, const std::string& version) {
    if (version != "ray.io/v1") {
      reading_.notes.push_back(kind + " of " + version + " is read as ray.io/v1");
    }
    const Fields status = object.Map("status");
    if (kind == "RayCluster") {
      AddCluster(object, ReadRayCluster(object));
      return;
    }
    const bool job = kind == "RayJob";
    const Fields outer = object.Map("spec");
    const Fields spec = outer.Map(job ? "rayClusterSpec" : "rayClusterConfig");
    if (!spec.Present()) {
      reading_.notes.push_back(kind + " without a cluster of its own ignored");
      other_kinds_.insert(kind);
      return;
    }
    const std::string name = job ? status.FreeText("rayClusterName")
                                 : status.Map("activeServiceStatus").FreeText("rayClusterName");
    AddCluster(object, ReadEmbeddedRayCluster(object, spec, name));
  }

  /// An item of a PodList as the API gives it carries no kind of its own.
  void AddList(const Fields& list, const std::string& kind, const std::string& version) {
    const std::string item_kind = kind.substr(0, kind.size() - std::string("List").size());
    if (item_kind == "Pod") {
      Seen(pods_);
    } else if (item_kind == "Node") {
      Seen(nodes_);
    } else if (item_kind == "RayCluster") {
      Seen(clusters_);
    } else if (item_kind == "ResourceSlice") {
      Seen(slices_);
    } else if (item_kind == "ResourceClaim") {
      Seen(claims_);
    } else if (!list.Has("items") || list.Find("items")->items.empty()) {
      other_kinds_.insert("an empty " + kind);
    }
    list.Each("items", [&](const Fields& item) {
      const std::string own = item.Text("kind");
      const std::string own_version = item.Text("apiVersion");
      AddObject(item, own.empty() ? item_kind : own, own_version.empty() ? version : own_version);
    });
  }

  void AddObject(const Fields& object, const std::string& kind, const std::string& version) {
    if (reading_.failed) {
      return;
    }
    const bool ray = version.starts_with("ray.io/");
    if (ray && (kind == "RayCluster" || kind == "RayJob" || kind == "RayService")) {
      AddRayObject(object, kind, version);
    } else if (kind == "Pod" && version == "v1") {
      AddPod(object);
    } else if (kind == "Node" && version == "v1") {
      AddNode(object);
    } else if ((kind == "ResourceSlice" || kind == "ResourceClaim") &&
               version.starts_with("resource.k8s.io/")) {
      AddDraObject(object, kind);
    } else if (kind.ends_with("List")) {
      AddList(object, kind, version);
    } else if (kind == "Status" && object.FreeText("status") == "Failure") {
      object.Fail("", "holds an error of the API server, no objects: " + object.FreeText("message"),
                  "repeat the kubectl get that wrote this file");
    } else {
      other_kinds_.insert(kind.empty() ? "an object without kind" : kind);
    }
  }

  FileReading reading_;
  std::map<std::string, Source> places_;
  std::set<std::string> other_kinds_;
  Observed<std::vector<RayCluster>> clusters_;
  Observed<std::vector<Pod>> pods_;
  Observed<std::vector<Node>> nodes_;
  Observed<std::vector<ResourceSlice>> slices_;
  Observed<std::vector<ResourceClaim>> claims_;
  int pods_left_out_ = 0;
};

/// `image: {{ .Values.image }}` is broken YAML, and the parser's words do not say why.
Error ExplainTemplate(Error error, std::string_view bytes) {
  if (bytes.find("{{") != std::string_view::npos) {
    error.hint =
        "the file holds {{ }}: give the rendered manifest (helm template, or kubectl get "
        "-o yaml)";
  }
  return error;
}

}  // namespace

Result<void> ParseClusterFile(std::string_view bytes, const std::string& name, ClusterFacts& facts,
                              std::vector<std::string>& notes) {
  const auto document = ParseDocument(bytes, name, kClusterFileLimits);
  if (!document) {
    return ExplainTemplate(document.error(), bytes);
  }
  Collector collector(name, facts);
  for (const DocNode& root : document->roots) {
    collector.AddDocument(root);
  }
  return collector.MergeInto(facts, notes);
}

Result<void> ReadClusterFile(const std::string& path, ClusterFacts& facts,
                             std::vector<std::string>& notes) {
  const auto bytes = ReadFileBytes(path, kClusterFileLimits.max_bytes);
  if (!bytes) {
    return bytes.error();
  }
  return ParseClusterFile(*bytes, path, facts, notes);
}

}  // namespace dlc
