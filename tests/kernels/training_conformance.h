#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/training_run.h"

namespace dlc {

/// What every TrainingBackend must do, held against another one that is known to do it: the names
/// of the operations that differ, none if all agree. `found` is judged, `expected` is the judge
/// (the CPU's).
using Disagreements = std::vector<std::string>;
/// As doctest shows it: "" if all agree.
inline std::string Told(const Disagreements& disagreements) {
  std::string text;
  for (const std::string& name : disagreements) {
    text += name + "\n";
  }
  return text;
}

using OpenTrainingBackend = std::function<std::unique_ptr<TrainingBackend>()>;

/// ||found - expected|| / ||expected||; infinite where a value is no number, 0 where both are 0.
inline double RelativeDistance(const std::vector<float>& found,
                               const std::vector<float>& expected) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double apart = static_cast<double>(found.at(i)) - static_cast<double>(expected[i]);
    difference += apart * apart;
    norm += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  if (!std::isfinite(difference)) {
    return std::numeric_limits<double>::infinity();
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

inline bool SameBits(const std::vector<float>& found, const std::vector<float>& expected) {
  return found.size() == expected.size() &&
         std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0;
}

/// Values with what conversions may stumble over.
inline std::vector<float> AwkwardFloats(std::size_t count, std::uint64_t key) {
  const float infinity = std::numeric_limits<float>::infinity();
  // Ties between two bfloat16, to even downwards and upwards; beyond the largest; below the normal.
  const float awkward[] = {1.00390625F, 1.01171875F, -1.00390625F, 3.4e38F, -infinity,
                           1e-40F,      -1e-45F,     -0.0F,        0.0F};
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = i % 5 == 3 ? awkward[i / 5 % std::size(awkward)] : SyntheticNormal(key, i);
  }
  return values;
}

/// Does the same on two backends and compares what comes back.
class ShardComparison {
 public:
  ShardComparison(TrainingBackend& found, TrainingBackend& expected, std::int64_t count)
      : backends_{&found, &expected}, count_(count) {}

  void CompareAll() {
    Fills();
    Moves();
    Accumulations();
    Squares();
    Optimizer();
    Hashes();
    Comparisons();
  }
  Disagreements Found() const { return disagreements_; }

 private:
  template <class Body>
  void Compare(const std::string& name, Body body) {
    const std::vector<float> found = body(*backends_[0]);
    const std::vector<float> expected = body(*backends_[1]);
    if (!SameBits(found, expected)) {
      disagreements_.push_back(name + " of " + std::to_string(count_));
    }
  }
  std::size_t Size() const { return static_cast<std::size_t>(count_); }

  void Fills() {
    Compare("FillNormal", [&](TrainingBackend& backend) {
      BackendMemory to(backend, Size() * 4);
      CHECK(backend.FillNormal(to.Floats(), 7, 5000000000, count_, 1, kWeightSpread).Good());
      return to.Read<float>(Size());
    });
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
      Compare("FillIntegers", [&](TrainingBackend& backend) {
        BackendMemory to(backend, Size() * 4);
        CHECK(backend.FillIntegers(to.Get(), type, 7, 5000000000, count_).Good());
        return to.ReadAs(type, Size());
      });
    }
  }

  /// Odd pieces, moved from one end to the other; what is between them stays.
  std::vector<Piece> OddPieces() const {
    std::vector<Piece> pieces;
    std::int64_t at = 0;
    for (std::int64_t size = 1; at + size + 2 <= count_; size = size * 3 % 1000 + 1) {
      pieces.push_back({at, count_ - at - size, size});
      at += size + 2;
    }
    return pieces.empty() ? std::vector<Piece>{{0, 0, count_}} : pieces;
  }

  void Moves() {
    for (const DataType from_type : {DataType::kFloat32, DataType::kBfloat16}) {
      for (const DataType to_type : {DataType::kFloat32, DataType::kBfloat16}) {
        for (const TrainingQueue queue : {TrainingQueue::kCompute, TrainingQueue::kCommunication}) {
          Compare("Move", [&](TrainingBackend& backend) {
            BackendMemory from(backend, Size() * 4);
            BackendMemory to(backend, Size() * 4);
            from.PutAs(from_type, AwkwardFloats(Size(), 3));
            to.PutAs(to_type, std::vector<float>(Size(), 42));
            int handle = -1;
            CHECK(backend.PreparePieces(OddPieces(), handle).Good());
            for (int twice = 0; twice < 2; ++twice) {
              CHECK(backend.Move(handle, from.Get(), from_type, to.Get(), to_type, queue).Good());
            }
            const int mark = backend.Mark(queue);
            CHECK(backend.WaitFor(TrainingQueue::kCompute, mark).Good());
            return to.ReadAs(to_type, Size());
          });
        }
      }
    }
  }

  void Accumulations() {
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
      for (const bool add : {false, true}) {
        Compare("Accumulate", [&](TrainingBackend& backend) {
          BackendMemory from(backend, Size() * 4);
          BackendMemory into(backend, Size() * 4);
          from.PutAs(type, AwkwardFloats(Size(), 3));
          CHECK(backend.FillNormal(into.Floats(), 9, 0, count_, 0, 1).Good());
          CHECK(backend.Accumulate(into.Floats(), from.Get(), type, 1.0F / 3, add, count_).Good());
          return into.Read<float>(Size());
        });
      }
    }
  }

  /// Another order of additions is allowed, another order in another run is not.
  void Squares() {
    const auto sum_of = [&](TrainingBackend& backend) {
      BackendMemory values(backend, Size() * 4);
      BackendMemory sum(backend, sizeof(double));
      CHECK(backend.FillNormal(values.Floats(), 9, 0, count_, 0.5F, 1).Good());
      sum.Put(std::vector<double>{2});
      CHECK(backend.AddSquares(values.Floats(), count_, static_cast<double*>(sum.Get())).Good());
      return sum.Read<double>(1)[0];
    };
    const double found = sum_of(*backends_[0]);
    const double expected = sum_of(*backends_[1]);
    if (!(std::abs(found - expected) <= 1e-12 * expected) || found != sum_of(*backends_[0])) {
      disagreements_.push_back("AddSquares of " + std::to_string(count_));
    }
    const auto scale_of = [](TrainingBackend& backend, double squares, double largest) {
      BackendMemory sum(backend, sizeof(double));
      BackendMemory scale(backend, sizeof(float));
      sum.Put(std::vector<double>{squares});
      CHECK(backend.ClipScale(static_cast<double*>(sum.Get()), largest, scale.Floats()).Good());
      return scale.Read<float>(1);
    };
    for (const double largest : {0.5, 1e9}) {
      Compare("ClipScale",
              [&](TrainingBackend& backend) { return scale_of(backend, 3.7, largest); });
    }
    // A gradient that is no number may not be clipped into one that looks healthy.
    const double no_number = std::numeric_limits<double>::quiet_NaN();
    if (!std::isnan(scale_of(*backends_[0], no_number, 1)[0])) {
      disagreements_.push_back("ClipScale of what is no number");
    }
  }

  void Optimizer() {
    for (const float beta1 : {0.9F, 0.4F}) {
      for (const DataType copy_type : {DataType::kFloat32, DataType::kBfloat16}) {
        Compare("AdamW", [&](TrainingBackend& backend) {
          return FewSteps(backend, {1e-2F, beta1, 0.99F, 1e-8F, 0.1F}, copy_type);
        });
      }
    }
  }

  std::vector<float> FewSteps(TrainingBackend& backend, const AdamWOptions& options,
                              DataType copy_type) const {
    BackendMemory gradient(backend, Size() * 4);
    BackendMemory parameter(backend, Size() * 4);
    BackendMemory m(backend, Size() * 4);
    BackendMemory v(backend, Size() * 4);
    BackendMemory copy(backend, Size() * 4);
    BackendMemory scale(backend, sizeof(float));
    scale.Put(std::vector<float>{0.3F});
    CHECK(backend.FillNormal(parameter.Floats(), 1, 0, count_, 0, 1).Good());
    for (std::int64_t step = 1; step <= 3; ++step) {
      const auto key = static_cast<std::uint64_t>(100 + step);
      CHECK(backend.FillNormal(gradient.Floats(), key, 0, count_, 0, 1e-3F).Good());
      CHECK(backend
                .AdamW(options, step, gradient.Floats(), scale.Floats(), parameter.Floats(),
                       m.Floats(), v.Floats(), step == 2 ? nullptr : copy.Get(), copy_type, count_)
                .Good());
    }
    std::vector<float> all = parameter.Read<float>(Size());
    for (const std::vector<float>& more :
         {m.Read<float>(Size()), v.Read<float>(Size()), copy.ReadAs(copy_type, Size())}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

  void Hashes() {
    const auto hash_of = [&](TrainingBackend& backend, std::int64_t cut) {
      BackendMemory values(backend, Size() * 4);
      values.Put(AwkwardFloats(Size(), 3));
      std::uint64_t hash = 1;
      CHECK(backend.AddHash(values.Floats(), 5, 70, cut, &hash).Good());
      CHECK(backend.AddHash(values.Floats() + cut, 5, 70 + cut, count_ - cut, &hash).Good());
      return hash;
    };
    const std::uint64_t expected = hash_of(*backends_[1], 0);
    if (hash_of(*backends_[0], 0) != expected || hash_of(*backends_[0], count_ / 3) != expected) {
      disagreements_.push_back("AddHash of " + std::to_string(count_));
    }
  }

  void Comparisons() {
    const auto compare = [&](TrainingBackend& backend) {
      BackendMemory left(backend, Size() * 4);
      BackendMemory right(backend, Size() * 4);
      std::vector<float> values = AwkwardFloats(Size(), 3);
      right.Put(values);
      for (std::size_t i = 0; i < Size(); i += 4) {
        values[i] += 0.25F;
      }
      values[Size() / 2] = std::numeric_limits<float>::quiet_NaN();
      left.Put(values);
      FloatComparison comparison;
      comparison.different = 3;  // is added to
      CHECK(backend.Compare(left.Floats(), right.Floats(), count_, comparison).Good());
      return comparison;
    };
    const FloatComparison found = compare(*backends_[0]);
    const FloatComparison expected = compare(*backends_[1]);
    const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); };
    if (found.elements != expected.elements || found.different != expected.different ||
        found.not_finite != expected.not_finite ||
        found.largest_difference != expected.largest_difference ||
        found.largest_expected != expected.largest_expected ||
        !near(found.sum_squared_difference, expected.sum_squared_difference) ||
        !near(found.sum_squared_expected, expected.sum_squared_expected)) {
      disagreements_.push_back("Compare of " + std::to_string(count_));
    }
  }

  TrainingBackend* backends_[2];
  std::int64_t count_;
  Disagreements disagreements_;
};

/// The part that works on shards, which has to agree bit for bit.
inline Disagreements CompareShards(TrainingBackend& found, TrainingBackend& expected) {
  Disagreements all;
  for (const std::int64_t count : {1, 7, 1000, 70001}) {
    ShardComparison comparison(found, expected, count);
    comparison.CompareAll();
    const Disagreements some = comparison.Found();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

/// The promises about memory and marks, which need no judge.
inline void CheckMemoryAndMarks(TrainingBackend& backend) {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
  CHECK(backend.FreeMemory(free_bytes, total_bytes).Good());
  CHECK(free_bytes > 0);
  CHECK(free_bytes <= total_bytes);
  void* memory = nullptr;
  for (const std::uint64_t bytes : {2 * total_bytes, std::uint64_t{1} << 60}) {
    const DeviceStatus status = backend.Allocate(bytes, &memory);
    CHECK(status.code == 2);
    CHECK(status.name == "cudaErrorMemoryAllocation");
    CHECK(status.call.find(std::to_string(bytes)) != std::string::npos);
  }
  BackendMemory zeros(backend, 1000);  // after a refusal all goes on
  CHECK(zeros.Read<std::uint8_t>(1000) == std::vector<std::uint8_t>(1000, 0));
  CHECK(reinterpret_cast<std::uintptr_t>(zeros.Get()) % 256 == 0);
  backend.Free(nullptr);

  const int first = backend.Mark(TrainingQueue::kCompute);
  CHECK(backend.WaitFor(TrainingQueue::kCommunication, first).Good());
  const int second = backend.Mark(TrainingQueue::kCommunication);
  CHECK(first >= 0);
  CHECK(second >= 0);
  CHECK(backend.Wait().Good());
  bool done = false;
  CHECK(backend.IsDone(second, done).Good());
  CHECK(done);
  double seconds = -1;
  CHECK(backend.SecondsBetween(first, second, seconds).Good());
  CHECK(seconds >= 0);
  backend.ForgetMarks();
}

/// A micro-batch on fresh backends: loss and the gradient of each parameter. With kFloat32 as
/// compute they may be 1e-5 apart, relative to the parameter's norm. With kBfloat16 both are also
/// held against `expected` in float32 with the same (rounded) weights, and `found` may be at most
/// three times as far from that as `expected` is, and 2^-9 of the norm: two right ways to round are
/// as far from each other as from the truth.
inline Disagreements CompareModel(const OpenTrainingBackend& found,
                                  const OpenTrainingBackend& expected, const TrainingShape& shape,
                                  UnitValues weights, const std::vector<std::int32_t>& tokens) {
  const auto run = [&](const OpenTrainingBackend& open, const TrainingShape& with) {
    const auto backend = open();
    REQUIRE(backend != nullptr);
    TrainingRun training(*backend, with);
    training.SetWeights(weights);
    const MicroBatchResult result = training.Run(tokens);
    const MicroBatchResult again = training.Run(tokens);
    CHECK(result.loss == again.loss);  // the same bits in every run
    for (std::size_t unit = 0; unit < weights.size(); ++unit) {
      CHECK(SameBits(result.gradients[unit], again.gradients[unit]));
    }
    return result;
  };
  const bool rounds =
      shape.compute == DataType::kBfloat16 || shape.gradients == DataType::kBfloat16;
  for (auto& unit : weights) {
    for (float& value : unit) {
      value = shape.compute == DataType::kBfloat16 ? FloatFromBfloat16(Bfloat16FromFloat(value))
                                                   : value;
    }
  }
  TrainingShape exact = shape;
  exact.compute = exact.gradients = DataType::kFloat32;
  const MicroBatchResult truth = run(expected, exact);
  const MicroBatchResult judge = rounds ? run(expected, shape) : truth;
  const MicroBatchResult judged = run(found, shape);

  Disagreements all;
  const auto differ = [&](const std::string& name, double distance, double allowed) {
    if (!(distance <= allowed)) {
      all.push_back(name + ": " + std::to_string(distance) + " > " + std::to_string(allowed));
    }
  };
  const auto loss = [&](const MicroBatchResult& result) {
    return std::abs(static_cast<double>(result.loss) / static_cast<double>(truth.loss) - 1);
  };
  differ("loss", loss(judged), rounds ? 3 * loss(judge) + 1.0 / 2048 : 1e-5);
  for (const ModelParameter& parameter : Qwen2Parameters(shape.model)) {
    const std::vector<float> right = PartOf(truth.gradients, parameter);
    const double of_judge = RelativeDistance(PartOf(judge.gradients, parameter), right);
    differ(parameter.name, RelativeDistance(PartOf(judged.gradients, parameter), right),
           rounds ? 3 * of_judge + 1.0 / 512 : 1e-5);
  }
  std::size_t untouched[2] = {};
  for (std::size_t unit = 0; unit < weights.size(); ++unit) {
    const auto count = [&](const MicroBatchResult& result) {
      const auto& values = result.gradients[unit];
      return static_cast<std::size_t>(
          std::count(values.begin(), values.end(), TrainingRun::kUntouched));
    };
    untouched[0] += count(judged);
    untouched[1] += count(judge);
  }
  differ("filling", untouched[0] == untouched[1] ? 0 : 1, 0);
  return all;
}

/// Shapes that meet what is special: sizes that divide nothing; an untied head; one key head for
/// all; a head size of its own; many tokens and words.
inline std::vector<TrainingShape> ConformanceShapes(DataType compute, DataType gradients) {
  std::vector<TrainingShape> shapes(3);
  shapes[0].model = *Qwen2Preset("qwen2-tiny");
  shapes[0].rows = 2;
  shapes[0].sequence = 37;
  shapes[1].model = {272, 2, 8, 1, 12, 300, 1100, 1e6, 1e-5, false};
  shapes[1].rows = 3;
  shapes[1].sequence = 47;
  // The head size of Qwen2.5-1.5B, where tensor cores are at home.
  shapes[2].model = {256, 1, 2, 1, 128, 320, 640, 1e6, 1e-6, true};
  shapes[2].rows = 1;
  shapes[2].sequence = 144;
  for (TrainingShape& shape : shapes) {
    shape.compute = compute;
    shape.gradients = gradients;
  }
  return shapes;
}

/// CompareModel over ConformanceShapes, weights and tokens made by the generator.
inline Disagreements CompareModels(const OpenTrainingBackend& found,
                                   const OpenTrainingBackend& expected, DataType compute,
                                   DataType gradients) {
  Disagreements all;
  for (const TrainingShape& shape : ConformanceShapes(compute, gradients)) {
    for (const std::string& name :
         CompareModel(found, expected, shape, SyntheticWeights(shape.model, 21),
                      SyntheticTokens(shape, SyntheticKey(22, 0)))) {
      all.push_back("hidden " + std::to_string(shape.model.hidden) + ": " + name);
    }
  }
  return all;
}

}  // namespace dlc
