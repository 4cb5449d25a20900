// How fast the CPU trains: products of matrices, and micro-batches of a preset. One line each.
//   training_bench [PRESET ROWS SEQUENCE]      default qwen2-tiny 2 64
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/training/cpu_backend.h"
#include "kernels/training/cpu_matrix.h"
#include "kernels/training/synthetic.h"

namespace dlc {
namespace {

/// The best of several runs.
double Seconds(const std::function<void()>& work) {
  double best = 1e30;
  for (int run = 0; run < 10; ++run) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::min(best, taken.count());
  }
  return best;
}

void Products() {
  for (const std::int64_t n : {64, 150, 512, 1024}) {
    const auto size = static_cast<std::size_t>(n * n);
    std::vector<float> left(size, 1.5F);
    std::vector<float> right(size, 0.5F);
    std::vector<float> out(size);
    for (const bool turned : {false, true}) {
      const CpuMatrix by_rows{right.data(), n, 1};
      const double seconds = Seconds([&] {
        CpuMultiply(n, n, n, {left.data(), n, 1}, turned ? by_rows.Transposed() : by_rows,
                    {out.data(), n, false});
      });
      std::printf("product %4lld%s %7.2f GFLOP/s\n", static_cast<long long>(n),
                  turned ? " turned" : "       ",
                  2e-9 * static_cast<double>(n * n) * static_cast<double>(n) / seconds);
    }
  }
}

bool MicroBatches(const TrainingShape& shape) {
  const auto backend = OpenCpuTrainingBackend();
  const auto parameters = Qwen2Parameters(shape.model);
  const auto layers = static_cast<int>(shape.model.layers);
  std::vector<void*> units;
  std::vector<void*> gradients;
  for (int unit = 0; unit <= layers; ++unit) {
    const auto bytes = static_cast<std::uint64_t>(UnitElements(parameters, unit)) * 4;
    for (auto* list : {&units, &gradients}) {
      list->push_back(nullptr);
      if (const DeviceStatus status = backend->Allocate(bytes, &list->back()); !status.Good()) {
        std::printf("%s: %s\n", status.call.c_str(), status.name.c_str());
        return false;
      }
    }
    backend->FillNormal(static_cast<float*>(units.back()), static_cast<std::uint64_t>(unit), 0,
                        UnitElements(parameters, unit), 0, kWeightSpread);
  }
  if (const DeviceStatus status = backend->PrepareModel(shape); !status.Good()) {
    std::printf("%s: %s\n", status.call.c_str(), status.name.c_str());
    return false;
  }
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < shape.rows * (shape.sequence + 1); ++i) {
    tokens.push_back(static_cast<std::int32_t>(i * 7 % shape.model.vocabulary));
  }
  float loss = 0;
  double parts[4] = {};
  const auto timed = [&](int part, const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    parts[part] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const auto root = static_cast<std::size_t>(layers);
  const double seconds = Seconds([&] {
    std::fill(parts, parts + 4, 0);
    timed(0, [&] { backend->Embed(units[root], tokens.data()); });
    for (std::size_t layer = 0; layer < root; ++layer) {
      timed(1, [&] { backend->ForwardLayer(static_cast<int>(layer), units[layer]); });
    }
    timed(2, [&] { backend->Loss(units[root], gradients[root], &loss); });
    for (std::size_t layer = root; layer-- > 0;) {
      timed(3, [&] {
        backend->BackwardLayer(static_cast<int>(layer), units[layer], gradients[layer]);
      });
    }
    timed(0, [&] { backend->BackwardEmbed(gradients[root]); });
  });
  std::printf("micro-batch %.3f ms (embedding %.3f, forward %.3f, loss %.3f, backward %.3f)\n",
              seconds * 1e3, parts[0] * 1e3, parts[1] * 1e3, parts[2] * 1e3, parts[3] * 1e3);
  for (auto* list : {&units, &gradients}) {
    for (void* memory : *list) {
      backend->Free(memory);
    }
  }
  return true;
}

}  // namespace
}  // namespace dlc

int main(int argc, char** argv) {
  dlc::TrainingShape shape;
  const auto preset = dlc::Qwen2Preset(argc > 1 ? argv[1] : "qwen2-tiny");
  shape.rows = argc > 3 ? std::atoll(argv[2]) : 2;
  shape.sequence = argc > 3 ? std::atoll(argv[3]) : 64;
  if (!preset || (argc != 1 && argc != 4) || shape.Tokens() <= 0) {
    std::fprintf(stderr, "usage: training_bench [PRESET ROWS SEQUENCE]\n");
    return 2;
  }
  shape.model = *preset;
  dlc::Products();
  return dlc::MicroBatches(shape) ? 0 : 1;
}
