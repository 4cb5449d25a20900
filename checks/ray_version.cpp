#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checks/check.h"
#include "checks/pod_reports.h"
#include "checks/ray_membership.h"
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
constexpr Rule kRules[] = {kSpec, kOne, kExpected, kPython, kRayNodesAlive};

struct Ground {
  const Observations& o;
  const Policy& policy;
  RayPods pods;                     // empty when they were not seen
  std::vector<PodReports> reports;  // one for each group; empty when no versions were seen
  // The dashboard and its node list belong to one Ray cluster.
  bool one_cluster = false;
};

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

/// The unknown finding when something that has to agree was not seen, else nullptr.
Finding* IncompleteOne(const Ground& g, const Subject& subject, const PodReports& r, Judge& judge) {
  if (!r.ray_missing.empty()) {
    return &MissingReports(kOne, subject, "Ray's version", r.ray_missing, judge);
  }
  if (!r.python_missing.empty()) {
    return &MissingReports(kOne, subject, "Python's version", r.python_missing, judge);
  }
  if (const List pods = WithoutPatchLevel(r); !pods.empty()) {
    return &MissingReports(kOne, subject, "Python's patch level", pods, judge);
  }
  return DashboardRay(g).empty() ? &NoDashboard(g, kOne, subject, judge) : nullptr;
}

std::vector<Assertion> OneVersion(const Ground& g, const PodReports& r) {
  const std::string dashboard = DashboardRay(g);
  std::vector<Assertion> assertions = {
      {"Ray of the pods", Op::kSubset,
       List{dashboard.empty() ? CommonestVersion(r.ray) : dashboard}, Versions(r.ray), "",
       dashboard.empty() ? "observation:ray.podVersions" : "observation:ray.version"}};
  // A short version ("3.13") beside a long one is no difference that was shown.
  if (WithoutPatchLevel(r).empty()) {
    assertions.push_back({"Python of the pods", Op::kSubset, List{CommonestVersion(r.python)},
                          Versions(r.python), "", "observation:ray.podVersions"});
  }
  return assertions;
}

void JudgeOne(const Ground& g, const Subject& subject, const PodReports& r, Judge& judge) {
  auto assertions = OneVersion(g, r);
  const bool agree = std::all_of(assertions.begin(), assertions.end(), Holds);
  Finding* incomplete = agree ? IncompleteOne(g, subject, r, judge) : nullptr;
  Finding& finding =
      incomplete != nullptr ? *incomplete : judge.Decide(kOne.id, subject, std::move(assertions));
  AddVersionTable("Ray", r.ray, finding);
  AddVersionTable("Python", r.python, finding);
  if (const std::string dashboard = DashboardRay(g); !dashboard.empty()) {
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

void JudgeExpected(const Ground& g, const Subject& subject, const PodReports& r, Judge& judge) {
  const Expectation expected = ExpectedRay(g);
  if (expected.version.empty()) {
    NoExpectation(g, subject, judge);
    return;
  }
  const std::string dashboard = DashboardRay(g);
  std::vector<Assertion> assertions;
  if (!r.ray.empty()) {
    assertions.push_back({"Ray of the pods", Op::kSubset, List{expected.version}, Versions(r.ray),
                          "", expected.source});
  }
  if (!dashboard.empty()) {
    assertions.push_back(
        {"ray_version of /api/version", Op::kEq, expected.version, dashboard, "", expected.source});
  }
  const bool differs = !std::all_of(assertions.begin(), assertions.end(), Holds);
  if (differs || (r.ray_missing.empty() && !dashboard.empty())) {
    Finding& finding = judge.Decide(kExpected.id, subject, std::move(assertions));
    AddVersionTable("Ray", r.ray, finding);
    return;
  }
  Finding& finding = !r.ray_missing.empty()
                         ? MissingReports(kExpected, subject, "Ray's version", r.ray_missing, judge)
                         : NoDashboard(g, kExpected, subject, judge);
  AddVersionTable("Ray", r.ray, finding);
}

void JudgePython(const Ground& g, const Subject& subject, const PodReports& r, Judge& judge) {
  const std::string& wanted = g.policy.ray.python;
  std::set<std::string> cut;
  for (const auto& [version, pods] : r.python) {
    cut.insert(FirstParts(version, CountParts(wanted)));
  }
  const Assertion assertion{"Python of the pods",         Op::kSubset, List{wanted},
                            List(cut.begin(), cut.end()), "",          "policy:ray.python"};
  if (r.python_missing.empty() || !Holds(assertion)) {
    AddVersionTable("Python", r.python, judge.Decide(kPython.id, subject, {assertion}));
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
  for (std::size_t i = 0; i < g.pods.groups.size(); ++i) {
    const RayPodGroup& group = g.pods.groups[i];
    const Subject subject{"cluster", group.name};
    if (group.pods.empty()) {
      NoPodsOf(group, subject, judge);
      continue;
    }
    JudgeOne(g, subject, g.reports[i], judge);
    JudgeExpected(g, subject, g.reports[i], judge);
    if (!g.policy.ray.python.empty()) {
      JudgePython(g, subject, g.reports[i], judge);
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

/// The Ray that runs: the dashboard's, else what all pods agree on, else "".
std::string RunningRay(const Ground& g, const PodReports* reports) {
  std::string dashboard = DashboardRay(g);
  if (dashboard.empty() && reports != nullptr && reports->ray.size() == 1) {
    return reports->ray.begin()->first;
  }
  return dashboard;
}

void JudgeSpecOf(const Ground& g, const RayCluster& cluster, const PodReports* reports,
                 Judge& judge) {
  const Subject subject{"cluster", cluster.name};
  if (cluster.ray_version.empty()) {
    judge.NotApplicable(kSpec.id, subject,
                        "spec.rayVersion is not set: KubeRay then uses its oldest probes and "
                        "refuses token authentication");
    return;
  }
  const std::string running = RunningRay(g, reports);
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
  // The groups of the RayClusters that were seen stand first, in the same order.
  const auto& clusters = g.o.cluster.ray_clusters.value();
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    JudgeSpecOf(g, clusters[i], i < g.reports.size() ? &g.reports[i] : nullptr, judge);
  }
  if (clusters.empty()) {
    judge.Unknown(kSpec.id, all, {"not-found", "no RayCluster was found", ""});
  }
}

std::vector<Finding> JudgeRayVersion(const Observations& o, const Policy& policy) {
  Judge judge(kRayVersion, policy);
  Ground ground{o, policy, {}, {}, false};
  if (o.cluster.pods.seen()) {
    ground.pods = SelectRayPods(o);
  }
  if (o.ray.pod_versions.seen()) {
    ground.reports = CollectReports(ground.pods, o.ray.pod_versions.value());
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
  JudgeRayNodesAlive(o, ground.pods, ground.one_cluster, judge);
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
