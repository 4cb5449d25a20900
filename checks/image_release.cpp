#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checks/accepted_digests.h"
#include "checks/check.h"
#include "checks/ray_pods.h"
#include "checks/running_images.h"
#include "checks/wording.h"

namespace dlc {

extern const Check kImageRelease;  // the table in check_list.cpp finds it by this name

namespace {

constexpr Rule kLabels{
    "image-release/labels-match-policy",
    Severity::kRequired,
    false,
    "the image carries the labels that the policy demands",
    "the config of the served image has these label values",
    "that the pods run this image (image-digest says so), or that a label tells the truth about "
    "what is installed",
    "compare the reference with the release that the policy describes: `skopeo inspect` shows the "
    "labels"};
constexpr Rule kKind{
    "image-release/is-ray-training-image",
    Severity::kRequired,
    false,
    "the image is the Ray training image, not Ray Serve or another",
    "the served image says of itself that it is a Ray image of the wanted container type",
    "that its contents are those of a published release",
    "the repository also holds serve-ml-* images: use a train-ml-* tag or its digest"};
constexpr Rule kKnown{
    "image-release/running-release-known",
    Severity::kWarn,
    false,
    "what runs is a release that the policy lists",
    "the running digest is that of a release in image.releases of the policy",
    "that the release is the wanted one (image-digest), or that the policy describes it rightly",
    "add the digest and contents of this release to image.releases, or find out who built it"};
constexpr Rule kProblems{
    "image-release/known-problems",
    Severity::kWarn,
    false,
    "the release that runs has no known problem",
    "the policy lists no problem of this release",
    "that the release has no problem that the policy's author did not know",
    "move to a release without the problem, or confirm that this job does not meet it"};
constexpr Rule kEfa{
    "image-release/efa-installer",
    Severity::kRequired,
    false,
    "every pod holds the EFA installer version that the policy demands",
    "/opt/amazon/efa_installed_packages in the pod names this version",
    "that EFA works, or that the libraries loaded at run time come from there",
    "releases with the same Ray differ in EFA: pin the image by digest and let KubeRay create the "
    "pod again"};

constexpr Rule kRules[] = {kLabels, kKind, kKnown, kProblems, kEfa};

AssertedValue ValueOf(const std::map<std::string, std::string>& values, const std::string& key) {
  const auto it = values.find(key);
  return it == values.end() ? AssertedValue{} : AssertedValue{it->second};
}

// --- what the image says of itself

Subject ImageSubject(const Observations& o) {
  const ServedImage* image = o.served_image.get();
  return {"image", image == nullptr ? "reference under test" : image->reference};
}

/// nullptr after a finding that says why there is no config.
const ImageConfig* SeenConfig(const Observations& o, const Rule& rule, Judge& judge) {
  if (!o.served_image.seen()) {
    judge.Unseen(rule.id, ImageSubject(o), "the image that the registry serves", o.served_image);
    return nullptr;
  }
  const auto& config = o.served_image.value().config;
  if (!config.seen()) {
    judge.Unseen(rule.id, ImageSubject(o), "the image's config", config);
  }
  return config.get();
}

void JudgeLabels(const Observations& o, const Policy& policy, Judge& judge) {
  if (policy.image.labels.empty()) {
    judge.NotApplicable(kLabels.id, ImageSubject(o), "no label demanded by policy");
    return;
  }
  const ImageConfig* config = SeenConfig(o, kLabels, judge);
  if (config == nullptr) {
    return;
  }
  std::vector<Assertion> assertions;
  for (const auto& [label, value] : policy.image.labels) {
    assertions.push_back({"label " + label, Op::kEq, value, ValueOf(config->labels, label), "",
                          "policy:image.labels." + label});
  }
  judge.Decide(kLabels.id, ImageSubject(o), std::move(assertions));
}

void JudgeKind(const Observations& o, const Policy& policy, Judge& judge) {
  const ImageConfig* config = SeenConfig(o, kKind, judge);
  if (config == nullptr) {
    return;
  }
  const AssertedValue type = ValueOf(config->env, "DLC_CONTAINER_TYPE");
  const std::string metric = "env DLC_CONTAINER_TYPE";
  std::vector<Assertion> assertions = {{"label framework", Op::kEq, std::string("ray"),
                                        ValueOf(config->labels, "framework"), "", "constant"}};
  if (!policy.image.container_type.empty()) {
    assertions.push_back(
        {metric, Op::kEq, policy.image.container_type, type, "", "policy:image.container_type"});
  } else if (type != AssertedValue{}) {
    // Without a demand the one thing that is certainly wrong is the Serve image.
    assertions.push_back({metric, Op::kNe, std::string("inference"), type, "", "constant"});
  }
  Finding& finding = judge.Decide(kKind.id, ImageSubject(o), std::move(assertions));
  if (type == AssertedValue{std::string("inference")}) {
    finding.notes.emplace_back("DLC_CONTAINER_TYPE=inference is the Ray Serve image");
  }
}

// --- releases

std::string ContentsText(const KnownRelease& release) {
  std::string text;
  for (const auto& [part, version] : release.contents) {
    text.append(text.empty() ? "" : ", ").append(part).append(" ").append(version);
  }
  return text;
}

void UnknownContent(const Observations& o, const Subject& subject, const RunningContent& content,
                    const DigestDemand& demand, const std::vector<std::string>& names,
                    Judge& judge) {
  const bool of_served =
      demand.Served() != nullptr && !demand.Served()->FormOf(content.image.digest).empty();
  const std::string pods = Count(content.pods.size(), "pod") + ": " + NameSome(content.pods);
  if (of_served) {
    // All digests of the served image are known, and no release has one of them.
    judge
        .Decide(kKnown.id, subject,
                {{"release", Op::kIn, names, std::monostate{}, "", "policy:image.releases"}})
        .notes.push_back("runs on " + pods);
    judge.Unknown(kProblems.id, subject,
                  {"unavailable", "the release is not one that the policy lists", ""});
    return;
  }
  for (const Rule* rule : {&kKnown, &kProblems}) {
    Finding& finding =
        o.served_image.seen()
            ? judge.Unknown(rule->id, subject,
                            {"unavailable",
                             "neither the digest of a listed release nor part of the image that "
                             "the registry serves",
                             ""})
            : judge.Unseen(rule->id, subject, "the image that the registry serves", o.served_image);
    finding.notes.push_back("runs on " + pods);
  }
}

void JudgeContent(const Observations& o, const Policy& policy, const RunningContent& content,
                  const DigestDemand& demand, Judge& judge) {
  std::vector<std::string> names;
  for (const KnownRelease& release : policy.image.releases) {
    names.push_back(release.name);
  }
  const Subject subject{"image", content.image.digest.ToString()};
  const KnownRelease* release = ReleaseOf(content.image.digest, demand, policy);
  if (release == nullptr) {
    UnknownContent(o, subject, content, demand, names, judge);
    return;
  }
  Finding& known =
      judge.Decide(kKnown.id, subject,
                   {{"release", Op::kIn, names, release->name, "", "policy:image.releases"}});
  known.notes.push_back("release " + release->name + " runs on " +
                        Count(content.pods.size(), "pod") + ": " + NameSome(content.pods));
  if (const std::string contents = ContentsText(*release); !contents.empty()) {
    known.notes.push_back("release " + release->name + " by the policy: " + contents);
  }
  const auto& problems = release->known_problems;
  Finding& finding =
      judge.Decide(kProblems.id, subject,
                   {{"known problems of release " + release->name, Op::kAbsent, std::monostate{},
                     problems.empty() ? AssertedValue{} : AssertedValue{problems}, "",
                     "policy:image.releases"}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = "release " + release->name + ": " + finding.actual;
  }
}

void JudgeReleases(const Observations& o, const Policy& policy, Judge& judge) {
  const Subject all{"cluster", "Ray pods"};
  if (policy.image.releases.empty()) {
    for (const Rule* rule : {&kKnown, &kProblems}) {
      judge.NotApplicable(rule->id, all, "the policy lists no releases");
    }
    return;
  }
  if (!o.cluster.pods.seen()) {
    for (const Rule* rule : {&kKnown, &kProblems}) {
      judge.Unseen(rule->id, all, "the pods", o.cluster.pods);
    }
    return;
  }
  const RayPods pods = SelectRayPods(o);
  const DigestDemand demand(o, policy);
  std::vector<const Pod*> every;
  for (const RayPodGroup& group : pods.groups) {
    every.insert(every.end(), group.pods.begin(), group.pods.end());
  }
  const auto running = GroupByContent(every, demand, PodSubjects(pods));
  for (const RunningContent& content : running.contents) {
    JudgeContent(o, policy, content, demand, judge);
  }
  if (running.contents.empty() || !running.without_digest.empty()) {
    const std::string what = every.empty()
                                 ? "no Ray pod was found"
                                 : "no imageID of " + Count(running.without_digest.size(), "pod") +
                                       ": " + NameSome(running.without_digest);
    for (const Rule* rule : {&kKnown, &kProblems}) {
      judge.Unknown(rule->id, all, {"not-found", what, ""}).notes = pods.left_out;
    }
  }
}

// --- EFA inside the pods

void JudgeEfaOf(const Policy& policy, const std::string& pod, const PodVersions* versions,
                Judge& judge) {
  const Subject subject{"pod", pod};
  if (versions == nullptr || versions->efa_installer.empty()) {
    judge.Unknown(kEfa.id, subject,
                  {"not-found",
                   versions == nullptr ? "the pod's versions were not read"
                                       : "the pod did not report an EFA installer version",
                   ""});
    return;
  }
  judge.Decide(kEfa.id, subject,
               {{"EFA installer", Op::kEq, policy.image.efa_installer, versions->efa_installer, "",
                 "policy:image.efa_installer"}});
}

void JudgeEfa(const Observations& o, const Policy& policy, Judge& judge) {
  const Subject all{"cluster", "Ray pods"};
  if (policy.image.efa_installer.empty()) {
    judge.NotApplicable(kEfa.id, all, "no EFA installer version demanded by policy");
    return;
  }
  if (!o.ray.pod_versions.seen()) {
    judge.Unseen(kEfa.id, all, "the versions inside the pods", o.ray.pod_versions);
    return;
  }
  if (!o.cluster.pods.seen()) {
    judge.Unseen(kEfa.id, all, "the pods", o.cluster.pods);
    return;
  }
  std::map<std::string, const PodVersions*> by_pod;
  for (const PodVersions& versions : o.ray.pod_versions.value()) {
    by_pod.emplace(versions.pod, &versions);
  }
  const RayPods pods = SelectRayPods(o);
  const PodSubjects subjects(pods);
  for (const RayPodGroup& group : pods.groups) {
    for (const Pod* pod : group.pods) {
      const auto it = by_pod.find(pod->name);
      JudgeEfaOf(policy, subjects.NameOf(*pod), it == by_pod.end() ? nullptr : it->second, judge);
    }
  }
  if (pods.count == 0) {
    judge.Unknown(kEfa.id, all, {"not-found", "no Ray pod was found", ""}).notes = pods.left_out;
  }
}

std::vector<Finding> JudgeImageRelease(const Observations& o, const Policy& policy) {
  Judge judge(kImageRelease, policy);
  JudgeLabels(o, policy, judge);
  JudgeKind(o, policy, judge);
  JudgeReleases(o, policy, judge);
  JudgeEfa(o, policy, judge);
  return judge.Take();
}

}  // namespace

constinit const Check kImageRelease{
    "image-release",
    Stage::kImage,
    false,
    "the image is the release that the policy describes",
    "labels and DLC_CONTAINER_TYPE of the served image, the release that each running digest "
    "belongs to, and the EFA installer inside each pod; releases of this image share their Ray "
    "version, so that a version match proves no digest",
    kRules,
    JudgeImageRelease,
};

}  // namespace dlc
