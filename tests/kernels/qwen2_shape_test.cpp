#include "kernels/training/qwen2_shape.h"

#include <doctest/doctest.h>

#include "kernels/training/synthetic.h"

namespace dlc {
namespace {

TEST_CASE("the presets have the parameters that their model cards state") {
  CHECK(ParameterCount(*Qwen2Preset("qwen2.5-1.5b")) == 1543714304);
  CHECK(ParameterCount(*Qwen2Preset("qwen2.5-0.5b")) == 494032768);
  CHECK_FALSE(Qwen2Preset("qwen2.5-2b"));
}

TEST_CASE("a unit of Qwen2.5 has no filling, one of the tiny model has") {
  const auto parameters = Qwen2Parameters(*Qwen2Preset("qwen2.5-1.5b"));
  CHECK(UnitElements(parameters, 0) == 46797824);
  CHECK(UnitElements(parameters, 28) == 233375232);
  const auto tiny = Qwen2Parameters(*Qwen2Preset("qwen2-tiny"));
  std::int64_t elements = 0;
  for (int unit = 0; unit < 4; ++unit) {
    elements += UnitElements(tiny, unit);
  }
  CHECK(elements > ParameterCount(*Qwen2Preset("qwen2-tiny")));
}

TEST_CASE("synthetic values are those of their place") {
  static_assert(SyntheticNormal(1, 2) == SyntheticNormal(1, 2));
  CHECK(SyntheticKey(1, 2) != SyntheticKey(2, 1));
  double sum = 0;
  double squares = 0;
  int largest = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const double value = SyntheticNormal(7, i);
    sum += value;
    squares += value * value;
    largest = std::max(largest, SyntheticInteger(7, i));
    REQUIRE(SyntheticToken(7, i, 3, 509) < 509);
  }
  CHECK(sum / 1e5 == doctest::Approx(0).epsilon(0.01));
  CHECK(squares / 1e5 == doctest::Approx(1.0 / 3).epsilon(0.02));
  CHECK(largest == 8);
}

}  // namespace
}  // namespace dlc
