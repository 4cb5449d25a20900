#include "probes/node/gpu/gpu_compute.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "kernels/cpu_device.h"

namespace dlc {
namespace {

/// What can go wrong with a device, around the twin.
enum class Fault : std::uint8_t { kNone, kMemory, kCopy, kProduct };

constexpr const char* kUncorrectable = "cudaErrorECCUncorrectable";

/// The twin, which from its second call of one experiment on (the first proves the comparison)
/// fails or forgets to compare.
class FaultyDevice final : public ComputeDevice {
 public:
  explicit FaultyDevice(Fault fails, bool blind = false) : fails_(fails), blind_(blind) {}

  DeviceStatus Describe(DeviceFacts& out) override {
    const DeviceStatus status = twin_->Describe(out);
    out.uuid = "GPU-twin";
    out.free_bytes = 8U << 20U;
    return status;
  }
  DeviceStatus CheckMemory(std::uint64_t bytes, const DeviceWork& work,
                           std::vector<MemoryCheck>& out) override {
    if (fails_ == Fault::kMemory && ++calls_ > 1) {
      return {214, kUncorrectable, "uncorrectable ECC error encountered", "the check kernel"};
    }
    const DeviceStatus status = twin_->CheckMemory(bytes, work, out);
    for (MemoryCheck& check : out) {
      check.wrong_words = blind_ ? 0 : check.wrong_words;
    }
    return status;
  }
  DeviceStatus MeasureMemory(MemoryOperation operation, std::uint64_t bytes, const DeviceWork& work,
                             MemorySpeed& out) override {
    return twin_->MeasureMemory(operation, bytes, work, out);
  }
  DeviceStatus CopyHost(bool to_device, std::uint64_t bytes, const DeviceWork& work,
                        HostCopy& out) override {
    if (fails_ == Fault::kCopy && ++calls_ > 1) {
      return {2, "cudaErrorMemoryAllocation", "out of memory", "cudaMallocHost of 1 bytes"};
    }
    return twin_->CopyHost(to_device, bytes, work, out);
  }
  DeviceStatus Multiply(int size, const DeviceWork& work, MatrixProduct& out) override {
    if (fails_ == Fault::kProduct && ++calls_ > 1) {
      return {719, "cudaErrorLaunchFailure", "unspecified launch failure", "the product's kernel"};
    }
    return twin_->Multiply(size, work, out);
  }

 private:
  std::unique_ptr<ComputeDevice> twin_ = OpenCpuDevice();
  Fault fails_;
  bool blind_;
  int calls_ = 0;
};

ComputeSource Source(int count, Fault fails = Fault::kNone, bool blind = false) {
  return {[count](int& out) {
            out = count;
            return DeviceStatus{};
          },
          [fails, blind](int /*index*/, DeviceStatus& status) {
            status = {};
            return std::make_unique<FaultyDevice>(fails, blind);
          }};
}

GpuComputeParameters Short(const std::string& plant = "") {
  return {0.01, 0.5, plant};
}

void Silent(std::string_view /*line*/) {}

GpuCompute Compute(const ComputeSource& source, const std::string& plant = "") {
  return ObserveGpuCompute(Short(plant), 1, 0, source, Silent);
}

/// Wrong words and elements by experiment, without those that have none.
std::map<std::string, std::int64_t> Wrong(const GpuWork& work) {
  std::map<std::string, std::int64_t> wrong;
  for (const GpuMemoryPass& pass : work.memory) {
    wrong["memory"] += pass.wrong_words;
  }
  for (const GpuTransfer& transfer : work.transfers) {
    wrong[transfer.operation] += transfer.wrong_words;
  }
  if (work.product.seen()) {
    wrong["product"] = work.product.value().wrong_elements;
  }
  std::erase_if(wrong, [](const auto& one) { return one.second == 0; });
  return wrong;
}

}  // namespace

TEST_CASE("a sound device: every experiment ran, every comparison was proven, nothing is wrong") {
  const GpuCompute seen = Compute(Source(1));
  CHECK(seen.failure.code == 0);
  REQUIRE(seen.gpus.size() == 1);
  const GpuWork& work = seen.gpus[0];
  CHECK(work.failure.code == 0);
  CHECK(work.self_tests.size() == 5);
  for (const GpuSelfTest& test : work.self_tests) {
    CAPTURE(test.experiment);
    CHECK(test.caught);
  }
  CHECK(work.memory.size() == 4);
  CHECK(work.memory[0].bytes == 4 << 20);  // the share of what is free
  CHECK(work.transfers.size() == 6);
  CHECK(work.product.seen());
  CHECK(Wrong(work).empty());
  CHECK(seen.gpu_seconds > 0);
  CHECK(seen.gpu_seconds == doctest::Approx(work.seconds));
}

TEST_CASE("a planted bit is found in its own experiment and in no other") {
  using Found = std::map<std::string, std::int64_t>;
  CHECK(Wrong(Compute(Source(1), "memory").gpus[0]) == Found{{"memory", 4}});
  CHECK(Wrong(Compute(Source(1), "transfer").gpus[0]) ==
        Found{{"write", 1}, {"copy", 1}, {"memcpy", 1}});
  CHECK(Wrong(Compute(Source(1), "host-copy").gpus[0]) ==
        Found{{"host-to-device", 1}, {"device-to-host", 1}});
  CHECK(Wrong(Compute(Source(1), "product").gpus[0]) == Found{{"product", 1}});
  const GpuMemoryPass pass = Compute(Source(1), "memory").gpus[0].memory[0];
  CHECK(pass.expected != pass.reread);
  CHECK(pass.flipped_bits == "0x0000000000020000");
  CHECK(pass.first_wrong_offset % 8 == 0);
  CHECK(pass.first_wrong_offset > 0);
}

TEST_CASE("a comparison that misses its planted bit is told") {
  const GpuWork work = Compute(Source(1, Fault::kNone, true)).gpus[0];
  CHECK(work.self_tests[0].experiment == "memory");
  CHECK_FALSE(work.self_tests[0].caught);
  CHECK(work.self_tests[1].caught);
}

TEST_CASE("a failure ends the GPU's experiments, keeps what came before, and says what it means") {
  const GpuWork memory = Compute(Source(1, Fault::kMemory)).gpus[0];
  CHECK(memory.failure.code == 214);
  CHECK(memory.failure.name == kUncorrectable);
  CHECK(memory.failure.call == "the check kernel");
  CHECK(memory.failure.meaning.find("drain the node") != std::string::npos);
  CHECK(memory.self_tests.size() == 1);
  CHECK(memory.memory.empty());
  CHECK(memory.transfers.empty());
  CHECK(memory.product.not_looked_at());

  const GpuWork copy = Compute(Source(1, Fault::kCopy)).gpus[0];
  CHECK(copy.failure.code == 2);
  CHECK(copy.memory.size() == 4);
  CHECK(copy.transfers.size() == 4);
  CHECK(copy.product.not_looked_at());

  const GpuWork product = Compute(Source(1, Fault::kProduct)).gpus[0];
  CHECK(product.failure.code == 719);
  CHECK(product.transfers.size() == 6);
  CHECK(product.product.not_looked_at());
}

TEST_CASE("one rank has every GPU, several have one each, or the one that each is shown") {
  const auto own = [](int visible, int ranks, int local_rank) {
    const auto gpus = OwnGpus(visible, ranks, local_rank);
    return gpus ? *gpus : std::vector<int>{-1};
  };
  CHECK(own(3, 1, 0) == std::vector<int>{0, 1, 2});
  CHECK(own(4, 4, 2) == std::vector<int>{2});
  CHECK(own(1, 4, 2) == std::vector<int>{0});
  CHECK(own(4, 8, 3) == std::vector<int>{3});
  CHECK(own(2, 4, 2) == std::vector<int>{-1});
  const GpuCompute without = ObserveGpuCompute(Short(), 4, 3, Source(2), Silent);
  CHECK(without.gpus.empty());
  CHECK(without.failure.text == "local rank 3 has no GPU of its own: this process is shown 2");
}

TEST_CASE("no device to count is told with CUDA's number") {
  const ComputeSource none{
      [](int& count) {
        count = 0;
        return DeviceStatus{100, "cudaErrorNoDevice", "no device", "cudaGetDeviceCount"};
      },
      {}};
  const GpuCompute seen = Compute(none);
  CHECK(seen.failure.code == 100);
  CHECK(seen.failure.meaning ==
        "CUDA finds no GPU: none was given to the container, or "
        "CUDA_VISIBLE_DEVICES hides all");
  CHECK(seen.gpus.empty());
}

TEST_CASE("0 stands for the defaults") {
  const ComputeSource none{[](int& /*count*/) { return DeviceStatus{100, "x", "", ""}; }, {}};
  const GpuCompute seen = ObserveGpuCompute({}, 1, 0, none, Silent);
  CHECK(seen.budget_seconds == 10);
  CHECK(seen.memory_share == 0.25);
}

}  // namespace dlc
