#include "tests/evidence/sample_report.h"

#include <cstdlib>
#include <sstream>

#include "reports/evidence/public_key.h"

namespace dlc::sample {
namespace {

struct Demands {
  std::vector<Digest> digests;
  int workers = -1;
};

Result<Demands> Read(const std::string& text) {
  Demands demands;
  std::istringstream lines(text);
  std::string key;
  std::string value;
  while (lines >> key >> value) {
    if (key == "digest:") {
      auto digest = Digest::Parse(value);
      if (!digest) {
        return digest.error();
      }
      demands.digests.push_back(*digest);
    } else if (key == "workers:") {
      demands.workers = std::atoi(value.c_str());
    } else {
      return Error{ErrorCode::kInvalidInput, "unknown key '" + key + "'", ""};
    }
  }
  return demands;
}

Finding Start(const std::string& check, const std::string& rule, Subject subject) {
  Finding finding;
  finding.check = check;
  finding.rule = check + "/" + rule;
  finding.subject = std::move(subject);
  finding.does_not_establish = {"anything beyond this sample"};
  finding.hint = "look at the sample";
  return finding;
}

Finding Decide(Finding finding, Assertion assertion) {
  const bool holds = Holds(assertion);
  finding.expected = AssertedValueText(assertion.limit);
  finding.actual = AssertedValueText(assertion.observed);
  finding.verdict = holds ? Verdict::kPass : Verdict::kFail;
  if (holds) {
    finding.establishes = {assertion.metric + " is as demanded"};
    finding.hint.clear();
  } else {
    finding.reason = {"threshold-not-met", "not as demanded", ""};
  }
  finding.assertions = {std::move(assertion)};
  return finding;
}

Finding JudgeImage(const Observations& observations, const Demands& demands) {
  Finding finding = Start("sample-image", "digest", {"image", "registry.example/train"});
  const ServedImage* image = observations.served_image.get();
  if (image == nullptr) {
    finding.severity = Severity::kWarn;
    finding.reason = {"not-looked-at", "no registry was asked", ""};
    return finding;
  }
  std::vector<std::string> limit;
  for (const Digest& digest : demands.digests) {
    limit.push_back(digest.ToString());
  }
  return Decide(std::move(finding), {"served digest", Op::kIn, limit, image->digest.ToString(), "",
                                     "policy:image.digest"});
}

}  // namespace

Observations Seen(const std::string& index_hex) {
  Observations all;
  all.run.id = "0123456789abcdef";
  all.run.mode = "live";
  all.run.started_at = "2026-03-01T12:00:00Z";
  all.run.finished_at = kFinishedAt;
  all.run.tool_version = kToolVersion;
  all.run.tool_commit = "0123456789abcdef0123456789abcdef01234567";
  all.run.tool_digest = DigestOfBytes("tool");
  all.run.invocation = {"dlc-check", "image", "--policy", "policy.yaml"};
  all.run.stages = {Stage::kImage};
  all.run.workload = {"qwen2-tiny", 8, 1, 2, 4};
  ServedImage image;
  image.reference = "registry.example/ray-train:v1.1";
  image.source = "registry";
  image.digest = Digest{index_hex};
  image.media_type = "application/vnd.oci.image.index.v1+json";
  image.size_bytes = 1234;
  image.is_index = true;
  IndexMember attestation;
  attestation.digest = DigestOfBytes("attestation");
  attestation.os = "unknown";
  attestation.architecture = "unknown";
  IndexMember amd64;
  amd64.digest = Digest{kManifestHex};
  amd64.os = "linux";
  amd64.architecture = "amd64";
  amd64.runnable = true;
  image.members = {attestation, amd64};
  ImageConfig config;
  config.digest = DigestOfBytes("config");
  image.config = config;
  all.served_image = image;
  RayNode node;
  node.node_id = "n1";
  node.resources = {{"CPU", 7.5}, {"GPU", 4.0}, {"memory", 1e11}};
  all.ray.nodes = std::vector<RayNode>{node};
  all.cluster.pods = Error{ErrorCode::kPermissionDenied, "pods is forbidden", "grant list pods"};
  return all;
}

std::string PolicyDemanding(const std::string& hex, int workers) {
  return "digest: sha256:" + hex + "\nworkers: " + std::to_string(workers) + "\n";
}

Result<Rejudged> Judge(const Observations& observations, const PolicySource& policy) {
  const auto demands = Read(policy.text);
  if (!demands) {
    return demands.error();
  }
  Rejudged judged;
  judged.policy_digests = demands->digests;
  judged.findings.push_back(JudgeImage(observations, *demands));
  judged.findings.push_back(
      Decide(Start("sample-workers", "count", {"run", observations.run.id}),
             {"workers", Op::kGe, std::int64_t{demands->workers},
              std::int64_t{observations.run.workload.workers}, "worker", "policy:workers"}));
  if (observations.cluster.pods.failed()) {
    Finding finding = Start("sample-pods", "listed", {"cluster", "train"});
    finding.severity = Severity::kWarn;
    finding.reason = {"permission-denied", observations.cluster.pods.error().message, ""};
    judged.findings.push_back(finding);
  }
  Finding skipped = Start("sample-efa", "devices", {"pod", "train/worker-\xC3\xA4"});
  skipped.verdict = Verdict::kNotApplicable;
  skipped.reason = {"not-applicable", "this instance type has no EFA", ""};
  judged.findings.push_back(skipped);
  return judged;
}

Report ReportOf(const Observations& observations, const std::string& policy_text) {
  Report report;
  report.observations = observations;
  report.policy_source = {"file", "policy.yaml", policy_text};
  report.observations.run.inputs = {{"policy", "policy.yaml", DigestOfBytes(policy_text),
                                     static_cast<std::int64_t>(policy_text.size())}};
  report.findings = Judge(report.observations, report.policy_source)->findings;
  report.outcome = Aggregate(report.findings, observations.run.interrupted);
  return report;
}

std::vector<Digest> PolicyDigests(const Report& report) {
  return Judge(report.observations, report.policy_source)->policy_digests;
}

std::chrono::system_clock::time_point After(std::chrono::seconds span) {
  using std::chrono::sys_days;
  using namespace std::chrono_literals;
  return sys_days(std::chrono::year(2026) / 3 / 1) + 12h + 4min + span;
}

}  // namespace dlc::sample
