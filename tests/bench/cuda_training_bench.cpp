// Training steps of a preset on one GPU, whole units on the device and no collective: what the
// arithmetic takes. tests/bench/training_torch.py does the same steps with PyTorch's FSDP2; losses
// compare.
//   cuda_training_bench [--preset qwen2.5-1.5b] [--rows 1] [--sequence 128] [--steps 8]
//       [--device 0] [--cublas PATH] [--compute bfloat16|float32] [--check]
// --check: a micro-batch twice must give the same bits, and no loss may be NaN; else exit 1.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/training/cuda_backend.h"
#include "kernels/training/synthetic_model.h"

namespace dlc {
namespace {

constexpr std::uint64_t kBenchSeed = 1;
constexpr std::uint64_t kTokenStream = std::uint64_t{1} << 40;  // plus the step, as fsdp-training
const char* const kPhases[] = {"forward", "loss", "backward", "clip", "optimizer"};
constexpr std::size_t kPhaseCount = std::size(kPhases);

void Require(const DeviceStatus& status, const char* what) {
  if (!status.Good()) {
    std::fprintf(stderr, "%s: %s: %s (%s)\n", what, status.call.c_str(), status.name.c_str(),
                 status.text.c_str());
    std::exit(1);
  }
}

struct BenchUnit {
  std::int64_t elements = 0;
  float* master = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  float* gradient = nullptr;
  void* weights = nullptr;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

class Bench {
 public:
  Bench(TrainingBackend& backend, const TrainingShape& shape)
      : backend_(backend), shape_(shape), parameters_(Qwen2Parameters(shape.model)) {
    for (int unit = 0; unit <= shape.model.layers; ++unit) {
      BenchUnit one;
      one.elements = UnitElements(parameters_, unit);
      const auto count = static_cast<std::uint64_t>(one.elements);
      for (float** to : {&one.master, &one.m, &one.v, &one.gradient}) {
        *to = static_cast<float*>(Take(count * sizeof(float)));
      }
      one.weights = Take(count * ElementBytes(shape.compute));
      units_.push_back(one);
    }
    loss_ = static_cast<float*>(Take(sizeof(float)));
    scale_ = static_cast<float*>(Take(sizeof(float)));
    sum_ = static_cast<double*>(Take(sizeof(double)));
    FillWeights();
    Require(backend.PrepareModel(shape), "PrepareModel");
  }

  /// Forward and backward.
  void MicroBatch(std::int64_t step) {
    const auto layers = static_cast<int>(shape_.model.layers);
    const BenchUnit& root = units_.back();
    const std::vector<std::int32_t> tokens = Tokens(step);
    Mark();
    Require(backend_.Embed(root.weights, tokens.data()), "Embed");
    for (int layer = 0; layer < layers; ++layer) {
      Require(backend_.ForwardLayer(layer, units_[static_cast<std::size_t>(layer)].weights),
              "ForwardLayer");
    }
    Mark();
    Require(backend_.Loss(root.weights, root.gradient, loss_), "Loss");
    Mark();
    for (int layer = layers - 1; layer >= 0; --layer) {
      const BenchUnit& unit = units_[static_cast<std::size_t>(layer)];
      Require(backend_.BackwardLayer(layer, unit.weights, unit.gradient), "BackwardLayer");
    }
    Require(backend_.BackwardEmbed(root.gradient), "BackwardEmbed");
    Mark();
  }

  void Optimize(std::int64_t step) {
    const double zero = 0;
    Require(backend_.Upload(sum_, &zero, sizeof zero), "Upload");
    for (const BenchUnit& unit : units_) {
      Require(backend_.AddSquares(unit.gradient, unit.elements, sum_), "AddSquares");
    }
    Require(backend_.ClipScale(sum_, 1.0, scale_), "ClipScale");
    Mark();
    for (const BenchUnit& unit : units_) {
      Require(backend_.AdamW({}, step, unit.gradient, scale_, unit.master, unit.m, unit.v,
                             unit.weights, shape_.compute, unit.elements),
              "AdamW");
    }
    Mark();
  }

  float Step(std::int64_t step) {
    const auto start = std::chrono::steady_clock::now();
    MicroBatch(step);
    Optimize(step);
    Require(backend_.Wait(), "Wait");
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (step > 2) {  // the first ones load code and choose algorithms
      walls_.push_back(taken.count());
      for (std::size_t phase = 0; phase < kPhaseCount; ++phase) {
        double seconds = 0;
        Require(backend_.SecondsBetween(marks_[phase], marks_[phase + 1], seconds), "marks");
        phases_[phase].push_back(seconds);
      }
    }
    backend_.ForgetMarks();
    marks_.clear();
    return Loss();
  }

  float Loss() {
    float loss = 0;
    Require(backend_.Download(&loss, loss_, sizeof loss), "Download");
    return loss;
  }

  double Norm() {
    double sum = 0;
    Require(backend_.Download(&sum, sum_, sizeof sum), "Download");
    return std::sqrt(sum);
  }

  std::uint64_t GradientHash() {
    std::uint64_t hash = 0;
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      Require(backend_.AddHash(units_[unit].gradient, unit, 0, units_[unit].elements, &hash),
              "AddHash");
    }
    backend_.ForgetMarks();
    marks_.clear();
    return hash;
  }

  void Report() const {
    if (walls_.empty()) {
      std::printf("no step was timed: the first two are not\n");
      return;
    }
    const double step = Median(walls_);
    const double tokens = static_cast<double>(shape_.Tokens());
    const auto parameters = static_cast<double>(ParameterCount(shape_.model));
    const Qwen2Shape& model = shape_.model;
    // Forward 2, backward 4 for each weight and token, and attention's two products of which the
    // mask leaves half.
    const double attention = 6.0 * tokens * static_cast<double>(shape_.sequence) *
                             static_cast<double>(model.heads * model.head_size * model.layers);
    const double operations = 6 * parameters * tokens + attention;
    std::printf("step %.2f ms median of %zu, %.0f tokens/s, %.1f TFLOP/s\n", step * 1e3,
                walls_.size(), tokens / step, operations / step / 1e12);
    for (std::size_t phase = 0; phase < kPhaseCount; ++phase) {
      std::printf("  %-9s %8.3f ms\n", kPhases[phase], Median(phases_[phase]) * 1e3);
    }
  }

 private:
  void* Take(std::uint64_t bytes) {
    void* memory = nullptr;
    Require(backend_.Allocate(bytes, &memory), "Allocate");
    return memory;
  }
  void Mark() { marks_.push_back(backend_.Mark(TrainingQueue::kCompute)); }

  void FillWeights() {
    for (std::size_t index = 0; index < parameters_.size(); ++index) {
      const ModelParameter& parameter = parameters_[index];
      const BenchUnit& unit = units_[static_cast<std::size_t>(parameter.unit)];
      Require(
          backend_.FillNormal(unit.master + parameter.unit_offset, SyntheticKey(kBenchSeed, index),
                              0, parameter.Elements(), InitialMean(parameter), kWeightSpread),
          "FillNormal");
    }
    for (const BenchUnit& unit : units_) {
      int pieces = 0;
      Require(backend_.PreparePieces({{0, 0, unit.elements}}, pieces), "PreparePieces");
      Require(backend_.Move(pieces, unit.master, DataType::kFloat32, unit.weights, shape_.compute,
                            TrainingQueue::kCompute),
              "Move");
    }
  }

  std::vector<std::int32_t> Tokens(std::int64_t step) const {
    const std::uint64_t key =
        SyntheticKey(kBenchSeed, kTokenStream + static_cast<std::uint64_t>(step - 1));
    return SyntheticTokens(shape_, key);
  }

  TrainingBackend& backend_;
  TrainingShape shape_;
  std::vector<ModelParameter> parameters_;
  std::vector<BenchUnit> units_;
  float* loss_ = nullptr;
  float* scale_ = nullptr;
  double* sum_ = nullptr;
  std::vector<int> marks_;
  std::vector<double> walls_;
  std::vector<double> phases_[kPhaseCount];
};

int Run(const TrainingShape& shape, int device, const std::string& cublas, int steps, bool check) {
  const auto start = std::chrono::steady_clock::now();
  DeviceStatus status;
  const auto backend = OpenCudaTrainingBackend(device, status, {cublas});
  Require(status, "OpenCudaTrainingBackend");
  std::uint64_t free_before = 0;
  std::uint64_t free_after = 0;
  std::uint64_t total = 0;
  Require(backend->FreeMemory(free_before, total), "FreeMemory");
  Bench bench(*backend, shape);
  bool good = true;
  if (check) {
    bench.MicroBatch(0);
    const float loss = bench.Loss();
    const std::uint64_t hash = bench.GradientHash();
    bench.MicroBatch(0);
    const bool same = bench.Loss() == loss && bench.GradientHash() == hash;
    std::printf("a micro-batch twice: loss %.6f, gradients %s\n", static_cast<double>(loss),
                same ? "bit for bit the same" : "DIFFER");
    good = same && std::isfinite(loss);
  }
  for (int step = 1; step <= steps; ++step) {
    const float loss = bench.Step(step);
    std::printf("step %d loss %.6f gradient norm %.6f\n", step, static_cast<double>(loss),
                bench.Norm());
    good = good && std::isfinite(loss);
  }
  Require(backend->FreeMemory(free_after, total), "FreeMemory");
  bench.Report();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  std::printf("memory taken %.2f GiB, of it activations %.2f GiB; %.1f s in all\n",
              static_cast<double>(free_before - free_after) / (1 << 30),
              static_cast<double>(backend->ActivationBytes(shape)) / (1 << 30), taken.count());
  return good ? 0 : 1;
}

}  // namespace
}  // namespace dlc

int main(int argc, char** argv) {
  std::map<std::string, std::string> options = {{"--preset", "qwen2.5-1.5b"},
                                                {"--rows", "1"},
                                                {"--sequence", "128"},
                                                {"--steps", "8"},
                                                {"--device", "0"},
                                                {"--cublas", ""},
                                                {"--compute", "bfloat16"}};
  bool check = false;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--check") {
      check = true;
    } else if (options.count(name) == 1 && i + 1 < argc) {
      options[name] = argv[++i];
    } else {
      std::fprintf(stderr, "cuda_training_bench: %s?\n", argv[i]);
      return 2;
    }
  }
  dlc::TrainingShape shape;
  const auto preset = dlc::Qwen2Preset(options["--preset"]);
  shape.rows = std::atoll(options["--rows"].c_str());
  shape.sequence = std::atoll(options["--sequence"].c_str());
  if (!preset || shape.rows <= 0 || shape.sequence <= 0) {
    std::fprintf(stderr, "cuda_training_bench: no such preset or shape\n");
    return 2;
  }
  shape.model = *preset;
  shape.compute =
      options["--compute"] == "float32" ? dlc::DataType::kFloat32 : dlc::DataType::kBfloat16;
  return dlc::Run(shape, std::atoi(options["--device"].c_str()), options["--cublas"],
                  std::atoi(options["--steps"].c_str()), check);
}
