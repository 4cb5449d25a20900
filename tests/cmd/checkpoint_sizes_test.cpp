#include "checks/checkpoint_sizes.h"

#include <doctest/doctest.h>

#include "kernels/training/qwen2_shape.h"

namespace dlc {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

TEST_CASE("checkpoint sizes: every preset has as many parameters as the model that is trained") {
  REQUIRE(CheckpointPresetNames().size() == 3);
  for (const std::string& name : CheckpointPresetNames()) {
    CAPTURE(name);
    REQUIRE(Qwen2Preset(name).has_value());
    CHECK(PresetParameterCount(name) == ParameterCount(*Qwen2Preset(name)));
  }
  CHECK(PresetParameterCount("llama") == 0);
}

TEST_CASE("checkpoint sizes: the policy's number wins over the largest preset") {
  StoragePolicy policy;
  policy.predict = {"qwen2.5-1.5b", "qwen2-tiny"};
  CHECK(PolicyModel(policy).name == "qwen2.5-1.5b");
  CHECK(PolicyModel(policy).StateBytes() == 18'524'571'648);
  CHECK(PredictedModels(policy).size() == 2);
  policy.parameters = 1000;
  CHECK(PolicyModel(policy).StateBytes() == 12'000);
  CHECK(PredictedModels(policy).size() == 3);
}

TEST_CASE("checkpoint sizes: a rank's part of the model in whole blocks, up to the policy's cap") {
  StoragePolicy policy;
  CHECK(TestBytesPerRank(policy, 4, 4 * kMiB) == 32 * kMiB);
  policy.max_bytes_per_rank = 35 * kMiB;
  CHECK(TestBytesPerRank(policy, 4, 4 * kMiB) == 32 * kMiB);
  policy.parameters = kMiB;  // 12 MiB of state
  CHECK(TestBytesPerRank(policy, 1, 4 * kMiB) == 12 * kMiB);
  CHECK(TestBytesPerRank(policy, 2, 4 * kMiB) == 8 * kMiB);
  CHECK(TestBytesPerRank(policy, 100, 4 * kMiB) == 4 * kMiB);
}

}  // namespace
}  // namespace dlc
