#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checks/check.h"
#include "checks/ray_pods.h"
#include "checks/wording.h"

namespace dlc {

extern const Check kRayVersion;  // the table in check_list.cpp finds it by this name

namespace {

using List = std::vector<std::string>;

constexpr Rule kSpec{
    "ray-version/spec-matches-image",
    Severity::kWarn,
    false,
    "spec.rayVersion says what the image holds",
    "spec.rayVersion equals the Ray that runs and the image's label",
    "which Ray runs: KubeRay takes the field as a hint and never chooses the Ray by it",
    "set spec.rayVersion to the image's Ray: KubeRay derives probes, token authentication and the "
    "autoscaler's defaults from it"};
constexpr Rule kOne{
    "ray-version/one-running-version",
    Severity::kRequired,
    true,
    "all pods of a RayCluster have one Ray and one Python",
    "every pod's Ray and three-part Python are equal, and the dashboard's /api/version agrees",
    "that it is the Ray of the image, or that two pods run the same image: releases share their "
    "Ray version",
    "run every group of the RayCluster from one image digest; Ray refuses nodes whose Ray or "
    "Python differs, to the patch level"};
constexpr Rule kExpected{
    "ray-version/running-matches-expected",
    Severity::kRequired,
    false,
    "the Ray that runs is the expected one",
    "every pod and the dashboard report the expected Ray version",
    "which release of the image runs: several carry the same Ray",
    "look for a job or start command that installs Ray over the image's, and for an older image "
    "on some nodes"};
constexpr Rule kPython{
    "ray-version/python-matches-expected",
    Severity::kRequired,
    false,
    "the Python that runs is the expected one",
    "every pod reports a Python that the policy admits",
    "that jobs use this interpreter: a runtime_env may bring its own (job-packages)",
    "compare the image with the policy's ray.python, and look for another interpreter first in "
    "PATH"};
constexpr Rule kAlive{
    "ray-version/ray-nodes-alive",
    Severity::kRequired,
    true,
    "every ready pod is an alive node of the Ray cluster",
    "Ray lists at least as many alive nodes as there are ready pods",
    "that the nodes' resources are what the pods can see (gpu-allocation, gpu-visible)",
    "read the log of the Ray container of the missing pod: a node that is refused for its version "
    "says so there"};

constexpr Rule kRules[] = {kSpec, kOne, kExpected, kPython, kAlive};

/// What the pods of one RayCluster report.
struct Reported {
  std::map<std::string, List> ray;     // version -> pods
  std::map<std::string, List> python;  // version -> pods
  List ray_missing;                    // pods that report none
  List python_missing;                 // none, or without patch level
  std::size_t pods = 0;
};

struct Ground {
  const Observations& o;
  const Policy& policy;
  RayPods pods;
  // The dashboard and its node list belong to one Ray cluster.
  bool one_cluster = false;
};

List Keys(const std::map<std::string, List>& by_version) {
  List keys;
  for (const auto& [version, pods] : by_version) {
    keys.push_back(version);
  }
  return keys;
}

std::ptrdiff_t Dots(const std::string& text) {
  return std::count(text.begin(), text.end(), '.');
}

using VersionsByPod = std::map<std::string, const PodVersions*>;

Reported Collect(const RayPodGroup& group, const VersionsByPod& by_pod) {
  Reported reported;
  for (const Pod* pod : group.pods) {
    ++reported.pods;
    const auto it = by_pod.find(pod->name);
    const std::string ray = it == by_pod.end() ? "" : it->second->ray;
    const std::string python = it == by_pod.end() ? "" : it->second->python;
    if (ray.empty()) {
      reported.ray_missing.push_back(pod->name);
    } else {
      reported.ray[ray].push_back(pod->name);
    }
    if (python.empty()) {
      reported.python_missing.push_back(pod->name);
    } else {
      reported.python[python].push_back(pod->name);
    }
  }
  return reported;
}

/// "Ray 2.57.0 on 1 pod: worker-1", a line a version.
void AddTable(const char* what, const std::map<std::string, List>& by_version, Finding& finding) {
  for (const auto& [version, pods] : by_version) {
    finding.notes.push_back(what + (" " + version) + " on " + Count(pods.size(), "pod") + ": " +
                            NameSome(pods));
  }
}

/// The version most pods have: the others are what a reader looks for.
std::string Commonest(const std::map<std::string, List>& by_version) {
  const auto it = std::max_element(
      by_version.begin(), by_version.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  return it == by_version.end() ? std::string() : it->first;
}

/// /api/version of this group's cluster, or "" when it was not seen, is empty or cannot be
/// attributed.
std::string DashboardRay(const Ground& g) {
  const RayVersionAnswer* answer = g.o.ray.version.get();
  return answer != nullptr && g.one_cluster ? answer->ray_version : std::string();
}

Finding& NoDashboard(const Ground& g, const Rule& rule, const Subject& subject, Judge& judge) {
  if (!g.o.ray.version.seen()) {
    return judge.Unseen(rule.id, subject, "Ray's /api/version", g.o.ray.version);
  }
  return judge.Unknown(
      rule.id, subject,
      {"unavailable",
       g.one_cluster
           ? "Ray's /api/version holds no ray_version"
           : "Ray's answers are of one cluster, and pods of several RayClusters were seen",
       ""});
}

Finding& MissingReports(const Rule& rule, const Subject& subject, const char* what,
                        const List& missing, Judge& judge) {
  return judge.Unknown(rule.id, subject,
                       {"not-found",
                        std::string(what) + " was not reported by " + Count(missing.size(), "pod") +
                            ": " + NameSome(missing),
                        ""});
}

// --- one version

void JudgeOne(const Ground& g, const Subject& subject, const Reported& r, Judge& judge) {
  const std::string dashboard = DashboardRay(g);
  const std::string reference = dashboard.empty() ? Commonest(r.ray) : dashboard;
  List short_python;
  for (const auto& [version, pods] : r.python) {
    if (Dots(version) < 2) {
      short_python.insert(short_python.end(), pods.begin(), pods.end());
    }
  }
  const std::string source =
      dashboard.empty() ? "observation:ray.podVersions" : "observation:ray.version";
  std::vector<Assertion> assertions = {
      {"Ray of the pods", Op::kSubset, List{reference}, Keys(r.ray), "", source},
      {"Python of the pods", Op::kSubset, List{Commonest(r.python)}, Keys(r.python), "",
       "observation:ray.podVersions"}};
  // A short version ("3.13") beside a long one is no difference that was shown.
  const bool ray_differs = !Holds(assertions[0]);
  const bool python_differs = short_python.empty() && !Holds(assertions[1]);
  if (!ray_differs && !python_differs) {
    Finding* unknown = nullptr;
    if (!r.ray_missing.empty()) {
      unknown = &MissingReports(kOne, subject, "Ray's version", r.ray_missing, judge);
    } else if (!r.python_missing.empty()) {
      unknown = &MissingReports(kOne, subject, "Python's version", r.python_missing, judge);
    } else if (!short_python.empty()) {
      unknown = &MissingReports(kOne, subject, "Python's patch level", short_python, judge);
    } else if (dashboard.empty()) {
      unknown = &NoDashboard(g, kOne, subject, judge);
    }
    if (unknown != nullptr) {
      AddTable("Ray", r.ray, *unknown);
      AddTable("Python", r.python, *unknown);
      return;
    }
  }
  if (!python_differs && !short_python.empty()) {
    assertions.pop_back();
  }
  Finding& finding = judge.Decide(kOne.id, subject, std::move(assertions));
  AddTable("Ray", r.ray, finding);
  AddTable("Python", r.python, finding);
  if (!dashboard.empty()) {
    finding.notes.push_back("/api/version says Ray " + dashboard);
  }
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = "the versions differ: ";
    for (const std::string& note : finding.notes) {
      finding.reason.message += (&note == &finding.notes.front() ? "" : "; ") + note;
    }
  }
}

// --- the expected version

struct Expectation {
  std::string version;  // "" when there is none
  std::string source;
};

/// The served image's label framework_version, or "".
std::string LabelRay(const Observations& o) {
  const ServedImage* image = o.served_image.get();
  const ImageConfig* config = image == nullptr ? nullptr : image->config.get();
  if (config == nullptr) {
    return {};
  }
  const auto label = config->labels.find("framework_version");
  return label == config->labels.end() ? std::string() : label->second;
}

Expectation ExpectedRay(const Ground& g) {
  if (!g.policy.ray.version.empty()) {
    return {g.policy.ray.version, "policy:ray.version"};
  }
  return {LabelRay(g.o), "observation:servedImage label framework_version"};
}

void NoExpectation(const Ground& g, const Subject& subject, Judge& judge) {
  constexpr const char* kWhat =
      "the image's label framework_version (the policy demands no ray.version)";
  if (!g.o.served_image.seen()) {
    judge.Unseen(kExpected.id, subject, kWhat, g.o.served_image);
  } else if (!g.o.served_image.value().config.seen()) {
    judge.Unseen(kExpected.id, subject, kWhat, g.o.served_image.value().config);
  } else {
    judge.Unknown(kExpected.id, subject,
                  {"not-found",
                   "no version to expect: the policy demands no ray.version and the image has no "
                   "label framework_version",
                   ""});
  }
}

void JudgeExpected(const Ground& g, const Subject& subject, const Reported& r, Judge& judge) {
  const Expectation expected = ExpectedRay(g);
  if (expected.version.empty()) {
    NoExpectation(g, subject, judge);
    return;
  }
  const std::string dashboard = DashboardRay(g);
  std::vector<Assertion> assertions;
  if (!r.ray.empty()) {
    assertions.push_back(
        {"Ray of the pods", Op::kSubset, List{expected.version}, Keys(r.ray), "", expected.source});
  }
  if (!dashboard.empty()) {
    assertions.push_back(
        {"ray_version of /api/version", Op::kEq, expected.version, dashboard, "", expected.source});
  }
  const bool differs = !std::all_of(assertions.begin(), assertions.end(), Holds);
  if (differs || (r.ray_missing.empty() && !dashboard.empty())) {
    Finding& finding = judge.Decide(kExpected.id, subject, std::move(assertions));
    AddTable("Ray", r.ray, finding);
    return;
  }
  Finding& finding = !r.ray_missing.empty()
                         ? MissingReports(kExpected, subject, "Ray's version", r.ray_missing, judge)
                         : NoDashboard(g, kExpected, subject, judge);
  AddTable("Ray", r.ray, finding);
}

/// The first `parts` dot-separated parts.
std::string FirstParts(const std::string& version, std::ptrdiff_t parts) {
  std::size_t end = 0;
  for (; parts > 0 && end != std::string::npos; --parts) {
    end = version.find('.', end == 0 ? 0 : end + 1);
  }
  return version.substr(0, end);
}

void JudgePython(const Ground& g, const Subject& subject, const Reported& r, Judge& judge) {
  const std::string& wanted = g.policy.ray.python;
  std::set<std::string> cut;
  for (const auto& [version, pods] : r.python) {
    cut.insert(FirstParts(version, Dots(wanted) + 1));
  }
  const Assertion assertion{"Python of the pods",         Op::kSubset, List{wanted},
                            List(cut.begin(), cut.end()), "",          "policy:ray.python"};
  if (r.python_missing.empty() || !Holds(assertion)) {
    AddTable("Python", r.python, judge.Decide(kPython.id, subject, {assertion}));
  } else {
    MissingReports(kPython, subject, "Python's version", r.python_missing, judge);
  }
}

// --- pods

void NoPodsOf(const RayPodGroup& group, const Subject& subject, Judge& judge) {
  for (const Rule* rule : {&kOne, &kExpected}) {
    if (group.cluster != nullptr && group.cluster->suspended) {
      judge.NotApplicable(rule->id, subject, "the RayCluster is suspended: it has no pods");
    } else {
      judge.Unknown(rule->id, subject, {"not-found", "no pod of the RayCluster was seen", ""});
    }
  }
}

void JudgeReports(const Ground& g, Judge& judge) {
  VersionsByPod by_pod;
  for (const PodVersions& versions : g.o.ray.pod_versions.value()) {
    by_pod.emplace(versions.pod, &versions);
  }
  const bool python_demanded = !g.policy.ray.python.empty();
  for (const RayPodGroup& group : g.pods.groups) {
    const Subject subject{"cluster", group.name};
    if (group.pods.empty()) {
      NoPodsOf(group, subject, judge);
      continue;
    }
    const Reported reported = Collect(group, by_pod);
    JudgeOne(g, subject, reported, judge);
    JudgeExpected(g, subject, reported, judge);
    if (python_demanded) {
      JudgePython(g, subject, reported, judge);
    }
  }
}

void NoReports(const Ground& g, Judge& judge) {
  const Subject all{"cluster", "Ray pods"};
  std::vector<const Rule*> rules = {&kOne, &kExpected};
  if (!g.policy.ray.python.empty()) {
    rules.push_back(&kPython);
  }
  const std::string dashboard = DashboardRay(g);
  const Expectation expected = ExpectedRay(g);
  for (const Rule* rule : rules) {
    if (rule == &kExpected && !dashboard.empty() && !expected.version.empty() &&
        dashboard != expected.version) {
      // One wrong answer is enough to fail, whatever the pods would say.
      judge.Decide(kExpected.id, all,
                   {{"ray_version of /api/version", Op::kEq, expected.version, dashboard, "",
                     expected.source}});
      continue;
    }
    Finding* finding = nullptr;
    if (!g.o.ray.pod_versions.seen()) {
      finding = &judge.Unseen(rule->id, all, "the versions inside the pods", g.o.ray.pod_versions);
    } else if (!g.o.cluster.pods.seen()) {
      finding = &judge.Unseen(rule->id, all, "the pods", g.o.cluster.pods);
    } else {
      finding = &judge.Unknown(rule->id, all, {"not-found", "no Ray pod was found", ""});
    }
    finding->notes = g.pods.left_out;
    if (!dashboard.empty()) {
      finding->notes.push_back("/api/version says Ray " + dashboard);
    }
  }
}

// --- spec.rayVersion

/// Ray of the cluster's pods when they agree, else "".
std::string RunningRay(const Ground& g, const RayCluster& cluster) {
  if (std::string dashboard = DashboardRay(g); !dashboard.empty()) {
    return dashboard;
  }
  if (!g.o.ray.pod_versions.seen()) {
    return {};
  }
  VersionsByPod by_pod;
  for (const PodVersions& versions : g.o.ray.pod_versions.value()) {
    by_pod.emplace(versions.pod, &versions);
  }
  for (const RayPodGroup& group : g.pods.groups) {
    if (group.cluster == &cluster) {
      const Reported reported = Collect(group, by_pod);
      return reported.ray.size() == 1 ? reported.ray.begin()->first : std::string();
    }
  }
  return {};
}

void JudgeSpecOf(const Ground& g, const RayCluster& cluster, Judge& judge) {
  const Subject subject{"cluster", cluster.name};
  if (cluster.ray_version.empty()) {
    judge.NotApplicable(kSpec.id, subject,
                        "spec.rayVersion is not set: KubeRay then uses its oldest probes and "
                        "refuses token authentication");
    return;
  }
  const std::string running = RunningRay(g, cluster);
  const std::string label = LabelRay(g.o);
  const std::string metric = "spec.rayVersion";
  std::vector<Assertion> assertions;
  if (!running.empty()) {
    assertions.push_back(
        {metric, Op::kEq, running, cluster.ray_version, "", "observation:ray (running)"});
  }
  if (!label.empty() && label != running) {
    assertions.push_back({metric, Op::kEq, label, cluster.ray_version, "",
                          "observation:servedImage label framework_version"});
  }
  if (assertions.empty()) {
    judge.Unknown(kSpec.id, subject,
                  {"not-looked-at",
                   "spec.rayVersion is " + cluster.ray_version +
                       ", and neither the Ray that runs nor the image's label was seen",
                   ""});
    return;
  }
  Finding& finding = judge.Decide(kSpec.id, subject, std::move(assertions));
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = "spec.rayVersion says " + cluster.ray_version + "; " +
                             (running.empty() ? "" : "Ray " + running + " runs") +
                             (running.empty() || label.empty() ? "" : ", ") +
                             (label.empty() ? "" : "the image's label says " + label);
  }
  if (running.empty()) {
    finding.notes.emplace_back("the Ray that runs was not seen: compared with the image's label");
  }
  if (!cluster.source.file.empty()) {
    finding.notes.push_back(
        "written in " + cluster.source.file +
        (cluster.source.line > 0 ? " line " + std::to_string(cluster.source.line) : ""));
  }
}

void JudgeSpec(const Ground& g, Judge& judge) {
  const Subject all{"cluster", "RayClusters"};
  if (!g.o.cluster.ray_clusters.seen()) {
    judge.Unseen(kSpec.id, all, "the RayClusters", g.o.cluster.ray_clusters);
    return;
  }
  for (const RayCluster& cluster : g.o.cluster.ray_clusters.value()) {
    JudgeSpecOf(g, cluster, judge);
  }
  if (g.o.cluster.ray_clusters.value().empty()) {
    judge.Unknown(kSpec.id, all, {"not-found", "no RayCluster was found", ""});
  }
}

// --- alive nodes

struct Membership {
  std::int64_t ready = 0;
  List absent;  // ready pods whose IP no alive node has
  bool by_address = true;
};

Membership MatchPods(const Ground& g, const std::set<std::string>& alive_ips) {
  Membership m;
  for (const RayPodGroup& group : g.pods.groups) {
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

void JudgeAlive(const Ground& g, Judge& judge) {
  const Subject subject{"cluster",
                        g.pods.groups.size() == 1 ? g.pods.groups.front().name : "Ray pods"};
  if (!g.o.ray.nodes.seen()) {
    judge.Unseen(kAlive.id, subject, "Ray's node list", g.o.ray.nodes);
    return;
  }
  if (!g.o.cluster.pods.seen()) {
    judge.Unseen(kAlive.id, subject, "the pods", g.o.cluster.pods);
    return;
  }
  if (!g.one_cluster && g.pods.count > 0) {
    judge.Unknown(
        kAlive.id, subject,
        {"unavailable",
         "Ray's node list is of one cluster, and pods of several RayClusters were seen", ""});
    return;
  }
  std::int64_t alive = 0;
  std::set<std::string> ips;
  for (const RayNode& node : g.o.ray.nodes.value()) {
    if (node.alive) {
      ++alive;
      ips.insert(node.node_ip);
    }
  }
  const Membership m = MatchPods(g, ips);
  if (m.ready == 0) {
    judge.Unknown(kAlive.id, subject, {"not-found", "no ready Ray pod was found", ""}).notes =
        g.pods.left_out;
    return;
  }
  // By address where both sides have one; else only the numbers can be compared.
  const std::int64_t members =
      m.by_address ? m.ready - static_cast<std::int64_t>(m.absent.size()) : alive;
  Finding& finding = judge.Decide(kAlive.id, subject,
                                  {{"alive Ray nodes of ready pods", Op::kGe, m.ready, members, "",
                                    "observation:cluster.pods"}});
  if (m.by_address && !m.absent.empty()) {
    finding.notes.push_back("no alive Ray node has the address of " + NameSome(m.absent));
  }
}

std::vector<Finding> JudgeRayVersion(const Observations& o, const Policy& policy) {
  Judge judge(kRayVersion, policy);
  Ground ground{o, policy, {}, false};
  if (o.cluster.pods.seen()) {
    ground.pods = SelectRayPods(o);
  }
  const auto* clusters = o.cluster.ray_clusters.get();
  const std::size_t groups = ground.pods.groups.size();
  ground.one_cluster =
      groups == 1 || (groups == 0 && (clusters == nullptr || clusters->size() < 2));
  JudgeSpec(ground, judge);
  if (o.ray.pod_versions.seen() && ground.pods.count > 0) {
    JudgeReports(ground, judge);
  } else {
    NoReports(ground, judge);
  }
  if (policy.ray.python.empty()) {
    judge.NotApplicable(kPython.id, {"cluster", "Ray pods"}, "no Python demanded by policy");
  }
  JudgeAlive(ground, judge);
  return judge.Take();
}

}  // namespace

constinit const Check kRayVersion{
    "ray-version",
    Stage::kImage,
    false,
    "one Ray and one Python run, and they are the expected ones",
    "spec.rayVersion, the image's label framework_version, ray_version of /api/version (not "
    "`version`, which is the Jobs API's), Ray and Python inside each pod, and Ray's alive nodes",
    kRules,
    JudgeRayVersion,
};

}  // namespace dlc
