#include "kernels/cpu_device.h"

#include <doctest/doctest.h>

#include "tests/kernels/device_conformance.h"

namespace dlc {

TEST_CASE("the CPU twin computes right, and finds what is planted") {
  const auto device = OpenCpuDevice();
  DeviceFacts facts;
  CHECK(device->Describe(facts).Good());
  CHECK(facts.uuid.empty());  // nobody may take it for a GPU
  CheckDeviceFindsWhatIsPlanted(*device, 1U << 20U, 128);
}

}  // namespace dlc
