#include "probes/node/fsdp/step_traffic.h"

#include <doctest/doctest.h>

namespace dlc {
namespace {

std::vector<ModelParameter> Qwen() {
  return Qwen2Parameters(*Qwen2Preset("qwen2.5-1.5b"));
}

std::int64_t Bytes(ShardLayout layout, int shard_ranks, int copies, DataType gradients) {
  return StepBytesPerRank(layout, Qwen(), shard_ranks, copies, gradients);
}

TEST_CASE("a step of FSDP2 on Qwen2.5-1.5B sends (n - 1) / n of all that is gathered and reduced") {
  const auto fsdp2 = [](int ranks, DataType gradients) {
    return Bytes(ShardLayout::kFsdp2, ranks, 1, gradients);
  };
  CHECK(fsdp2(1, DataType::kFloat32) == 0);
  CHECK(fsdp2(2, DataType::kBfloat16) == 4397767680);
  CHECK(fsdp2(4, DataType::kBfloat16) == 6596651520);
  CHECK(fsdp2(8, DataType::kBfloat16) == 7696093440);
  CHECK(fsdp2(16, DataType::kBfloat16) == 8245814400);
  CHECK(fsdp2(2, DataType::kFloat32) == 5941481984);
  CHECK(fsdp2(4, DataType::kFloat32) == 8912222976);
  CHECK(fsdp2(8, DataType::kFloat32) == 10397593472);
  CHECK(fsdp2(16, DataType::kFloat32) == 11140278720);
}

TEST_CASE("padding is sent too") {
  // 261232 elements of filling in all, but not in equal parts of what is gathered twice and once.
  const std::int64_t unpadded =
      2 * (2 * std::int64_t{1543714304} - 233375232 + std::int64_t{1543714304}) * 2 / 3;
  CHECK(Bytes(ShardLayout::kFsdp2, 3, 1, DataType::kBfloat16) > unpadded);
  CHECK(Bytes(ShardLayout::kFsdp2, 3, 1, DataType::kBfloat16) < unpadded + 2 * 3 * 2 * 261232);
}

TEST_CASE("HSDP sends what its shards do, and an all-reduce of the shard across copies") {
  // Ring of 2 copies: 2 x 1/2 of a quarter of all gradients.
  CHECK(Bytes(ShardLayout::kFsdp2, 4, 2, DataType::kFloat32) == 8912222976 + 1543714304);
}

TEST_CASE("FSDP1 of dividing sizes sends as much as FSDP2") {
  CHECK(Bytes(ShardLayout::kFsdp1, 8, 1, DataType::kFloat32) == 10397593472);
  CHECK(Bytes(ShardLayout::kFsdp1Aligned, 8, 1, DataType::kFloat32) == 10397593472);
}

TEST_CASE("ZeRO-3 gathers the root again, and what stays whole only once") {
  // Biases and norms: 28 x (1536 + 2 x 256 + 2 x 1536) + 1536 elements.
  const std::int64_t whole = 28 * (1536 + 512 + 3072) + 1536;
  CHECK(Bytes(ShardLayout::kZero3, 8, 1, DataType::kBfloat16) ==
        8104500096 + 0 - 7 * whole / 8 * 2);
}

}  // namespace
}  // namespace dlc
