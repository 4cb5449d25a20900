// In place of the CUDA sources where the build found no CUDA toolkit.
#include "kernels/cuda_device.h"

namespace dlc {
namespace {

DeviceStatus Absent() {
  return {-1, "built without CUDA", "this build has no CUDA code", "CUDA"};
}

}  // namespace

int CudaRuntimeVersion() {
  return 0;
}

const char* CudaArchitectures() {
  return "";
}

DeviceStatus CountCudaDevices(int& count) {
  count = 0;
  return Absent();
}

std::unique_ptr<ComputeDevice> OpenCudaDevice(int /*index*/, DeviceStatus& status) {
  status = Absent();
  return nullptr;
}

}  // namespace dlc
