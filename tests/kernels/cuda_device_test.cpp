#include "kernels/cuda_device.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/kernels/device_conformance.h"

namespace dlc {

TEST_CASE("every CUDA device computes right, and where there is none CUDA says why") {
  int count = 0;
  const DeviceStatus counted = CountCudaDevices(count);
  if (!counted.Good()) {
    MESSAGE("no CUDA device here: " << counted.name);
    CHECK(count == 0);
    CHECK_FALSE(counted.name.empty());
    CHECK_FALSE(counted.call.empty());
    DeviceStatus status;
    CHECK(OpenCudaDevice(0, status) == nullptr);
    CHECK_FALSE(status.Good());
    return;
  }
  REQUIRE(count > 0);
  for (int i = 0; i < count; ++i) {
    DeviceStatus status;
    const auto device = OpenCudaDevice(i, status);
    REQUIRE(device != nullptr);
    DeviceFacts facts;
    CHECK(device->Describe(facts).Good());
    CHECK(facts.uuid.substr(0, 4) == "GPU-");
    CheckDeviceFindsWhatIsPlanted(*device, 64U << 20U, 1024);
    std::vector<MemoryCheck> checks;
    const DeviceStatus refused = device->CheckMemory(facts.total_bytes * 2, {}, checks);
    CHECK(refused.name == "cudaErrorMemoryAllocation");
    CHECK(checks.empty());
  }
}

TEST_CASE("a device that does not exist is refused by name") {
  DeviceStatus status;
  CHECK(OpenCudaDevice(4096, status) == nullptr);
  CHECK(status.code != 0);
  CHECK_FALSE(status.name.empty());
}

TEST_CASE("what the build has of CUDA is told") {
  CHECK((CudaRuntimeVersion() > 0) == !std::string(CudaArchitectures()).empty());
}

}  // namespace dlc
