#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/training/cpu_backend.h"
#include "tests/kernels/training_run.h"

namespace dlc {
namespace {

using nlohmann::json;

/// What PyTorch and transformers computed; tests/kernels/qwen2_reference.py says how.
json Reference() {
  std::ifstream file(std::string(DLC_TESTDATA) + "/training/qwen2_reference.json");
  REQUIRE(file.good());
  return json::parse(file);
}

AdamWOptions OptionsOf(const json& options) {
  return {options.at("rate"), options.at("beta1"), options.at("beta2"), options.at("epsilon"),
          options.at("weight_decay")};
}

TrainingShape ShapeOf(const json& model) {
  const json& shape = model.at("shape");
  TrainingShape result;
  result.model = {shape.at("hidden"),        shape.at("layers"),     shape.at("heads"),
                  shape.at("kv_heads"),      shape.at("head_size"),  shape.at("intermediate"),
                  shape.at("vocabulary"),    shape.at("rope_theta"), shape.at("rms_epsilon"),
                  shape.at("tied_embedding")};
  result.rows = model.at("rows");
  result.sequence = model.at("sequence");
  return result;
}

/// The largest |found - expected| / (|expected| + scale) over what is stored of a tensor. The scale
/// of an element is the root mean square of its tensor's elements, that of their sum the norm, and
/// of the norm 0.
double DistanceFrom(const json& stored, const std::vector<float>& found) {
  double squares = 0;
  double sum = 0;
  for (const float value : found) {
    squares += static_cast<double>(value) * static_cast<double>(value);
    sum += static_cast<double>(value);
  }
  const auto apart = [](double value, double expected, double scale) {
    return std::abs(value - expected) / (std::abs(expected) + scale);
  };
  const double norm = stored.at("norm");
  const double typical = norm / std::sqrt(static_cast<double>(found.size()));
  double worst = std::max(apart(std::sqrt(squares), norm, 0), apart(sum, stored.at("sum"), norm));
  const auto places = stored.at("places").get<std::vector<std::size_t>>();
  REQUIRE(!places.empty());
  for (std::size_t i = 0; i < places.size(); ++i) {
    worst = std::max(worst, apart(static_cast<double>(found.at(places[i])),
                                  stored.at("values").at(i).get<double>(), typical));
  }
  return worst;
}

/// Master parameters and the optimizer's state of a whole model on a backend, and a run.
class OptimizedRun {
 public:
  OptimizedRun(TrainingBackend& backend, const TrainingShape& shape, UnitValues weights)
      : backend_(backend),
        run_(backend, shape),
        weights_(std::move(weights)),
        sum_(backend, sizeof(double)),
        scale_(backend, sizeof(float)) {
    for (const auto& unit : weights_) {
      first_.emplace_back(unit.size());
      second_.emplace_back(unit.size());
    }
  }

  MicroBatchResult Step(const std::vector<std::int32_t>& tokens, const AdamWOptions& options,
                        double clip) {
    run_.SetWeights(weights_);
    MicroBatchResult result = run_.Run(tokens);
    ++step_;
    sum_.Put(std::vector<double>{0});
    ForEachParameter([&](std::size_t unit, std::int64_t at, std::int64_t count) {
      CHECK(backend_
                .AddSquares(result.gradients[unit].data() + at, count,
                            static_cast<double*>(sum_.Get()))
                .Good());
    });
    CHECK(backend_.ClipScale(static_cast<double*>(sum_.Get()), clip, scale_.Floats()).Good());
    ForEachParameter([&](std::size_t unit, std::int64_t at, std::int64_t count) {
      CHECK(backend_
                .AdamW(options, step_, result.gradients[unit].data() + at, scale_.Floats(),
                       weights_[unit].data() + at, first_[unit].data() + at,
                       second_[unit].data() + at, nullptr, DataType::kFloat32, count)
                .Good());
    });
    return result;
  }
  double GradientNorm() const { return std::sqrt(sum_.Read<double>(1)[0]); }
  const std::vector<ModelParameter>& Parameters() const { return run_.Parameters(); }
  const UnitValues& Weights() const { return weights_; }
  const UnitValues& First() const { return first_; }
  const UnitValues& Second() const { return second_; }

 private:
  template <class Body>
  void ForEachParameter(Body body) {
    for (const ModelParameter& parameter : run_.Parameters()) {
      body(static_cast<std::size_t>(parameter.unit), parameter.unit_offset, parameter.Elements());
    }
  }

  TrainingBackend& backend_;
  TrainingRun run_;
  UnitValues weights_;
  UnitValues first_;
  UnitValues second_;
  std::int64_t step_ = 0;
  BackendMemory sum_;
  BackendMemory scale_;
};

TEST_CASE("loss, gradients and three steps are those of PyTorch") {
  const json reference = Reference();
  REQUIRE(reference.at("models").size() == 2);
  for (const json& model : reference.at("models")) {
    CAPTURE(model.at("name").get<std::string>());
    const TrainingShape shape = ShapeOf(model);
    if (model.at("name") == "qwen2-tiny") {
      CHECK(shape.model == *Qwen2Preset("qwen2-tiny"));
    }
    const std::uint64_t seed = model.at("seed");
    const auto backend = OpenCpuTrainingBackend();
    OptimizedRun run(*backend, shape, SyntheticWeights(shape.model, seed));
    std::uint64_t step = 0;
    for (const json& expected : model.at("steps")) {
      CAPTURE(step);
      const MicroBatchResult result =
          run.Step(SyntheticTokens(shape, SyntheticKey(seed, 1000 + step)),
                   OptionsOf(model.at("adamw")), model.at("clip"));
      CHECK(static_cast<double>(result.loss) ==
            doctest::Approx(expected.at("loss").get<double>()).epsilon(1e-6));
      CHECK(run.GradientNorm() ==
            doctest::Approx(expected.at("gradient_norm").get<double>()).epsilon(1e-5));
      for (const ModelParameter& parameter : run.Parameters()) {
        CAPTURE(parameter.name);
        if (step == 0) {
          CHECK(DistanceFrom(model.at("gradients").at(parameter.name),
                             PartOf(result.gradients, parameter)) < 1e-5);
        }
      }
      ++step;
    }
    CHECK(model.at("gradients").size() == run.Parameters().size());
    for (const ModelParameter& parameter : run.Parameters()) {
      CAPTURE(parameter.name);
      const json& expected = model.at("parameters").at(parameter.name);
      CHECK(DistanceFrom(expected.at("value"), PartOf(run.Weights(), parameter)) < 1e-5);
      CHECK(DistanceFrom(expected.at("m"), PartOf(run.First(), parameter)) < 1e-5);
      CHECK(DistanceFrom(expected.at("v"), PartOf(run.Second(), parameter)) < 2e-5);
    }
  }
}

TEST_CASE("the comparison with PyTorch sees what is slightly wrong") {
  const json reference = Reference();
  const json& model = reference.at("models").at(0);
  const std::uint64_t seed = model.at("seed");
  const auto worst_of = [&](void (*spoil)(TrainingShape&),
                            void (*spoil_gradient)(std::vector<float>&)) {
    TrainingShape shape = ShapeOf(model);
    const auto tokens = SyntheticTokens(shape, SyntheticKey(seed, 1000));
    spoil(shape);
    const auto backend = OpenCpuTrainingBackend();
    TrainingRun run(*backend, shape);
    run.SetWeights(SyntheticWeights(shape.model, seed));
    const MicroBatchResult result = run.Run(tokens);
    double worst = 0;
    for (const ModelParameter& parameter : run.Parameters()) {
      std::vector<float> gradient = PartOf(result.gradients, parameter);
      spoil_gradient(gradient);
      worst = std::max(worst, DistanceFrom(model.at("gradients").at(parameter.name), gradient));
    }
    return worst;
  };
  const auto no_shape = +[](TrainingShape&) {};
  const auto no_gradient = +[](std::vector<float>&) {};
  CHECK(worst_of(no_shape, no_gradient) < 1e-5);
  // Every one of these is far beyond the bound.
  CHECK(worst_of(
            +[](TrainingShape& shape) { shape.model.rope_theta *= 1.01; }, no_gradient) > 1e-3);
  CHECK(worst_of(
            +[](TrainingShape& shape) { shape.model.rms_epsilon *= 10; }, no_gradient) > 1e-4);
  CHECK(worst_of(
            +[](TrainingShape& shape) { shape.compute = DataType::kBfloat16; }, no_gradient) >
        1e-3);
  // A mean over one token more, a neighbour's place, and one element of a large gradient.
  CHECK(worst_of(
            no_shape, +[](std::vector<float>& gradient) {
              for (float& value : gradient) {
                value *= 74.0F / 75;
              }
            }) > 1e-3);
  CHECK(worst_of(
            no_shape, +[](std::vector<float>& gradient) {
              std::rotate(gradient.begin(), gradient.begin() + 1, gradient.end());
            }) > 1e-3);
  CHECK(worst_of(
            no_shape, +[](std::vector<float>& gradient) { gradient[gradient.size() / 2] = 0; }) >
        1e-4);
}

TEST_CASE("AdamW alone is torch's, on both sides of lerp's turn") {
  const json reference = Reference();
  REQUIRE(reference.at("adamw").size() == 2);
  for (const json& expected : reference.at("adamw")) {
    const std::uint64_t seed = expected.at("seed");
    const std::size_t count = expected.at("value").size();
    const auto backend = OpenCpuTrainingBackend();
    const auto values = [&](std::uint64_t stream) {
      std::vector<float> filled(count);
      CHECK(backend
                ->FillNormal(filled.data(), SyntheticKey(seed, stream), 0,
                             static_cast<std::int64_t>(count), 0, 1)
                .Good());
      return filled;
    };
    std::vector<float> parameter = values(0);
    std::vector<float> m(count);
    std::vector<float> v(count);
    std::vector<std::uint16_t> copy(count);
    const float scale = 1;
    for (std::uint64_t step = 1; step <= expected.at("steps"); ++step) {
      const std::vector<float> gradient = values(step);
      CHECK(backend
                ->AdamW(OptionsOf(expected.at("options")), static_cast<std::int64_t>(step),
                        gradient.data(), &scale, parameter.data(), m.data(), v.data(), copy.data(),
                        DataType::kBfloat16, static_cast<std::int64_t>(count))
                .Good());
    }
    // Torch's own vectors fuse some products and sums: a few units of the last place.
    for (std::size_t i = 0; i < count; ++i) {
      for (const auto& [name, found] :
           {std::pair<const char*, float>{"value", parameter[i]}, {"m", m[i]}, {"v", v[i]}}) {
        CAPTURE(name);
        CHECK(static_cast<double>(found) ==
              doctest::Approx(expected.at(name).at(i).get<double>()).epsilon(4e-7));
      }
      CHECK(copy[i] == Bfloat16FromFloat(parameter[i]));
    }
  }
}

}  // namespace
}  // namespace dlc
