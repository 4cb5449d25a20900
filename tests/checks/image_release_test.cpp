#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/checks/image_fixture.h"

namespace dlc {
namespace {

using namespace fixture;  // NOLINT(google-build-using-namespace): the test's own vocabulary

const std::string kLabels = "image-release/labels-match-policy";
const std::string kKind = "image-release/is-ray-training-image";
const std::string kKnown = "image-release/running-release-known";
const std::string kProblems = "image-release/known-problems";
const std::string kEfa = "image-release/efa-installer";

std::vector<Finding> Judged(const Observations& o, const Policy& p) {
  auto findings = JudgeWith("image-release", o, p);
  CheckShape(findings);
  return findings;
}

Policy FullPolicy() {
  Policy p;
  p.image.labels = {{"framework_version", "2.58.0"}, {"dlc_minor_version", "1"}};
  p.image.container_type = "training";
  p.image.efa_installer = "1.49.0";
  p.image.releases = {{"v1.0", Of('1'), {{"efa-installer", "1.47.0"}}, {"broadcast may hang"}},
                      {"v1.1", Of('a'), {{"efa-installer", "1.49.0"}}, {}}};
  return p;
}

Observations Healthy() {
  Observations o;
  o.served_image = MakeIndex();
  o.cluster.pods = std::vector<Pod>{MakePod("1", "head", RepoId(Of('a'))),
                                    MakePod("2", "worker", RepoId(Of('b')))};
  PodVersions versions;
  versions.pod = "1";
  versions.efa_installer = "1.49.0";
  PodVersions other = versions;
  other.pod = "2";
  o.ray.pod_versions = std::vector<PodVersions>{versions, other};
  return o;
}

TEST_CASE("image-release: labels, kind, release and EFA as the policy says pass") {
  const auto f = Judged(Healthy(), FullPolicy());
  for (const Finding& finding : f) {
    CAPTURE(finding.rule);
    CHECK(finding.verdict == Verdict::kPass);
  }
  // The worker's member counts as the index's release: one finding for both pods.
  CHECK(Notes(Only(f, kKnown), "release v1.1 runs on 2 pods"));
}

TEST_CASE("image-release: a label that differs or is absent fails") {
  Observations o = Healthy();
  o.served_image.value().config.value().labels["dlc_minor_version"] = "0";
  CHECK(Only(Judged(o, FullPolicy()), kLabels).verdict == Verdict::kFail);
  CHECK(Has(Only(Judged(o, FullPolicy()), kLabels).expected, "label dlc_minor_version 1"));
  o.served_image.value().config.value().labels.erase("dlc_minor_version");
  CHECK(Only(Judged(o, FullPolicy()), kLabels).verdict == Verdict::kFail);
}

TEST_CASE("image-release: image or config unseen is unknown, nothing demanded is not applicable") {
  Observations o = Healthy();
  o.served_image.value().config = Error{ErrorCode::kUnavailable, "blob not read", ""};
  for (const std::string& rule : {kLabels, kKind}) {
    CHECK(Only(Judged(o, FullPolicy()), rule).reason.code == "unavailable");
  }
  o.served_image = Observed<ServedImage>();
  for (const std::string& rule : {kLabels, kKind}) {
    CHECK(Only(Judged(o, FullPolicy()), rule).verdict == Verdict::kUnknown);
  }
  const auto f = Judged(Healthy(), {});
  for (const std::string& rule : {kLabels, kKnown, kProblems, kEfa}) {
    CHECK(Only(f, rule).verdict == Verdict::kNotApplicable);
  }
}

TEST_CASE("image-release: the Serve image and images of other frameworks fail") {
  Observations o = Healthy();
  ImageConfig& config = o.served_image.value().config.value();
  config.env["DLC_CONTAINER_TYPE"] = "inference";
  for (const Policy& p : {FullPolicy(), Policy()}) {
    const Finding finding = Only(Judged(o, p), kKind);
    CHECK(finding.verdict == Verdict::kFail);
    CHECK(Notes(finding, "Ray Serve image"));
  }
  config.env.clear();
  CHECK(Only(Judged(o, FullPolicy()), kKind).verdict == Verdict::kFail);
  CHECK(Only(Judged(o, {}), kKind).verdict == Verdict::kPass);
  config.labels["framework"] = "pytorch";
  CHECK(Only(Judged(o, {}), kKind).verdict == Verdict::kFail);
}

TEST_CASE("image-release: mixed digests name each release, and the older one's problem (HX-02)") {
  Observations o = Healthy();
  o.served_image = Observed<ServedImage>();
  o.cluster.pods.value()[1].statuses[0].image_id = RepoId(Of('1'));
  const auto f = Judged(o, FullPolicy());
  CHECK(Notes(About(f, kKnown, Of('1').ToString()), "release v1.0 runs on 1 pod: 2"));
  CHECK(Notes(About(f, kKnown, Of('1').ToString()), "efa-installer 1.47.0"));
  CHECK(Notes(About(f, kKnown, Of('a').ToString()), "release v1.1 runs on 1 pod: 1"));
  const Finding problem = About(f, kProblems, Of('1').ToString());
  CHECK(problem.verdict == Verdict::kFail);
  CHECK(problem.severity == Severity::kWarn);
  CHECK(Has(problem.actual, "broadcast may hang"));
  CHECK(About(f, kProblems, Of('a').ToString()).verdict == Verdict::kPass);
}

TEST_CASE("image-release: a served image that no release lists is a warning, a stranger unknown") {
  Policy p = FullPolicy();
  p.image.releases.pop_back();
  auto f = Judged(Healthy(), p);
  CHECK(Only(f, kKnown).verdict == Verdict::kFail);
  CHECK(Only(f, kKnown).severity == Severity::kWarn);
  CHECK(Only(f, kProblems).verdict == Verdict::kUnknown);
  Observations o = Healthy();
  o.served_image = Observed<ServedImage>();
  f = Judged(o, p);
  CHECK(OfRule(f, kKnown).size() == 2);
  CHECK(About(f, kKnown, Of('b').ToString()).verdict == Verdict::kUnknown);
}

TEST_CASE("image-release: pods unseen, absent or without imageID are unknown") {
  Observations o = Healthy();
  o.cluster.pods.value()[1].statuses[0].image_id = "";
  CHECK(About(Judged(o, FullPolicy()), kKnown, "Ray pods").verdict == Verdict::kUnknown);
  o.cluster.pods = std::vector<Pod>{};
  for (const std::string& rule : {kKnown, kProblems, kEfa}) {
    CHECK(Only(Judged(o, FullPolicy()), rule).verdict == Verdict::kUnknown);
  }
  o.cluster.pods = Error{ErrorCode::kTimedOut, "no answer", ""};
  for (const std::string& rule : {kKnown, kProblems, kEfa}) {
    CHECK(Only(Judged(o, FullPolicy()), rule).reason.code == "timeout");
  }
}

TEST_CASE("image-release: EFA is judged pod by pod") {
  Observations o = Healthy();
  o.ray.pod_versions.value()[1].efa_installer = "1.47.0";
  auto f = Judged(o, FullPolicy());
  CHECK(About(f, kEfa, "1").verdict == Verdict::kPass);
  CHECK(About(f, kEfa, "2").verdict == Verdict::kFail);
  o.ray.pod_versions.value()[1].efa_installer = "";
  CHECK(About(Judged(o, FullPolicy()), kEfa, "2").verdict == Verdict::kUnknown);
  o.ray.pod_versions.value().pop_back();
  CHECK(About(Judged(o, FullPolicy()), kEfa, "2").verdict == Verdict::kUnknown);
  o.ray.pod_versions = Observed<std::vector<PodVersions>>();
  CHECK(Only(Judged(o, FullPolicy()), kEfa).reason.code == "not-looked-at");
  o.ray.pod_versions = Error{ErrorCode::kUnavailable, "exec refused", ""};
  CHECK(Only(Judged(o, FullPolicy()), kEfa).reason.code == "unavailable");
}

}  // namespace
}  // namespace dlc
