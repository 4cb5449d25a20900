#include "kernels/training/cpu_backend.h"

#include <doctest/doctest.h>

#include <fstream>

#include "kernels/training/cpu_memory.h"
#include "tests/kernels/forwarding_backend.h"
#include "tests/kernels/training_conformance.h"
#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

TEST_CASE("the CPU's backend keeps the promises about memory and marks") {
  const auto backend = OpenCpuTrainingBackend();
  CheckMemoryAndMarks(*backend);
  CHECK(backend->Stream(TrainingQueue::kCompute) == nullptr);
  CHECK_FALSE(backend->WaitFor(TrainingQueue::kCompute, 0).Good());  // was forgotten
  CHECK_FALSE(backend
                  ->Move(0, nullptr, DataType::kFloat32, nullptr, DataType::kFloat32,
                         TrainingQueue::kCompute)
                  .Good());
}

TEST_CASE("a model that does not fit is refused") {
  const auto backend = OpenCpuTrainingBackend();
  TrainingShape shape;
  shape.model = *Qwen2Preset("qwen2.5-1.5b");
  shape.rows = 1 << 20;
  shape.sequence = 1 << 10;
  CHECK(backend->ActivationBytes(shape) > std::uint64_t{1} << 40);
  const DeviceStatus status = backend->PrepareModel(shape);
  CHECK(status.code == 2);
  CHECK(status.name == "cudaErrorMemoryAllocation");
  // Afterwards one that fits is taken.
  shape.model = *Qwen2Preset("qwen2-tiny");
  shape.rows = 1;
  shape.sequence = 8;
  CHECK(backend->PrepareModel(shape).Good());
}

TEST_CASE("the CPU's backend agrees with itself, shape by shape and type by type") {
  const auto one = OpenCpuTrainingBackend();
  const auto other = OpenCpuTrainingBackend();
  CHECK(Told(CompareShards(*one, *other)) == "");
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
    CHECK(Told(CompareModels(OpenCpuTrainingBackend, OpenCpuTrainingBackend, type, type)) == "");
  }
}

/// Shards' work with one thing wrong.
class SpoiledShards : public ForwardingBackend {
 public:
  explicit SpoiledShards(int fault) : ForwardingBackend(OpenCpuTrainingBackend()), fault_(fault) {}

  DeviceStatus Move(int pieces, const void* from, DataType from_type, void* to, DataType to_type,
                    TrainingQueue queue) override {
    auto status = ForwardingBackend::Move(pieces, from, from_type, to, to_type, queue);
    if (fault_ == 0 && from_type == DataType::kFloat32 && to_type == DataType::kBfloat16) {
      static_cast<std::uint16_t*>(to)[0] ^= 1U;
    }
    return status;
  }
  DeviceStatus Accumulate(float* into, const void* from, DataType from_type, float factor, bool add,
                          std::int64_t count) override {
    const float wrong = fault_ == 1 ? std::nextafter(factor, 1.0F) : factor;
    return ForwardingBackend::Accumulate(into, from, from_type, wrong, add, count);
  }
  DeviceStatus AddSquares(const float* values, std::int64_t count, double* sum) override {
    return ForwardingBackend::AddSquares(values, fault_ == 2 ? count - 1 : count, sum);
  }
  DeviceStatus ClipScale(const double* sum, double largest, float* scale) override {
    auto status = ForwardingBackend::ClipScale(sum, largest, scale);
    *scale = fault_ == 3 ? static_cast<float>(largest / std::sqrt(*sum)) : *scale;
    return status;
  }
  DeviceStatus AdamW(const AdamWOptions& options, std::int64_t step, const float* gradient,
                     const float* scale, float* parameter, float* m, float* v, void* copy,
                     DataType copy_type, std::int64_t count) override {
    return ForwardingBackend::AdamW(options, fault_ == 4 ? step + 1 : step, gradient, scale,
                                    parameter, m, v, copy, copy_type, count);
  }
  DeviceStatus FillNormal(float* to, std::uint64_t key, std::int64_t first, std::int64_t count,
                          float mean, float spread) override {
    const std::int64_t wrong = fault_ == 5 ? first & 0xffffffff : first;
    return ForwardingBackend::FillNormal(to, key, wrong, count, mean, spread);
  }
  DeviceStatus AddHash(const float* values, std::uint64_t key, std::int64_t first,
                       std::int64_t count, std::uint64_t* hash) override {
    return ForwardingBackend::AddHash(values, key, fault_ == 6 ? 0 : first, count, hash);
  }
  DeviceStatus Compare(const float* found, const float* expected, std::int64_t count,
                       FloatComparison& comparison) override {
    auto status = ForwardingBackend::Compare(found, expected, count, comparison);
    comparison.not_finite = fault_ == 7 ? 0 : comparison.not_finite;
    return status;
  }

 private:
  int fault_;
};

TEST_CASE("a fault in the shards' work is named") {
  const char* const names[] = {"Move",  "Accumulate", "AddSquares", "ClipScale",
                               "AdamW", "FillNormal", "AddHash",    "Compare"};
  const auto right = OpenCpuTrainingBackend();
  for (int fault = 0; fault < static_cast<int>(std::size(names)); ++fault) {
    SpoiledShards spoiled(fault);
    CAPTURE(names[fault]);
    const Disagreements found = CompareShards(spoiled, *right);
    CHECK_FALSE(found.empty());
    for (const std::string& name : found) {
      CHECK(name.find(names[fault]) == 0);
    }
  }
}

/// A decoder of another shape than it was asked for, or with a wrong gradient.
class SpoiledModel : public ForwardingBackend {
 public:
  explicit SpoiledModel(int fault) : ForwardingBackend(OpenCpuTrainingBackend()), fault_(fault) {}

  DeviceStatus PrepareModel(const TrainingShape& shape) override {
    TrainingShape wrong = shape;
    wrong.model.rope_theta *= fault_ == 0 ? 1.2 : 1;
    wrong.model.rms_epsilon *= fault_ == 1 ? 100 : 1;
    return ForwardingBackend::PrepareModel(wrong);
  }
  DeviceStatus Loss(const void* root, void* root_gradient, float* loss) override {
    auto status = ForwardingBackend::Loss(root, root_gradient, loss);
    *loss *= fault_ == 2 ? 1.001F : 1.0F;
    return status;
  }
  DeviceStatus BackwardLayer(int layer, const void* unit, void* unit_gradient) override {
    auto status = ForwardingBackend::BackwardLayer(layer, unit, unit_gradient);
    if (fault_ == 3 && layer == 1) {
      static_cast<float*>(unit_gradient)[0] *= 1.01F;
    }
    return status;
  }
  DeviceStatus BackwardEmbed(void* root_gradient) override {
    return fault_ == 4 ? DeviceStatus{} : ForwardingBackend::BackwardEmbed(root_gradient);
  }

 private:
  int fault_;
};

TEST_CASE("a fault in the decoder is named") {
  for (int fault = 0; fault < 5; ++fault) {
    CAPTURE(fault);
    const auto open = [&] { return std::make_unique<SpoiledModel>(fault); };
    const TrainingShape tiny = ConformanceShapes(DataType::kFloat32, DataType::kFloat32).front();
    CHECK_FALSE(CompareModel(open, OpenCpuTrainingBackend, tiny, SyntheticWeights(tiny.model, 21),
                             SyntheticTokens(tiny, 22))
                    .empty());
  }
}

/// A /proc and a /sys/fs/cgroup of one's own.
class FakeMachine {
 public:
  void Write(const std::string& path, const std::string& text) const {
    const auto file = std::filesystem::path(Root() + path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string Root() const { return directory_.Path(); }

 private:
  TemporaryDirectory directory_;
};

TEST_CASE("what may be taken is the least that the machine and its control groups leave") {
  FakeMachine machine;
  CHECK(ReadCpuMemory(machine.Root()).total_bytes == 0);
  machine.Write("/proc/meminfo",
                "MemTotal:  1000 kB\nMemFree:  1 kB\nMemAvailable:  600 kB\nBuffers: 7 kB\n");
  CHECK(ReadCpuMemory(machine.Root()).total_bytes == 1000 * 1024);
  CHECK(ReadCpuMemory(machine.Root()).available_bytes == 600 * 1024);

  // Version 2, inside of a container: the path is the namespace's own root.
  machine.Write("/proc/self/cgroup", "0::/\n");
  machine.Write("/sys/fs/cgroup/memory.max", "max\n");
  machine.Write("/sys/fs/cgroup/memory.current", "100000\n");
  CHECK(ReadCpuMemory(machine.Root()).available_bytes == 600 * 1024);
  machine.Write("/sys/fs/cgroup/memory.max", "300000\n");
  CHECK(ReadCpuMemory(machine.Root()).available_bytes == 200000);
  CHECK(ReadCpuMemory(machine.Root()).total_bytes == 300000);
  machine.Write("/sys/fs/cgroup/memory.stat", "anon 60000\nfile 40000\ninactive_file 30000\n");
  CHECK(ReadCpuMemory(machine.Root()).available_bytes == 230000);
  machine.Write("/sys/fs/cgroup/memory.current", "400000\n");
  CHECK(ReadCpuMemory(machine.Root()).available_bytes == 0);

  // A group within a group, each with a limit; outside of a container.
  machine.Write("/sys/fs/cgroup/memory.max", "max\n");
  machine.Write("/proc/self/cgroup", "0::/outer/inner\n");
  machine.Write("/sys/fs/cgroup/outer/memory.max", "200000\n");
  machine.Write("/sys/fs/cgroup/outer/memory.current", "150000\n");
  machine.Write("/sys/fs/cgroup/outer/inner/memory.max", "190000\n");
  machine.Write("/sys/fs/cgroup/outer/inner/memory.current", "20000\n");
  CHECK(ReadCpuMemory(machine.Root()).available_bytes == 50000);
  CHECK(ReadCpuMemory(machine.Root()).total_bytes == 190000);

  // Version 1.
  machine.Write("/proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/pod\n");
  machine.Write("/sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "120000\n");
  machine.Write("/sys/fs/cgroup/memory/pod/memory.usage_in_bytes", "110000\n");
  machine.Write("/sys/fs/cgroup/memory/pod/memory.stat",
                "inactive_file 1\ntotal_inactive_file 5000\n");
  CHECK(ReadCpuMemory(machine.Root()).available_bytes == 15000);
}

}  // namespace
}  // namespace dlc
