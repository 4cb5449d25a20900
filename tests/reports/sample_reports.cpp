#include "tests/reports/sample_reports.h"

#include <utility>

namespace dlc {
namespace {

const std::string kDigestA = std::string("sha256:") + std::string(64, 'a');
const std::string kDigestB = std::string("sha256:") + std::string(64, 'b');

Finding Start(const std::string& rule, const Subject& subject) {
  Finding finding;
  finding.check = rule.substr(0, rule.find('/'));
  finding.rule = rule;
  finding.subject = subject;
  finding.does_not_establish = {"that the image's contents work on this node"};
  return finding;
}

Finding WithSeverity(Finding finding, Severity severity) {
  finding.severity = severity;
  return finding;
}

Report Base() {
  Report report;
  RunFacts& run = report.observations.run;
  run.id = "0123456789abcdef";
  run.mode = "files";
  run.started_at = "2026-01-02T03:04:05Z";
  run.finished_at = "2026-01-02T03:05:35Z";
  run.tool_version = "0.1.0";
  run.invocation = {"dlc-check", "image", "-c", "dlc-check.yaml"};
  run.stages = {Stage::kImage, Stage::kGpu};
  ServedImage image;
  image.reference = "123456789012.dkr.ecr.us-west-2.amazonaws.com/ray-training:2.58-gpu-py313";
  image.source = "registry";
  image.digest = *Digest::Parse(kDigestA);
  report.observations.served_image = image;
  RayCluster cluster;
  cluster.name_space = "ml";
  cluster.name = "train";
  report.observations.cluster.ray_clusters = std::vector<RayCluster>{cluster};
  report.observations.cluster.pods = std::vector<Pod>(3);
  report.observations.cluster.nodes =
      Error{ErrorCode::kPermissionDenied, "listing nodes is forbidden", ""};
  report.policy_name = "production";
  report.policy_source = {"file", "policy.yaml", "apiVersion: dlc-check/v1\n"};
  return report;
}

Report Concluded(Report report) {
  report.outcome = Aggregate(report.findings, report.observations.run.interrupted);
  return report;
}

void AddManyPods(std::vector<Finding>& findings, int count) {
  for (int i = 0; i < count; ++i) {
    findings.push_back(
        SampleFail("image-digest/pod-runs-policy-digest", {"pod", "worker-" + std::to_string(i)}));
  }
}

}  // namespace

Finding SamplePass(const std::string& rule, const Subject& subject) {
  Finding finding = Start(rule, subject);
  finding.verdict = Verdict::kPass;
  finding.expected = "image_id digest one of " + kDigestA;
  finding.actual = kDigestA;
  finding.assertions = {{"image_id digest", Op::kIn, std::vector<std::string>{kDigestA}, kDigestA,
                         "", "policy:image.digests"}};
  finding.establishes = {"the runtime reports the policy's digest for this container"};
  return finding;
}

Finding SampleFail(const std::string& rule, const Subject& subject) {
  Finding finding = SamplePass(rule, subject);
  finding.verdict = Verdict::kFail;
  finding.establishes = {};
  finding.actual = kDigestB;
  finding.assertions[0].observed = kDigestB;
  finding.reason = {"threshold-not-met",
                    "expected " + finding.expected + ", found " + finding.actual, ""};
  finding.hint =
      "pin the RayCluster's image to the digest, then `kubectl -n ml rollout restart "
      "deployment/train`";
  return finding;
}

Finding SampleUnknown(const std::string& rule, const Subject& subject) {
  Finding finding = Start(rule, subject);
  finding.verdict = Verdict::kUnknown;
  finding.reason = {"permission-denied", "could not see the nodes: listing nodes is forbidden", ""};
  finding.hint = "grant list on nodes: `dlc-check manifest rbac --namespace ml`";
  return finding;
}

Report AllPass() {
  Report report = Base();
  report.findings = {SamplePass("image-digest/pod-runs-policy-digest", {"pod", "head-0"}),
                     SamplePass("image-digest/pod-runs-policy-digest", {"pod", "worker-0"}),
                     SamplePass("gpu-allocation/limit-matches-policy", {"group", "gpu-workers"})};
  report.signature = "SHA256:NdFdJJLZue07WkKsB04h2ItH7d8we3o9M183E7A3EOk";
  return Concluded(std::move(report));
}

Report WorstFirst() {
  Report report = Base();
  auto& all = report.findings;
  all.push_back(SamplePass("image-digest/registry-serves-digest", {"image", "ray-training"}));
  AddManyPods(all, 8);
  all.push_back(WithSeverity(SampleFail("image-release/known-problem", {"image", "ray-training"}),
                             Severity::kWarn));
  all.push_back(WithSeverity(SampleUnknown("ray-version/pods-agree", {"cluster", "ml/train"}),
                             Severity::kWarn));
  all.push_back(WithSeverity(SamplePass("ray-version/head-matches-label", {"pod", "head-0"}),
                             Severity::kWarn));
  Finding failed_twice =
      SampleFail("gpu-allocation/limit-matches-policy", {"group", "gpu-workers"});
  failed_twice.expected = "limits[nvidia.com/gpu] 4 GPU; replicas 2";
  failed_twice.actual = "1 GPU; 2";
  failed_twice.reason.message = "raycluster.yaml:42: the limit is 1, and Ray is told 4 by num-gpus";
  failed_twice.notes = {"Ray's count repeats the flag --num-gpus: it is no observation of a GPU"};
  all.push_back(failed_twice);
  all.push_back(SampleUnknown("gpu-allocation/node-has-gpus", {"node", "ip-10-0-0-1"}));
  Finding blocked = SampleUnknown("gpu-visible/nvml-agrees", {"run", ""});
  blocked.reason = {"prerequisite-failed", "GPUs not looked at",
                    "gpu-allocation/limit-matches-policy group gpu-workers"};
  all.push_back(blocked);
  Finding not_applicable = Start("fabric-ready/efa-limit", {"group", "gpu-workers"});
  not_applicable.verdict = Verdict::kNotApplicable;
  not_applicable.reason = {"not-applicable", "g6.xlarge has no EFA", ""};
  all.push_back(not_applicable);
  Finding off =
      WithSeverity(Start("image-digest/floating-tag", {"image", "ray-training"}), Severity::kOff);
  off.verdict = Verdict::kNotApplicable;
  off.reason = {"switched-off", "the policy switches this rule off", ""};
  off.does_not_establish = {"that the tag will name this digest tomorrow"};
  all.push_back(off);
  all.push_back(SamplePass("gpu-allocation/head-has-none", {"pod", "head-0"}));
  return Concluded(std::move(report));
}

Report NothingJudged() {
  Report report;
  report.policy_source = {"built-in", "", ""};
  return report;
}

Report Interrupted() {
  Report report = Base();
  report.observations.run.interrupted = true;
  report.observations.cluster = {};
  report.observations.served_image =
      Error{ErrorCode::kTimedOut, "registry.example did not answer within 10 s", ""};
  report.policy_source = {"inline", "dlc-check.yaml", ""};
  report.policy_name = "";
  report.findings = {SamplePass("image-digest/pod-runs-policy-digest", {"pod", "head-0"})};
  return Concluded(std::move(report));
}

Report HostileNames() {
  Report report = Base();
  const std::string evil_names[] = {
      "\x1b[2J\x1b[1;32mPASSED\x1b[0m",
      "a\nPASSED: 9 passed\r\x07\x7f\t",
      "\xC2\x9B"
      "31mc1",
      "bad utf-8 \xFF\xC0\xAF\xED\xA0\x80 end",
      "right-to-left \xE2\x80\xAE gpj.exe \xE2\x81\xA6 zero\xE2\x80\x8Bwidth",
      "]]> <script>alert(1)</script> &amp; \"quoted\" 'single'",
      "pipe | and \\| and `tick` ``` fence ~~~ | x |",
      "@torvalds #1 https://example.org [link](javascript:1) ![i](http://x) **bold**",
      "</details><h1>PASSED</h1><!--",
      "\xE6\xBC\xA2\xE5\xAD\x97-\xF0\x9F\x9A\x80-e\xCC\x81 \xEF\xBF\xBE\xEF\xBF\xBF",
      std::string("nul\0inside", 10),
  };
  for (const std::string& name : evil_names) {
    Finding finding = SampleFail("image-digest/pod-runs-policy-digest", {"pod", name});
    finding.actual = name;
    finding.expected = name;
    finding.reason = {"invalid-input", "the registry said: " + name, name};
    finding.hint = name;
    finding.notes = {name};
    finding.does_not_establish = {name};
    report.findings.push_back(finding);
  }
  Finding rule = SamplePass("evil\x1b[31m|`check/<b>rule", {"pod\n", "x"});
  report.findings.push_back(rule);
  report.observations.served_image =
      Error{ErrorCode::kUnavailable, "<html>\x1b]0;title\x07 502 | @everyone\n```", ""};
  report.observations.run.id = "id\x1b[31m";
  report.policy_source.name = "pol`icy|\n.yaml";
  report.policy_name = "<b>@me";
  return Concluded(std::move(report));
}

std::vector<SampleReport> SampleReports() {
  return {{"all_pass", AllPass()},
          {"worst_first", WorstFirst()},
          {"nothing_judged", NothingJudged()},
          {"interrupted", Interrupted()},
          {"hostile_names", HostileNames()}};
}

Report LargeReport(int count) {
  Report report = Base();
  for (int i = 0; i < count; ++i) {
    const Subject pod{"pod", "train-gpu-workers-worker-" + std::to_string(i)};
    switch (i % 4) {
      case 0:
        report.findings.push_back(SampleFail("image-digest/pod-runs-policy-digest", pod));
        break;
      case 1: {
        Finding finding = SampleUnknown("gpu-visible/nvml-agrees", pod);
        finding.reason.message += " for " + pod.name;  // no two alike: as many groups as pods
        report.findings.push_back(finding);
        break;
      }
      default:
        report.findings.push_back(SamplePass("gpu-allocation/limit-matches-policy", pod));
    }
  }
  return Concluded(std::move(report));
}

}  // namespace dlc
