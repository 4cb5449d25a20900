#include <doctest/doctest.h>

#include <string>

#include "checks/policy_yaml.h"

namespace dlc {
namespace {

Result<Policy> Read(const std::string& fsdp) {
  return ParsePolicy("apiVersion: dlc-check/v1\nkind: Policy\nfsdp:\n" + fsdp, "p.yaml");
}

TEST_CASE("policy fsdp: every key is read") {
  const auto policy = Read(
      "  measure: required\n"
      "  layouts: [zero3, hsdp]\n"
      "  models: [qwen2.5-0.5b]\n"
      "  everyUnit: true\n"
      "  training: {measure: no, model: qwen2.5-0.5b, rows: 3, sequence: 5, microBatches: 7,\n"
      "             steps: 9, predict: [qwen2-tiny], backend: cuda}\n");
  REQUIRE_MESSAGE(policy.has_value(), policy.error().message);
  CHECK(policy->fsdp.measure == "required");
  CHECK(policy->fsdp.layouts == std::vector<std::string>{"zero3", "hsdp"});
  CHECK(policy->fsdp.models == std::vector<std::string>{"qwen2.5-0.5b"});
  CHECK(policy->fsdp.every_unit);
  CHECK(policy->fsdp.training.measure == "no");
  CHECK(policy->fsdp.training.model == "qwen2.5-0.5b");
  CHECK(policy->fsdp.training.rows == 3);
  CHECK(policy->fsdp.training.sequence == 5);
  CHECK(policy->fsdp.training.micro_batches == 7);
  CHECK(policy->fsdp.training.steps == 9);
  CHECK(policy->fsdp.training.backend == "cuda");
  CHECK(policy->fsdp.training.predict == std::vector<std::string>{"qwen2-tiny"});
}

TEST_CASE("policy fsdp: without it, every layout of an awkward and a real model, where ranks run") {
  const auto policy = ParsePolicy("apiVersion: dlc-check/v1\nkind: Policy\n", "p.yaml");
  REQUIRE(policy.has_value());
  CHECK(policy->fsdp.measure == "with-ranks");
  CHECK(policy->fsdp.layouts.size() == 5);
  CHECK(policy->fsdp.models == std::vector<std::string>{"qwen2-tiny", "qwen2.5-1.5b"});
  CHECK_FALSE(policy->fsdp.every_unit);
}

TEST_CASE("policy fsdp: what cannot be meant is refused, with the line") {
  struct Row {
    std::string text;
    std::string part;
  };
  const Row rows[] = {
      {"  measure: yes\n", "line 4: 'fsdp.measure'"},
      {"  layouts: []\n", "must not be empty"},
      {"  layouts: [fsdp3]\n", "must be of fsdp2, hsdp, fsdp1, fsdp1-aligned, zero3, not 'fsdp3'"},
      {"  layouts: [zero3, zero3]\n", "is 'zero3' twice"},
      {"  models: [llama]\n", "must be of qwen2-tiny, qwen2.5-0.5b, qwen2.5-1.5b, not 'llama'"},
      {"  everyUnit: 1\n", "'fsdp.everyUnit'"},
      {"  training: {model: gpt}\n", "'fsdp.training.model'"},
      {"  training: {steps: 0}\n", "'fsdp.training.steps'"},
      {"  training: {row: 1}\n", "did you mean 'rows'"},
      {"  layout: [zero3]\n", "did you mean 'layouts'"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const auto policy = Read(row.text);
    REQUIRE_FALSE(policy.has_value());
    CHECK(policy.error().code == ErrorCode::kInvalidInput);
    CAPTURE(policy.error().message);
    CAPTURE(policy.error().hint);
    CHECK((policy.error().message + policy.error().hint).find(row.part) != std::string::npos);
  }
}

TEST_CASE("policy fsdp: the framework's keys, and a strategy of each engine") {
  CHECK(Read("  measure: no\n")->fsdp.framework.engine == "none");
  const auto torch = Read(
      "  framework: {engine: torch, strategy: fsdp1, maxLossDifference: 0, minStepsPerSecond: "
      "2}\n");
  REQUIRE_MESSAGE(torch.has_value(), torch.error().message);
  CHECK(torch->fsdp.framework.engine == "torch");
  CHECK(torch->fsdp.framework.strategy == "fsdp1");
  CHECK(torch->fsdp.framework.max_loss_difference == 0.0);
  CHECK(torch->fsdp.framework.min_steps_per_second == 2.0);
  CHECK(torch->fsdp.framework.launcher == "rank");
  CHECK(Read("  framework: {engine: torch, launcher: ray-train}\n")->fsdp.framework.launcher ==
        "ray-train");
  CHECK_FALSE(Read("  framework: {engine: torch, launcher: slurm}\n").has_value());
  const auto other = Read("  framework: {engine: deepspeed}\n");
  REQUIRE_MESSAGE(other.has_value(), other.error().message);
  CHECK(other->fsdp.framework.strategy == "zero3");
  CHECK_FALSE(other->fsdp.framework.max_loss_difference.has_value());
  CHECK(Read("  framework: {engine: torch, strategy: zero3}\n")
            .error()
            .message.starts_with("p.yaml: line 4: "));
  CHECK_FALSE(Read("  training: {measure: no}\n  framework: {engine: torch}\n").has_value());
  CHECK(Read("  training: {measure: no}\n  framework: {engine: none}\n").has_value());
}

}  // namespace
}  // namespace dlc
