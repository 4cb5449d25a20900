#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checks/accepted_digests.h"
#include "checks/check.h"
#include "checks/container_start.h"
#include "checks/image_placement.h"
#include "checks/ray_pods.h"
#include "checks/running_images.h"
#include "checks/wording.h"

namespace dlc {

extern const Check kImageDigest;  // the table in check_list.cpp finds it by this name

namespace {

using List = std::vector<std::string>;

constexpr Rule kServed{
    "image-digest/policy-digest-served",
    Severity::kRequired,
    false,
    "the registry serves for the reference what the policy pins",
    "at the time of the run the registry served, for this reference, the image that a digest of "
    "the policy names",
    "that any pod runs it; that a tag will still lead there at the next pull",
    "if the tag moved on purpose, review the new release and put its digest into image.digests of "
    "the policy; otherwise pull by the pinned digest. Of a mirror that holds one platform of a "
    "pinned index, pin that manifest's digest as well"};
constexpr Rule kPodRuns{
    "image-digest/pod-runs-accepted-digest",
    Severity::kRequired,
    true,
    "every Ray container runs an accepted digest",
    "the container runtime resolved this pod's image to a digest that names the accepted image",
    "that files inside the running container are unchanged, or that the node unpacked the build "
    "for its own architecture",
    "pin the image by digest in the RayCluster, delete the pod so that it is created again, and "
    "look at .status.containerStatuses[].imageID"};
constexpr Rule kOneDigest{
    "image-digest/one-digest-per-cluster",
    Severity::kRequired,
    true,
    "all head and worker pods of a RayCluster run the same image",
    "the digests of all head and worker pods name one image",
    "that it is the image that the policy wants",
    "pin the image by digest in the RayCluster and let KubeRay create the pods again: a node that "
    "already holds a tag keeps its old content under imagePullPolicy IfNotPresent"};
constexpr Rule kStarted{
    "image-digest/image-started",
    Severity::kRequired,
    true,
    "every Ray container was created from its image",
    "kubelet reported an imageID for the Ray container of every pod that was seen, and no failure "
    "to pull or create it",
    "that the processes in the containers are healthy",
    "kubectl describe pod shows the events; the reason and message of kubelet are quoted here"};
constexpr Rule kRules[] = {kServed,          kPodRuns,        kOneDigest,       kStarted,
                           kReferencePinned, kPullPolicyRule, kNodeArchitecture};

List Texts(const std::vector<Digest>& digests) {
  List texts;
  for (const Digest& digest : digests) {
    texts.push_back(digest.ToString());
  }
  return texts;
}

/// The check's inputs, read once.
struct Ground {
  const Observations& o;
  const Policy& policy;
  DigestDemand demand;
  std::optional<RayPods> pods;  // nullopt: the pods were not seen
};

// --- the registry's answer

void JudgeServed(const Ground& g, Judge& judge) {
  const ServedImage* image = g.o.served_image.get();
  const Subject subject{"image", image == nullptr ? "reference under test" : image->reference};
  const auto& digests = g.policy.image.digests;
  if (digests.empty()) {
    Finding& finding = judge.NotApplicable(kServed.id, subject, "no digest demanded by policy");
    if (image != nullptr) {
      finding.notes.push_back("the registry serves " + image->digest.ToString());
    }
    return;
  }
  if (image == nullptr) {
    judge.Unseen(kServed.id, subject, kServedName, g.o.served_image);
    return;
  }
  const ServedDigests& served = *g.demand.Served();
  // The digest that shows agreement: one of the policy's, else the root, which then does not.
  const auto match = std::find_if(digests.begin(), digests.end(), [&](const Digest& digest) {
    return !served.FormOf(digest).empty();
  });
  const Digest shown = match == digests.end() ? image->digest : *match;
  std::vector<Assertion> assertions = {{"digest served by the registry", Op::kIn, Texts(digests),
                                        shown.ToString(), "", "policy:image.digests"}};
  if (!served.Platforms().empty()) {
    assertions.push_back({"platform", Op::kIn, served.Platforms(),
                          PlatformWithoutVariant(g.policy.image.platform), "",
                          "observation:servedImage"});
  }
  if (const auto reference = ImageReference::Parse(image->reference);
      reference && !reference->digest.empty()) {
    assertions.push_back({"digest in the reference", Op::kIn, served.Texts(),
                          reference->digest.ToString(), "", "observation:servedImage"});
  }
  if (!image->header_digest.empty()) {
    assertions.push_back({"Docker-Content-Digest of the answer", Op::kEq, image->digest.ToString(),
                          image->header_digest, "", "observation:servedImage"});
  }
  Finding& finding = judge.Decide(kServed.id, subject, std::move(assertions));
  if (match != digests.end()) {
    finding.notes.push_back("the policy pins " + served.FormOf(*match));
  }
  for (const Digest& digest : digests) {
    if (const std::string refusal = served.RefusalOf(digest); !refusal.empty()) {
      finding.notes.push_back("the policy pins " + ShortDigest(digest) + ": " + refusal);
    }
  }
}

// --- one pod

/// One container of a pod whose imageID is judged.
struct Judged {
  const ContainerStatus* status;
  RunningImage image;
  DigestDemand::Answer answer;
};

/// The Ray container and the init containers that use its image (KubeRay's wait-gcs-ready).
std::vector<Judged> JudgedContainers(const Ground& g, const Pod& pod, std::string& unseen_init) {
  std::vector<Judged> judged;
  const auto add = [&](const ContainerStatus* status) {
    RunningImage image = ParseImageId(status->image_id);
    auto answer = g.demand.Judge(image);
    judged.push_back({status, std::move(image), std::move(answer)});
  };
  add(RayStatus(pod));
  for (const ContainerSpec& init : pod.spec.init_containers) {
    if (init.name != "wait-gcs-ready" && init.image != RayContainer(pod)->image) {
      continue;
    }
    const ContainerStatus* status = FindStatus(pod.init_statuses, init.name);
    if (status == nullptr || status->image_id.empty()) {
      unseen_init = init.name;
    } else {
      add(status);
    }
  }
  return judged;
}

void AddNotes(const Pod& pod, const std::vector<Judged>& judged, Finding& finding) {
  const auto reference = ImageReference::Parse(RayContainer(pod)->image);
  for (const Judged& one : judged) {
    const bool unresolved = one.answer.match == DigestDemand::Match::kUnresolved;
    finding.notes.push_back(one.status->name + ": " + ShortDigest(one.image.digest) +
                            (unresolved ? ": " : " is ") + one.answer.text);
    if (!one.image.repository.empty() && reference && one.image.repository != reference->Name()) {
      finding.notes.push_back(one.status->name + ": the node knows this content as " +
                              one.image.repository + "; the pod asks for " + reference->Name());
    }
  }
}

Finding& UnknownPod(const Ground& g, const Subject& subject, const std::vector<Judged>& judged,
                    Judge& judge) {
  if (!g.o.served_image.seen()) {
    return judge.Unseen(kPodRuns.id, subject, kServedName, g.o.served_image);
  }
  const auto it = std::find_if(judged.begin(), judged.end(), [](const Judged& one) {
    return one.answer.match == DigestDemand::Match::kUnresolved;
  });
  return judge.Unknown(
      kPodRuns.id, subject,
      {"unavailable",
       it->status->name + " runs " + it->image.digest.ToString() + ": " + it->answer.text, ""});
}

std::string RejectionText(const Ground& g, const std::vector<Judged>& judged) {
  std::string text;
  for (const Judged& one : judged) {
    if (one.answer.match == DigestDemand::Match::kRejected) {
      text.append(text.empty() ? "" : "; ").append(one.status->name).append(" runs ");
      text.append(one.image.digest.ToString());
      text.append(ReleaseRemark(ReleaseOf(one.image.digest, g.demand, g.policy)));
      text.append(", which is ").append(one.answer.text);
    }
  }
  return text;
}

void JudgeStartedPod(const Ground& g, const Pod& pod, const Subject& subject, Judge& judge) {
  std::string unseen_init;
  const auto judged = JudgedContainers(g, pod, unseen_init);
  const auto any = [&](DigestDemand::Match match) {
    return std::any_of(judged.begin(), judged.end(),
                       [&](const Judged& one) { return one.answer.match == match; });
  };
  if (any(DigestDemand::Match::kUnresolved) && !any(DigestDemand::Match::kRejected)) {
    AddNotes(pod, judged, UnknownPod(g, subject, judged, judge));
    return;
  }
  std::vector<Assertion> assertions;
  for (const Judged& one : judged) {
    if (one.answer.match != DigestDemand::Match::kUnresolved) {
      assertions.push_back({"imageID of " + one.status->name, Op::kIn, g.demand.Accepted(),
                            one.image.digest.ToString(), "", g.demand.Source()});
    }
  }
  Finding& finding = judge.Decide(kPodRuns.id, subject, std::move(assertions));
  AddNotes(pod, judged, finding);
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = RejectionText(g, judged);
  }
  if (!unseen_init.empty()) {
    finding.notes.push_back("the imageID of init container " + unseen_init + " was not seen");
  }
}

/// Without an imageID that reads, nothing can be said of what runs.
void JudgePod(const Ground& g, const Pod& pod, const Subject& subject, const ContainerStart& start,
              Judge& judge) {
  const ContainerStatus* status = RayStatus(pod);
  const bool readable = status != nullptr && DigestOfImageId(status->image_id).has_value();
  if (readable) {
    JudgeStartedPod(g, pod, subject, judge);
    return;
  }
  if (start.state == ContainerStart::State::kFailed) {
    judge.Unknown(kPodRuns.id, subject,
                  {"prerequisite-failed", start.container + " did not start: " + start.reason,
                   std::string(kStarted.id) + " pod " + subject.name});
    return;
  }
  const std::string what = status != nullptr && !status->image_id.empty()
                               ? "imageID '" + status->image_id + "' holds no sha256 digest"
                               : start.container + " has no imageID yet: " + start.reason;
  judge.Unknown(kPodRuns.id, subject, {"unavailable", what, ""});
}

// --- one RayCluster

void DecideCluster(const Ground& g, const Subject& subject,
                   const std::vector<RunningContent>& contents, std::size_t images, Judge& judge) {
  Finding& finding =
      judge.Decide(kOneDigest.id, subject,
                   {{"different images of the pods", Op::kEq, std::int64_t{1},
                     static_cast<std::int64_t>(images), "", "observation:cluster.pods"}});
  if (finding.verdict != Verdict::kFail) {
    finding.notes.push_back(ContentText(contents.front(), g.demand, g.policy));
    return;
  }
  std::string list;
  for (const RunningContent& content : contents) {
    list += (list.empty() ? "" : "; ") + ContentText(content, g.demand, g.policy);
  }
  finding.actual =
      (images < contents.size() ? "at least " : "") + std::to_string(images) + ": " + list;
  finding.reason.message = "the pods run different images: " + list;
  const KnownRelease* first = ReleaseOf(contents[0].image.digest, g.demand, g.policy);
  const KnownRelease* second = ReleaseOf(contents[1].image.digest, g.demand, g.policy);
  if (first != nullptr && second != nullptr) {
    if (std::string text = CompareReleases(*first, *second); !text.empty()) {
      finding.notes.push_back(std::move(text));
    }
  }
}

/// Why the pods seen are not all that the RayCluster has; "" when they are.
std::string MissingPods(const RayPodGroup& group, const List& without_digest) {
  const auto seen = static_cast<std::int64_t>(group.pods.size());
  if (!without_digest.empty()) {
    return "no imageID of " + Count(without_digest.size(), "pod") + ": " + NameSome(without_digest);
  }
  if (group.cluster != nullptr && seen < AskedPods(*group.cluster)) {
    return "the RayCluster asks for " + std::to_string(AskedPods(*group.cluster)) + " pods and " +
           std::to_string(seen) + " were seen";
  }
  return {};
}

void JudgeCluster(const Ground& g, const RayPodGroup& group, const PodSubjects& subjects,
                  Judge& judge) {
  const Subject subject{"cluster", group.name};
  if (group.pods.empty()) {
    if (group.cluster != nullptr && group.cluster->suspended) {
      judge.NotApplicable(kOneDigest.id, subject, "the RayCluster is suspended: it has no pods");
    } else {
      judge.Unknown(kOneDigest.id, subject, {"not-found", "no pod of the RayCluster was seen", ""});
    }
    return;
  }
  const auto [contents, without_digest] = GroupByContent(group.pods, g.demand, subjects);
  const std::string missing = MissingPods(group, without_digest);
  const std::size_t images = ShownImages(contents, g.demand, g.policy);
  if (contents.size() > 1 && images == 1) {
    Finding& finding = judge.Unknown(
        kOneDigest.id, subject,
        {"unavailable",
         "the pods report " + Count(contents.size(), "digest") +
             ", and one may be a member of the other: the registry's answer that would tell was "
             "not seen, or is of another image",
         ""});
    for (const RunningContent& content : contents) {
      finding.notes.push_back(ContentText(content, g.demand, g.policy));
    }
  } else if (contents.size() > 1 || missing.empty()) {
    DecideCluster(g, subject, contents, images, judge);
  } else {
    judge.Unknown(kOneDigest.id, subject, {"unavailable", missing, ""});
  }
}

// --- start of containers

void FailedStart(const ContainerStart& start, const Subject& subject, Judge& judge) {
  Finding& finding = judge.Decide(kStarted.id, subject,
                                  {{"obstacle of " + start.container, Op::kAbsent, std::monostate{},
                                    start.reason, "", "observation:cluster.pods"}});
  if (finding.verdict != Verdict::kFail) {
    return;
  }
  const std::string cause = start.cause.empty() ? "" : " (cause: " + start.cause + ")";
  finding.actual = start.reason + cause + (start.message.empty() ? "" : ": " + start.message);
  finding.reason.message = start.container + ": " + finding.actual;
  if (const std::string hint = StartHint(start.cause); !hint.empty()) {
    finding.hint = hint;
  }
}

void JudgePods(const Ground& g, const RayPods& pods, Judge& judge) {
  const PodSubjects subjects(pods);
  for (const RayPodGroup& group : pods.groups) {
    std::int64_t started = 0;
    for (const Pod* pod : group.pods) {
      const Subject subject = subjects.Of(*pod);
      const ContainerStart start = ClassifyStart(*pod);
      JudgePod(g, *pod, subject, start, judge);
      if (start.state == ContainerStart::State::kFailed) {
        FailedStart(start, subject, judge);
      } else if (start.state == ContainerStart::State::kPending) {
        judge.Unknown(kStarted.id, subject,
                      {"unavailable", start.container + " has not started: " + start.reason, ""});
      } else {
        ++started;
      }
    }
    // One finding for a group that is well; else one for each pod that is not.
    const auto all = static_cast<std::int64_t>(group.pods.size());
    if (started == all && all > 0) {
      judge.Decide(kStarted.id, {"cluster", group.name},
                   {{"pods whose Ray container was created", Op::kEq, all, started, "",
                     "observation:cluster.pods"}});
    }
    JudgeCluster(g, group, subjects, judge);
  }
}

void NoPods(const Ground& g, Judge& judge) {
  const Subject subject{"cluster", "Ray pods"};
  for (const Rule* rule : {&kPodRuns, &kOneDigest, &kStarted}) {
    if (!g.pods) {
      judge.Unseen(rule->id, subject, "the pods", g.o.cluster.pods);
      continue;
    }
    Finding& finding = judge.Unknown(rule->id, subject, {"not-found", "no Ray pod was found", ""});
    finding.notes = g.pods->left_out;
  }
}

std::vector<Finding> JudgeImageDigest(const Observations& o, const Policy& policy) {
  Judge judge(kImageDigest, policy);
  Ground ground{o, policy, DigestDemand(o, policy), std::nullopt};
  if (o.cluster.pods.seen()) {
    ground.pods = SelectRayPods(o);
  }
  JudgeServed(ground, judge);
  if (ground.pods && ground.pods->count > 0) {
    JudgePods(ground, *ground.pods, judge);
  } else {
    NoPods(ground, judge);
  }
  const RayPods* pods = ground.pods ? &*ground.pods : nullptr;
  JudgeReferences(o, pods, judge);
  JudgeArchitecture(o, policy, pods, ground.demand, judge);
  return judge.Take();
}

}  // namespace

constinit const Check kImageDigest{
    "image-digest",
    Stage::kImage,
    false,
    "the pods run the image that the policy pins",
    "digests of the policy, of what the registry serves for the reference, and of every Ray "
    "container's imageID; pod by pod, as sets: an index, its member and its config name one image",
    kRules,
    JudgeImageDigest,
};

}  // namespace dlc
