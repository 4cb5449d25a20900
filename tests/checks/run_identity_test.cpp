#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/checks/image_fixture.h"

namespace dlc {
namespace {

using namespace fixture;  // NOLINT(google-build-using-namespace): the test's own vocabulary

const std::string kPolicy = "run-identity/policy-recorded";
const std::string kCluster = "run-identity/cluster-description-recorded";
const std::string kTool = "run-identity/tool-recorded";
const std::string kImage = "run-identity/image-recorded";
const std::string kFiles = "run-identity/input-files-hashed";
const std::string kWorkload = "run-identity/workload-recorded";

std::vector<Finding> Judged(const Observations& o) {
  auto findings = JudgeWith("run-identity", o, {});
  CheckShape(findings);
  return findings;
}

Observations Recorded() {
  Observations o;
  o.run.mode = "live";
  o.run.tool_version = "0.1.0";
  o.run.tool_commit = "abc";
  o.run.tool_digest = Of('7');
  o.run.inputs = {{"policy", "policy.yaml", Of('1'), 10},
                  {"config", "dlc-check.yaml", Of('2'), 20},
                  {"job-code", "train.py", Of('3'), 30},
                  {"workload-config", "train.yaml", Of('4'), 40}};
  o.run.workload = {"Qwen2.5-1.5B", 8, 1, 2, 10};
  o.served_image = MakeIndex();
  return o;
}

void Drop(Observations& o, const std::string& role) {
  auto& inputs = o.run.inputs;
  inputs.erase(std::remove_if(inputs.begin(), inputs.end(),
                              [&](const InputFile& input) { return input.role == role; }),
               inputs.end());
}

TEST_CASE("run-identity: everything recorded passes, and is no pass of the cluster") {
  const auto f = Judged(Recorded());
  CHECK(f.size() == 6);
  for (const Finding& finding : f) {
    CAPTURE(finding.rule);
    CHECK(finding.verdict == Verdict::kPass);
  }
  CHECK(Aggregate(f, false) == Outcome::kIncomplete);
}

TEST_CASE("run-identity: a record that is missing, or without digest, is unknown") {
  struct Row {
    const char* role;
    const std::string& rule;
  };
  for (const Row& row : {Row{"policy", kPolicy}, Row{"config", kCluster}}) {
    CAPTURE(row.role);
    Observations o = Recorded();
    for (InputFile& input : o.run.inputs) {
      if (input.role == row.role) {
        input.digest = {};
      }
    }
    CHECK(Only(Judged(o), row.rule).verdict == Verdict::kUnknown);
    CHECK(Only(Judged(o), kFiles).verdict == Verdict::kUnknown);
    Drop(o, row.role);
    CHECK(Only(Judged(o), row.rule).verdict == Verdict::kUnknown);
    CHECK(Only(Judged(o), kFiles).verdict == Verdict::kPass);
  }
  Observations o = Recorded();
  o.run.tool_digest = {};
  CHECK(Only(Judged(o), kTool).verdict == Verdict::kUnknown);
  o = Recorded();
  o.run.tool_version = "";
  CHECK(Only(Judged(o), kTool).verdict == Verdict::kUnknown);
}

TEST_CASE("run-identity: nothing recorded is unknown throughout") {
  Observations nothing;
  nothing.run.stages = {Stage::kImage};
  for (const Finding& finding : Judged(nothing)) {
    CAPTURE(finding.rule);
    CHECK(finding.verdict == Verdict::kUnknown);
  }
}

TEST_CASE("run-identity: a live run without files is described by its observations") {
  Observations o = Recorded();
  Drop(o, "config");
  CHECK(Only(Judged(o), kCluster).verdict == Verdict::kUnknown);
  o.cluster.ray_clusters = std::vector<RayCluster>{};
  CHECK(Only(Judged(o), kCluster).verdict == Verdict::kNotApplicable);
  o.run.mode = "files";
  CHECK(Only(Judged(o), kCluster).verdict == Verdict::kUnknown);
}

TEST_CASE("run-identity: the image is recorded by what is served, else by what the pods report") {
  Observations o = Recorded();
  o.served_image = Error{ErrorCode::kTimedOut, "no answer", ""};
  CHECK(Only(Judged(o), kImage).reason.code == "timeout");
  o.cluster.pods = std::vector<Pod>{MakePod("1", "head", ""), MakePod("2", "worker", "")};
  CHECK(Only(Judged(o), kImage).verdict == Verdict::kUnknown);
  o.cluster.pods.value()[1].statuses[0].image_id = RepoId(Of('b'));
  CHECK(Only(Judged(o), kImage).verdict == Verdict::kPass);
  CHECK(Only(Judged(o), kImage).actual == Of('b').ToString());
}

TEST_CASE(
    "run-identity: a run of another stage that saw no image says so and is not incomplete for it") {
  Observations o = Recorded();
  o.served_image = NotLookedAt{"not asked for", ""};
  o.cluster.pods = NotLookedAt{"not asked for", ""};
  o.run.stages = {Stage::kCheckpoint};
  CHECK(Only(Judged(o), kImage).verdict == Verdict::kNotApplicable);
  o.run.stages = {Stage::kImage, Stage::kCheckpoint};
  CHECK(Only(Judged(o), kImage).verdict == Verdict::kUnknown);
}

TEST_CASE("run-identity: a file that changed during the run fails") {
  Observations o = Recorded();
  o.run.inputs.push_back(o.run.inputs[1]);
  CHECK(Only(Judged(o), kFiles).verdict == Verdict::kPass);
  o.run.inputs.back().digest = Of('9');
  CHECK(Only(Judged(o), kFiles).verdict == Verdict::kFail);
  CHECK(Only(Judged(o), kFiles).actual == "config dlc-check.yaml");
}

TEST_CASE("run-identity: job code, workload config and size that are not given are told") {
  Observations o = Recorded();
  Drop(o, "job-code");
  o.run.workload.steps = 0;
  const Finding finding = Only(Judged(o), kWorkload);
  CHECK(finding.verdict == Verdict::kUnknown);
  CHECK(finding.severity == Severity::kWarn);
  CHECK(finding.reason.message ==
        "not given: job-code, workload.steps; two runs cannot be compared on them");
}

}  // namespace
}  // namespace dlc
