#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "checks/check.h"
#include "checks/policy_yaml.h"
#include "probes/control/files/cluster_file.h"
#include "probes/control/files/ray_answers.h"
#include "probes/input/read_file.h"

namespace dlc {
namespace {

std::string Path(const std::string& name) {
  return std::string(DLC_TESTDATA) + "/files/" + name;
}

struct Input {
  std::vector<std::string> cluster;
  std::string ray_nodes;
  std::string policy;
};

std::vector<Finding> JudgeFiles(const Input& input, const std::string& check) {
  Observations o;
  std::vector<std::string> notes;
  for (const std::string& name : input.cluster) {
    const auto read = ReadClusterFile(Path(name), o.cluster, notes);
    REQUIRE_MESSAGE(read, read.error().message);
  }
  if (!input.ray_nodes.empty()) {
    auto nodes = ReadRayNodesFile(Path(input.ray_nodes));
    REQUIRE_MESSAGE(nodes, nodes.error().message);
    o.ray.nodes = std::move(nodes).value();
  }
  Policy policy;
  if (!input.policy.empty()) {
    const auto bytes = ReadFileBytes(Path(input.policy), 1U << 20U);
    REQUIRE(bytes);
    auto parsed = ParsePolicy(*bytes, input.policy);
    REQUIRE_MESSAGE(parsed, parsed.error().message);
    policy = std::move(parsed).value();
  }
  return FindCheck(check)->judge(o, policy);
}

/// Worst verdict of a rule over all its subjects; "none" when the rule said nothing.
std::string Worst(const std::vector<Finding>& findings, const std::string& rule) {
  for (const Verdict verdict :
       {Verdict::kFail, Verdict::kUnknown, Verdict::kPass, Verdict::kNotApplicable}) {
    if (std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
          return finding.rule == rule && finding.verdict == verdict;
        })) {
      return VerdictName(verdict);
    }
  }
  return "none";
}

TEST_CASE("hx05 from files: the head that offers GPUs fails, its variants as README.md says") {
  struct Row {
    const char* cluster;
    const char* ray_nodes;
    const char* advertises;
    const char* flag;
  };
  const Row rows[] = {
      {"hx05/raycluster.yaml", "hx05/ray-nodes.json", "fail", "pass"},
      {"hx05/raycluster-head-zero.yaml", "hx05/ray-nodes-head-zero.json", "pass", "pass"},
      {"hx05/raycluster-head-zero.yaml", "hx05/ray-list-nodes.json", "pass", "pass"},
      {"hx05/raycluster-worker-eight.yaml", "hx05/ray-nodes-worker-eight.json", "fail", "fail"},
      {"hx05/raycluster-number.yaml", "hx05/ray-nodes-head-zero.json", "pass", "pass"},
  };
  for (const bool with_pods : {false, true}) {
    for (const Row& row : rows) {
      CAPTURE(with_pods);
      CAPTURE(std::string(row.cluster));
      Input input{{row.cluster, "hx05/nodes.json"}, row.ray_nodes, "hx05/policy.yaml"};
      if (with_pods) {
        input.cluster.emplace_back("hx05/pods.json");
      }
      const auto findings = JudgeFiles(input, "gpu-allocation");
      CHECK(Worst(findings, "gpu-allocation/ray-advertises-limit") == row.advertises);
      CHECK(Worst(findings, "gpu-allocation/ray-flag-matches-limit") == row.flag);
      CHECK(Worst(findings, "gpu-allocation/limit-matches-policy") == "pass");
      CHECK(Worst(findings, "gpu-allocation/node-allocatable") == "pass");
    }
  }
  const auto hx05 =
      JudgeFiles({{"hx05/raycluster.yaml"}, "hx05/ray-nodes.json", ""}, "gpu-allocation");
  const auto fails = std::count_if(hx05.begin(), hx05.end(), [](const Finding& f) {
    return f.rule == "gpu-allocation/ray-advertises-limit" && f.verdict == Verdict::kFail;
  });
  CHECK(fails == 1);  // the head alone
  CHECK(Worst(hx05, "gpu-allocation/head-visibility") == "fail");
  CHECK(Worst(hx05, "gpu-allocation/ray-flag-stated") == "fail");
}

TEST_CASE("hx07 from files: EFA by environment only, its variants as README.md says") {
  struct Row {
    const char* cluster;
    const char* nodes;
    const char* limit;
    const char* env_only;
    const char* in_container;
    const char* type;
    const char* share;
  };
  const Row rows[] = {
      {"hx07/raycluster.yaml", "hx07/nodes.json", "fail", "fail", "none", "none", "none"},
      {"hx07/raycluster-request-only.yaml", "hx07/nodes.json", "fail", "fail", "fail", "none",
       "none"},
      {"hx07/raycluster-init-limit.yaml", "hx07/nodes.json", "fail", "fail", "fail", "none",
       "none"},
      {"hx07/raycluster.yaml", "hx07/nodes-no-efa.json", "not_applicable", "none", "none", "fail",
       "none"},
      {"hx07/raycluster-one-of-32.yaml", "hx07/nodes-p5.json", "pass", "pass", "none", "none",
       "fail"},
      {"hx07/raycluster-right.yaml", "hx07/nodes.json", "pass", "pass", "none", "none", "pass"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.cluster));
    CAPTURE(std::string(row.nodes));
    const auto findings =
        JudgeFiles({{row.cluster, row.nodes}, "", "hx07/policy.yaml"}, "fabric-ready");
    CHECK(Worst(findings, "fabric-ready/efa-limit") == row.limit);
    CHECK(Worst(findings, "fabric-ready/provider-by-env-only") == row.env_only);
    CHECK(Worst(findings, "fabric-ready/limit-in-ray-container") == row.in_container);
    CHECK(Worst(findings, "fabric-ready/type-has-efa") == row.type);
    CHECK(Worst(findings, "fabric-ready/interface-share") == row.share);
  }
  const auto zones = JudgeFiles(
      {{"hx07/raycluster-right.yaml", "hx07/nodes-two-zones.json", "hx07/pods-right.json"}, "", ""},
      "fabric-ready");
  CHECK(Worst(zones, "fabric-ready/one-zone") == "fail");
}

TEST_CASE("the manifests that AWS publishes show no fault, and alone prove too little") {
  for (const char* name : {"aws/raycluster-sample.yaml", "aws/raycluster-release-test.yaml"}) {
    CAPTURE(std::string(name));
    for (const char* check : {"gpu-allocation", "fabric-ready"}) {
      CAPTURE(std::string(check));
      const auto findings = JudgeFiles({{name}, "", "hx05/policy.yaml"}, check);
      for (const Finding& finding : findings) {
        CAPTURE(finding.rule);
        CAPTURE(finding.reason.message);
        CHECK(finding.verdict != Verdict::kFail);
      }
      CHECK(Aggregate(findings, false) == Outcome::kIncomplete);
    }
  }
}

}  // namespace
}  // namespace dlc
