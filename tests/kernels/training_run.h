#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/training/synthetic_model.h"
#include "kernels/training/training_backend.h"

namespace dlc {

/// Memory of a backend, given back at the end.
class BackendMemory {
 public:
  BackendMemory(TrainingBackend& backend, std::uint64_t bytes) : backend_(backend) {
    const DeviceStatus status = backend.Allocate(bytes, &memory_);
    CAPTURE(status.call);
    REQUIRE(status.Good());
  }
  BackendMemory(const BackendMemory&) = delete;
  BackendMemory& operator=(const BackendMemory&) = delete;
  ~BackendMemory() { backend_.Free(memory_); }
  void* Get() const { return memory_; }
  float* Floats() const { return static_cast<float*>(memory_); }

  template <class T>
  void Put(const std::vector<T>& values) {
    CHECK(backend_.Upload(memory_, values.data(), values.size() * sizeof(T)).Good());
  }
  template <class T>
  std::vector<T> Read(std::size_t count) const {
    std::vector<T> values(count);
    CHECK(backend_.Download(values.data(), memory_, count * sizeof(T)).Good());
    return values;
  }
  /// Of kFloat32 or kBfloat16.
  std::vector<float> ReadAs(DataType type, std::size_t count) const {
    if (type == DataType::kFloat32) {
      return Read<float>(count);
    }
    std::vector<float> values;
    for (const std::uint16_t bits : Read<std::uint16_t>(count)) {
      values.push_back(FloatFromBfloat16(bits));
    }
    return values;
  }
  void PutAs(DataType type, const std::vector<float>& values) {
    if (type == DataType::kFloat32) {
      Put(values);
      return;
    }
    std::vector<std::uint16_t> bits;
    for (const float value : values) {
      bits.push_back(Bfloat16FromFloat(value));
    }
    Put(bits);
  }

 private:
  TrainingBackend& backend_;
  void* memory_ = nullptr;
};

/// Values of all units, unit by unit, filling and all.
using UnitValues = std::vector<std::vector<float>>;

/// The weights that the interface's generator gives, made here by the host.
inline UnitValues SyntheticWeights(const Qwen2Shape& shape, std::uint64_t seed) {
  const auto parameters = Qwen2Parameters(shape);
  UnitValues values;
  for (int unit = 0; unit <= shape.layers; ++unit) {
    values.emplace_back(static_cast<std::size_t>(UnitElements(parameters, unit)));
  }
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    const ModelParameter& parameter = parameters[index];
    const std::uint64_t key = SyntheticKey(seed, index);
    const float mean = InitialMean(parameter);
    for (std::int64_t i = 0; i < parameter.Elements(); ++i) {
      const float part = kWeightSpread * SyntheticNormal(key, static_cast<std::uint64_t>(i));
      values[static_cast<std::size_t>(parameter.unit)]
            [static_cast<std::size_t>(parameter.unit_offset + i)] = mean + part;
    }
  }
  return values;
}

struct MicroBatchResult {
  float loss = 0;
  UnitValues gradients;
};

/// A model on a backend, all of it at once: forward and backward.
class TrainingRun {
 public:
  TrainingRun(TrainingBackend& backend, const TrainingShape& shape)
      : backend_(backend),
        shape_(shape),
        parameters_(Qwen2Parameters(shape.model)),
        loss_(backend, sizeof(float)) {
    for (int unit = 0; unit <= shape.model.layers; ++unit) {
      const auto elements = static_cast<std::size_t>(UnitElements(parameters_, unit));
      units_.push_back(
          std::make_unique<BackendMemory>(backend, elements * ElementBytes(shape.compute)));
      gradients_.push_back(
          std::make_unique<BackendMemory>(backend, elements * ElementBytes(shape.gradients)));
      elements_.push_back(elements);
    }
    REQUIRE(backend.PrepareModel(shape).Good());
  }

  void SetWeights(const UnitValues& values) {
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      units_[unit]->PutAs(shape_.compute, values[unit]);
    }
  }

  MicroBatchResult Run(const std::vector<std::int32_t>& tokens) {
    const auto layers = static_cast<int>(shape_.model.layers);
    const auto root = static_cast<std::size_t>(layers);
    // What a backend forgets to write is seen; the filling is to stay as it was.
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      gradients_[unit]->PutAs(shape_.gradients, std::vector<float>(elements_[unit], kUntouched));
    }
    CHECK(backend_.Embed(units_[root]->Get(), tokens.data()).Good());
    for (int layer = 0; layer < layers; ++layer) {
      CHECK(backend_.ForwardLayer(layer, units_[static_cast<std::size_t>(layer)]->Get()).Good());
    }
    CHECK(backend_.Loss(units_[root]->Get(), gradients_[root]->Get(), loss_.Floats()).Good());
    for (int layer = layers - 1; layer >= 0; --layer) {
      const auto unit = static_cast<std::size_t>(layer);
      CHECK(backend_.BackwardLayer(layer, units_[unit]->Get(), gradients_[unit]->Get()).Good());
    }
    CHECK(backend_.BackwardEmbed(gradients_[root]->Get()).Good());
    CHECK(backend_.Wait().Good());
    MicroBatchResult result;
    result.loss = loss_.Read<float>(1)[0];
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      result.gradients.push_back(gradients_[unit]->ReadAs(shape_.gradients, elements_[unit]));
    }
    return result;
  }

  const std::vector<ModelParameter>& Parameters() const { return parameters_; }

  static constexpr float kUntouched = 1.0F * (1 << 20);

 private:
  TrainingBackend& backend_;
  TrainingShape shape_;
  std::vector<ModelParameter> parameters_;
  std::vector<std::unique_ptr<BackendMemory>> units_;
  std::vector<std::unique_ptr<BackendMemory>> gradients_;
  std::vector<std::size_t> elements_;
  BackendMemory loss_;
};

/// One parameter's part of UnitValues.
inline std::vector<float> PartOf(const UnitValues& values, const ModelParameter& parameter) {
  const std::vector<float>& unit = values[static_cast<std::size_t>(parameter.unit)];
  const auto first = unit.begin() + parameter.unit_offset;
  return {first, first + parameter.Elements()};
}

}  // namespace dlc
