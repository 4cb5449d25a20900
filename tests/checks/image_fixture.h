#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "checks/check.h"

/// Observations of a small cluster, and ways to find what a check said of it.
namespace dlc::fixture {

inline const char* const kRepository = "public.ecr.aws/deep-learning-containers/ray";

/// A digest of one repeated hex digit: Of('a').
inline Digest Of(char digit) {
  return Digest{std::string(64, digit)};
}

inline std::string RepoId(const Digest& digest) {
  return std::string(kRepository) + "@" + digest.ToString();
}

inline Pod MakePod(const std::string& name, const std::string& type, const std::string& image_id,
                   const std::string& tag = ":train-ml-cuda") {
  Pod pod;
  pod.name_space = "ray-train";
  pod.name = name;
  pod.node = "node-" + name;
  pod.phase = "Running";
  pod.pod_ip = "10.0.0." + name;
  pod.ray_cluster = "ray-train-cluster";
  pod.ray_node_type = type;
  ContainerSpec container;
  container.name = "ray-" + type;
  container.image = kRepository + tag;
  container.image_pull_policy = "Always";
  pod.spec.containers = {container};
  ContainerStatus status;
  status.name = container.name;
  status.image = container.image;
  status.image_id = image_id;
  status.state = "running";
  status.ready = true;
  pod.statuses = {status};
  return pod;
}

/// The index 'a' with members amd64 'b' (config 'c'), arm64 'd' (config 'e') and an attestation
/// 'f', which stands first.
inline ServedImage MakeIndex() {
  ServedImage image;
  image.reference = std::string(kRepository) + ":train-ml-cuda";
  image.source = "registry";
  image.digest = Of('a');
  image.is_index = true;
  IndexMember attestation{Of('f'), "", "unknown", "unknown", false, {}};
  IndexMember amd64{Of('b'), "", "linux", "amd64", true, Observed<Digest>(Of('c'))};
  IndexMember arm64{Of('d'), "", "linux", "arm64", true, Observed<Digest>(Of('e'))};
  image.members = {attestation, arm64, amd64};
  ImageConfig config;
  config.digest = Of('c');
  config.os = "linux";
  config.architecture = "amd64";
  config.labels = {{"framework", "ray"},
                   {"framework_version", "2.58.0"},
                   {"dlc_major_version", "1"},
                   {"dlc_minor_version", "1"}};
  config.env = {{"DLC_CONTAINER_TYPE", "training"}};
  image.config = config;
  return image;
}

inline std::vector<Finding> JudgeWith(const char* check, const Observations& o, const Policy& p) {
  return FindCheck(check)->judge(o, p);
}

inline std::vector<Finding> OfRule(const std::vector<Finding>& findings, const std::string& rule) {
  std::vector<Finding> some;
  std::copy_if(findings.begin(), findings.end(), std::back_inserter(some),
               [&](const Finding& finding) { return finding.rule == rule; });
  return some;
}

/// The only finding of the rule.
inline Finding Only(const std::vector<Finding>& findings, const std::string& rule) {
  CAPTURE(rule);
  const auto some = OfRule(findings, rule);
  REQUIRE(some.size() == 1);
  return some[0];
}

/// The rule's finding about this subject.
inline Finding About(const std::vector<Finding>& findings, const std::string& rule,
                     const std::string& subject) {
  CAPTURE(rule);
  CAPTURE(subject);
  auto some = OfRule(findings, rule);
  some.erase(std::remove_if(some.begin(), some.end(),
                            [&](const Finding& f) { return f.subject.name != subject; }),
             some.end());
  REQUIRE(some.size() == 1);
  return some[0];
}

inline bool Notes(const Finding& finding, const std::string& text) {
  return std::any_of(finding.notes.begin(), finding.notes.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

inline bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// What every finding owes its reader, whatever its verdict.
inline void CheckShape(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    CAPTURE(finding.rule);
    CAPTURE(finding.subject.name);
    CHECK_FALSE(finding.subject.name.empty());
    CHECK_FALSE(finding.does_not_establish.empty());
    const bool pass = finding.verdict == Verdict::kPass;
    const bool fail = finding.verdict == Verdict::kFail;
    CHECK(finding.reason.code.empty() == pass);
    CHECK(finding.assertions.empty() != (pass || fail));
    const bool holds = std::all_of(finding.assertions.begin(), finding.assertions.end(), Holds);
    CHECK(holds != fail);
    if (fail || finding.verdict == Verdict::kUnknown) {
      CHECK_FALSE(finding.hint.empty());
      CHECK_FALSE(finding.reason.message.empty());
    }
  }
}

}  // namespace dlc::fixture
