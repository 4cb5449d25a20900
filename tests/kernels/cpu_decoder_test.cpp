#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "kernels/training/cpu_attention.h"
#include "kernels/training/cpu_backend.h"
#include "kernels/training/cpu_matrix.h"
#include "tests/kernels/training_conformance.h"

namespace dlc {
namespace {

/// Small enough to take differences for every weight; nothing divides anything.
TrainingShape Minuscule(bool tied) {
  TrainingShape shape;
  shape.model = {10, 2, 4, 2, 6, 14, 23, 100, 1e-5, tied};
  shape.rows = 2;
  shape.sequence = 5;
  return shape;
}

/// Larger than the model's own, so that no part of the gradient is lost in rounding.
UnitValues LargeWeights(const Qwen2Shape& shape, std::uint64_t seed) {
  UnitValues values = SyntheticWeights(shape, seed);
  for (auto& unit : values) {
    for (float& value : unit) {
      value = std::abs(value) < 0.5F ? value * 16 : value;
    }
  }
  return values;
}

MicroBatchResult RunOnce(const TrainingShape& shape, const UnitValues& weights,
                         const std::vector<std::int32_t>& tokens) {
  const auto backend = OpenCpuTrainingBackend();
  TrainingRun run(*backend, shape);
  run.SetWeights(weights);
  return run.Run(tokens);
}

double Norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) {
    sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return std::sqrt(sum);
}

TEST_CASE("the gradient of every parameter is the loss's slope along it") {
  for (const bool tied : {true, false}) {
    const TrainingShape shape = Minuscule(tied);
    const auto backend = OpenCpuTrainingBackend();
    TrainingRun run(*backend, shape);
    const UnitValues weights = LargeWeights(shape.model, 3);
    const auto tokens = SyntheticTokens(shape, 5);
    run.SetWeights(weights);
    const MicroBatchResult result = run.Run(tokens);
    for (const ModelParameter& parameter : run.Parameters()) {
      CAPTURE(tied);
      CAPTURE(parameter.name);
      const auto unit = static_cast<std::size_t>(parameter.unit);
      const std::vector<float> gradient = PartOf(result.gradients, parameter);
      // Along a random direction, then along each of a few single elements.
      double worst = 0;
      const double scale = Norm(gradient);
      CHECK(scale > 1e-4);
      for (int direction = 0; direction < 4; ++direction) {
        double expected = 0;
        double slope = 0;
        const float step = 1.0F / 256;
        for (const float sign : {1.0F, -1.0F}) {
          UnitValues moved = weights;
          for (std::size_t i = 0; i < gradient.size(); ++i) {
            const bool alone = direction > 0;
            const bool chosen = i == gradient.size() * static_cast<std::size_t>(direction) / 4;
            const float along =
                alone ? (chosen ? 1.0F : 0.0F) : SyntheticNormal(static_cast<std::uint64_t>(17), i);
            moved[unit][static_cast<std::size_t>(parameter.unit_offset) + i] += sign * step * along;
            expected += sign > 0 ? static_cast<double>(along * gradient[i]) : 0;
          }
          run.SetWeights(moved);
          slope +=
              static_cast<double>(sign * run.Run(tokens).loss) / (2 * static_cast<double>(step));
        }
        worst = std::max(worst, std::abs(slope - expected));
      }
      CHECK(worst < 0.01 * scale + 1e-4);
    }
  }
}

TEST_CASE("a query sees no later key, and a later key learns nothing from it") {
  TrainingShape shape;
  shape.model = {0, 0, 4, 2, 6, 0, 0, 100, 1e-5, true};
  shape.rows = 1;
  shape.sequence = 70;
  constexpr std::int64_t kBefore = 40;
  const auto fill = [](std::int64_t count, std::uint64_t key) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) {
      values.push_back(3 * SyntheticNormal(key, static_cast<std::uint64_t>(i)));
    }
    return values;
  };
  std::vector<float> scratch(static_cast<std::size_t>(CpuAttentionScratch(shape)));
  const auto query = fill(70 * 24, 1);
  const auto attend = [&](const std::vector<float>& key, const std::vector<float>& value) {
    std::vector<float> attended(query.size());
    std::vector<float> log_sums(70 * 4);
    CpuAttend(shape, {query.data(), key.data(), value.data(), attended.data(), log_sums.data()},
              scratch.data());
    // No probability is held back: those of a query are exp(score - log_sum).
    std::vector<float> gradients[3] = {query, key, value};
    std::vector<float> attended_gradient = attended;
    std::fill(attended_gradient.begin() + kBefore * 24, attended_gradient.end(), 0.0F);
    CpuAttendBackward(shape,
                      {{query.data(), key.data(), value.data(), attended.data(), log_sums.data()},
                       attended_gradient.data(),
                       gradients[0].data(),
                       gradients[1].data(),
                       gradients[2].data()},
                      scratch.data());
    attended.resize(kBefore * 24);
    for (const auto& gradient : {gradients[1], gradients[2]}) {
      const auto is_zero = [](float number) { return number == 0; };
      CHECK(std::none_of(gradient.begin(), gradient.begin() + kBefore * 12, is_zero));
      CHECK(std::all_of(gradient.begin() + kBefore * 12, gradient.end(), is_zero));
    }
    return attended;
  };
  const auto key = fill(70 * 12, 2);
  const auto value = fill(70 * 12, 3);
  const auto change = [](std::vector<float> values, std::int64_t at) {
    values[static_cast<std::size_t>(at)] += 1;
    return values;
  };
  const std::vector<float> first = attend(key, value);
  for (const std::int64_t later : {kBefore * 12, kBefore * 12 + 11, std::int64_t{70 * 12 - 1}}) {
    CHECK(SameBits(attend(change(key, later), change(value, later)), first));
  }
  const std::int64_t last = kBefore * 12 - 1;
  CHECK_FALSE(SameBits(attend(change(key, last), value), first));
  CHECK_FALSE(SameBits(attend(key, change(value, last)), first));
}

TEST_CASE("grouped heads are heads that are repeated") {
  const TrainingShape grouped = Minuscule(true);
  TrainingShape repeated = grouped;
  repeated.model.kv_heads = 4;
  const UnitValues weights = LargeWeights(grouped.model, 3);
  UnitValues more = LargeWeights(repeated.model, 3);
  const auto from = Qwen2Parameters(grouped.model);
  const auto to = Qwen2Parameters(repeated.model);
  // Head h of the four is head h / 2 of the two.
  const auto source_of = [&](const ModelParameter& parameter, std::int64_t i) {
    const bool key_or_value = parameter.name.find("k_proj") != std::string::npos ||
                              parameter.name.find("v_proj") != std::string::npos;
    const std::int64_t of_head = 6 * parameter.RowElements();
    return key_or_value ? i / of_head / 2 * of_head + i % of_head : i;
  };
  for (std::size_t index = 0; index < to.size(); ++index) {
    for (std::int64_t i = 0; i < to[index].Elements(); ++i) {
      const auto unit = static_cast<std::size_t>(to[index].unit);
      more[unit][static_cast<std::size_t>(to[index].unit_offset + i)] =
          weights[unit]
                 [static_cast<std::size_t>(from[index].unit_offset + source_of(to[index], i))];
    }
  }
  const auto tokens = SyntheticTokens(grouped, 5);
  const MicroBatchResult of_grouped = RunOnce(grouped, weights, tokens);
  const MicroBatchResult of_repeated = RunOnce(repeated, more, tokens);
  CHECK(of_grouped.loss == of_repeated.loss);
  for (std::size_t index = 0; index < to.size(); ++index) {
    CAPTURE(to[index].name);
    std::vector<float> sums(static_cast<std::size_t>(from[index].Elements()));
    const std::vector<float> parts = PartOf(of_repeated.gradients, to[index]);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      sums[static_cast<std::size_t>(source_of(to[index], static_cast<std::int64_t>(i)))] +=
          parts[i];
    }
    CHECK(RelativeDistance(PartOf(of_grouped.gradients, from[index]), sums) < 1e-5);
  }
}

TEST_CASE("a tied gradient is the sum of the embedding's and the head's") {
  const TrainingShape tied = Minuscule(true);
  const TrainingShape untied = Minuscule(false);
  const UnitValues weights = LargeWeights(tied.model, 3);
  UnitValues twice = weights;
  const auto parameters = Qwen2Parameters(untied.model);
  twice.back().resize(static_cast<std::size_t>(UnitElements(parameters, 2)));
  const std::size_t at = parameters.size() - 3;  // embedding, norm, head
  std::copy_n(twice.back().begin(), parameters[at].Elements(),
              twice.back().begin() + parameters[at + 2].unit_offset);
  const auto tokens = SyntheticTokens(tied, 5);
  const MicroBatchResult one = RunOnce(tied, weights, tokens);
  const MicroBatchResult two = RunOnce(untied, twice, tokens);
  CHECK(one.loss == two.loss);
  std::vector<float> sum = PartOf(two.gradients, parameters[at]);
  const std::vector<float> head = PartOf(two.gradients, parameters[at + 2]);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] += head[i];
  }
  CHECK(RelativeDistance(PartOf(one.gradients, parameters[at]), sum) < 1e-6);
  CHECK(PartOf(one.gradients, parameters[at + 1]) == PartOf(two.gradients, parameters[at + 1]));
  CHECK(one.gradients[0] == two.gradients[0]);
}

TEST_CASE("bfloat16 is near to float32, and not the same") {
  TrainingShape shape = Minuscule(true);
  shape.sequence = 33;
  const auto tokens = SyntheticTokens(shape, 5);
  UnitValues weights = LargeWeights(shape.model, 3);
  for (auto& unit : weights) {
    for (float& value : unit) {
      value = FloatFromBfloat16(Bfloat16FromFloat(value));
    }
  }
  const MicroBatchResult exact = RunOnce(shape, weights, tokens);
  shape.compute = DataType::kBfloat16;
  const MicroBatchResult rounded = RunOnce(shape, weights, tokens);
  shape.gradients = DataType::kBfloat16;
  const MicroBatchResult twice = RunOnce(shape, weights, tokens);
  CHECK(rounded.loss != exact.loss);
  CHECK(rounded.loss == doctest::Approx(exact.loss).epsilon(0.003));
  CHECK(twice.loss == rounded.loss);
  for (const ModelParameter& parameter : Qwen2Parameters(shape.model)) {
    CAPTURE(parameter.name);
    const std::vector<float> expected = PartOf(rounded.gradients, parameter);
    CHECK(RelativeDistance(expected, PartOf(exact.gradients, parameter)) < 0.08);
    CHECK(RelativeDistance(PartOf(twice.gradients, parameter), expected) < 0.003);
  }
}

TEST_CASE("the filling between parameters is left alone") {
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
    TrainingShape shape = Minuscule(false);
    shape.gradients = type;
    const MicroBatchResult result =
        RunOnce(shape, SyntheticWeights(shape.model, 3), SyntheticTokens(shape, 5));
    UnitValues gradients = result.gradients;
    std::size_t untouched = 0;
    for (const auto& unit : gradients) {
      untouched +=
          static_cast<std::size_t>(std::count(unit.begin(), unit.end(), TrainingRun::kUntouched));
    }
    const auto parameters = Qwen2Parameters(shape.model);
    std::int64_t filling = -ParameterCount(shape.model);
    for (int unit = 0; unit <= 2; ++unit) {
      filling += UnitElements(parameters, unit);
    }
    CHECK(filling > 0);
    CHECK(static_cast<std::int64_t>(untouched) == filling);
  }
}

TEST_CASE("a call out of its turn is refused, and so is a token that no word has") {
  const TrainingShape shape = Minuscule(true);
  const auto backend = OpenCpuTrainingBackend();
  TrainingRun run(*backend, shape);
  run.SetWeights(SyntheticWeights(shape.model, 3));
  auto tokens = SyntheticTokens(shape, 5);
  BackendMemory unit(*backend, 1U << 16U);
  BackendMemory gradient(*backend, 1U << 16U);
  float loss = 0;
  CHECK(backend->Embed(unit.Get(), tokens.data()).Good());
  CHECK_FALSE(backend->ForwardLayer(1, unit.Get()).Good());
  CHECK_FALSE(backend->ForwardLayer(0, unit.Get()).Good());  // now all of it is lost
  CHECK_FALSE(backend->Loss(unit.Get(), gradient.Get(), &loss).Good());
  CHECK_FALSE(backend->BackwardLayer(1, unit.Get(), gradient.Get()).Good());
  CHECK_FALSE(backend->BackwardEmbed(gradient.Get()).Good());
  tokens[3] = 23;
  CHECK(backend->Embed(unit.Get(), tokens.data()).name == "cudaErrorInvalidValue");
  CHECK_FALSE(backend->PrepareModel(shape).Good());  // once
  const auto other = OpenCpuTrainingBackend();
  for (const auto& spoil :
       {+[](TrainingShape& s) { s.model.kv_heads = 3; },
        +[](TrainingShape& s) { s.model.head_size = 5; }, +[](TrainingShape& s) { s.rows = 0; },
        +[](TrainingShape& s) { s.compute = DataType::kInt32; }}) {
    TrainingShape spoiled = shape;
    spoil(spoiled);
    CHECK_FALSE(other->PrepareModel(spoiled).Good());
  }
}

}  // namespace
}  // namespace dlc
