// What the GPU steps look at in the dlc-probe of the tests: a root directory of the test's (setting
// root), and the CPU twin for every GPU that the fakes pretend.
#include <memory>
#include <string>
#include <utility>

#include "cmd/dlc-probe/gpu_sources.h"
#include "kernels/cpu_device.h"
#include "tests/fakes/gpu/fake_node.h"

namespace dlc {
namespace {

constexpr std::uint64_t kFreeBytes = 16U << 20U;

int ShownByFake() {
  return fake::Number("cuda", fake::Number("gpus", 1));
}

DeviceStatus Refused(int code) {
  return {code, "cudaErrorFake", "says the fake", "the fake's CUDA"};
}

/// The twin under the name of one GPU of the fake node; wrong in the experiment of setting "wrong",
/// and refusing from the experiment of setting "stop" on, if it is the one of setting "bad".
class FakeGpu final : public ComputeDevice {
 public:
  explicit FakeGpu(int index) : index_(index) {}

  DeviceStatus Describe(DeviceFacts& out) override {
    const DeviceStatus status = twin_->Describe(out);
    out.name = fake::ModelOf(index_);
    out.uuid = "GPU-" + fake::UuidText(index_, fake::Is("mig", index_)).substr(4);
    out.major = 8;
    out.minor = 9;
    out.free_bytes = kFreeBytes;
    return status;
  }
  DeviceStatus CheckMemory(std::uint64_t bytes, const DeviceWork& work,
                           std::vector<MemoryCheck>& out) override {
    return Stops("memory") ? Refused(719) : twin_->CheckMemory(bytes, Spoilt(work, "memory"), out);
  }
  DeviceStatus MeasureMemory(MemoryOperation operation, std::uint64_t bytes, const DeviceWork& work,
                             MemorySpeed& out) override {
    return Stops("transfer")
               ? Refused(719)
               : twin_->MeasureMemory(operation, bytes, Spoilt(work, "transfer"), out);
  }
  DeviceStatus CopyHost(bool to_device, std::uint64_t bytes, const DeviceWork& work,
                        HostCopy& out) override {
    return Stops("host-copy") ? Refused(719)
                              : twin_->CopyHost(to_device, bytes, Spoilt(work, "host-copy"), out);
  }
  DeviceStatus Multiply(int /*size*/, const DeviceWork& work, MatrixProduct& out) override {
    return Stops("product") ? Refused(719)
                            : twin_->Multiply(kTinySize, Spoilt(work, "product"), out);
  }

 private:
  static constexpr int kTinySize = 128;

  bool Is(const char* key, const std::string& experiment) const {
    return fake::Setting(key, "") == experiment && fake::Is("bad", index_);
  }
  bool Stops(const std::string& experiment) const { return Is("stop", experiment); }
  /// Not in the small runs that prove the comparison.
  DeviceWork Spoilt(DeviceWork work, const std::string& experiment) const {
    work.plant_flip = work.plant_flip || Is("wrong", experiment);
    return work;
  }

  std::unique_ptr<ComputeDevice> twin_ = OpenCpuDevice();
  int index_;
};

}  // namespace

std::string GpuNodeRoot() {
  return fake::Setting("root", "/nowhere");
}

ComputeSource GpuComputeSource() {
  return {[](int& count) {
            count = ShownByFake();
            const int code = count == 0 ? 100 : fake::Number("cuinit", 0);
            return code == 0 ? DeviceStatus{} : Refused(code);
          },
          [](int index, DeviceStatus& status) -> std::unique_ptr<ComputeDevice> {
            status = fake::Is("lost", index) ? Refused(999) : DeviceStatus{};
            return status.Good() ? std::make_unique<FakeGpu>(index) : nullptr;
          }};
}

}  // namespace dlc
