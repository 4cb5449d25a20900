#include "kernels/reduction.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/bfloat16.h"

namespace dlc {

TEST_CASE("bfloat16 rounds to nearest, ties to even, and keeps NaN and infinity") {
  const auto round_trip = [](float value) { return FloatFromBfloat16(Bfloat16FromFloat(value)); };
  CHECK(round_trip(1.0F) == 1.0F);
  CHECK(round_trip(256.0F) == 256.0F);
  CHECK(round_trip(257.0F) == 256.0F);  // tie, even below
  CHECK(round_trip(259.0F) == 260.0F);  // tie, even above
  CHECK(round_trip(257.5F) == 258.0F);
  CHECK(std::isinf(round_trip(std::numeric_limits<float>::infinity())));
  CHECK(std::isinf(round_trip(std::numeric_limits<float>::max())));
  CHECK(std::isnan(round_trip(std::numeric_limits<float>::quiet_NaN())));
  CHECK(std::signbit(round_trip(-0.0F)));
}

TEST_CASE("Reduce adds, takes the maximum, and works in place of either operand") {
  const std::vector<float> a = {1, -2, 3.5F};
  const std::vector<float> b = {4, -5, 0.25F};
  std::vector<float> out(3);
  Reduce(DataType::kFloat32, ReduceOp::kSum, out.data(), a.data(), b.data(), 3);
  CHECK(out == std::vector<float>{5, -7, 3.75F});
  Reduce(DataType::kFloat32, ReduceOp::kMax, out.data(), a.data(), b.data(), 3);
  CHECK(out == std::vector<float>{4, -2, 3.5F});
  std::vector<float> left = a;
  Reduce(DataType::kFloat32, ReduceOp::kSum, left.data(), left.data(), b.data(), 3);
  std::vector<float> right = b;
  Reduce(DataType::kFloat32, ReduceOp::kSum, right.data(), a.data(), right.data(), 3);
  CHECK(left == right);
}

TEST_CASE("integer sums wrap and integer averages go towards zero") {
  const std::vector<std::int32_t> a = {std::numeric_limits<std::int32_t>::max(), 5, -5};
  const std::vector<std::int32_t> b = {1, 2, -2};
  std::vector<std::int32_t> out(3);
  Reduce(DataType::kInt32, ReduceOp::kAvg, out.data(), a.data(), b.data(), 3);
  CHECK(out == std::vector<std::int32_t>{std::numeric_limits<std::int32_t>::min(), 7, -7});
  DivideBy(DataType::kInt32, out.data() + 1, 2, 2);
  CHECK(out[1] == 3);
  CHECK(out[2] == -3);
  const std::vector<std::int64_t> wide = {std::int64_t{1} << 40};
  std::vector<std::int64_t> sum(1);
  Reduce(DataType::kInt64, ReduceOp::kSum, sum.data(), wide.data(), wide.data(), 1);
  CHECK(sum[0] == std::int64_t{1} << 41);
}

TEST_CASE("bfloat16 is reduced in float32 and rounded once") {
  const std::vector<std::uint16_t> a = {Bfloat16FromFloat(256), Bfloat16FromFloat(1)};
  const std::vector<std::uint16_t> b = {Bfloat16FromFloat(3), Bfloat16FromFloat(2)};
  std::vector<std::uint16_t> out(2);
  Reduce(DataType::kBfloat16, ReduceOp::kSum, out.data(), a.data(), b.data(), 2);
  CHECK(FloatFromBfloat16(out[0]) == 260);
  CHECK(FloatFromBfloat16(out[1]) == 3);
  Reduce(DataType::kBfloat16, ReduceOp::kMax, out.data(), a.data(), b.data(), 2);
  CHECK(FloatFromBfloat16(out[0]) == 256);
  DivideBy(DataType::kBfloat16, out.data(), 1, 3);
  CHECK(out[0] == Bfloat16FromFloat(256.0F / 3));
}

}  // namespace dlc
