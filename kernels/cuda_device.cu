#include <cstdio>
#include <string>
#include <utility>

#include "kernels/cuda_device.h"
#include "kernels/cuda_support.cuh"

namespace dlc {
namespace {

std::string UuidText(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  char digits[3];
  for (int i = 0; i < 16; ++i) {
    std::snprintf(digits, sizeof digits, "%02x",
                  static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
    text += digits;
    text += i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "";
  }
  return text;
}

class CudaDevice final : public ComputeDevice {
 public:
  explicit CudaDevice(int index) : index_(index) {}

  DeviceStatus Describe(DeviceFacts& out) override {
    CudaCalls calls;
    cudaDeviceProp properties{};
    if (!calls.Ok(cudaGetDeviceProperties(&properties, index_), "cudaGetDeviceProperties")) {
      return calls.Take();
    }
    out.name = properties.name;
    out.uuid = UuidText(properties.uuid);
    char address[32] = "";
    calls.Ok(cudaDeviceGetPCIBusId(address, sizeof address, index_), "cudaDeviceGetPCIBusId");
    out.pci_address = address;
    out.major = properties.major;
    out.minor = properties.minor;
    out.multiprocessors = properties.multiProcessorCount;
    out.cache_bytes = static_cast<std::uint64_t>(properties.l2CacheSize);
    std::size_t available = 0;
    std::size_t total = 0;
    calls.Ok(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
    out.total_bytes = total;
    out.free_bytes = available;
    return calls.Take();
  }
  DeviceStatus CheckMemory(std::uint64_t bytes, const DeviceWork& work,
                           std::vector<MemoryCheck>& out) override {
    return CudaCheckMemory(bytes, work, out);
  }
  DeviceStatus MeasureMemory(MemoryOperation operation, std::uint64_t bytes, const DeviceWork& work,
                             MemorySpeed& out) override {
    return CudaMeasureMemory(operation, bytes, work, out);
  }
  DeviceStatus CopyHost(bool to_device, std::uint64_t bytes, const DeviceWork& work,
                        HostCopy& out) override {
    return CudaCopyHost(to_device, bytes, work, out);
  }
  DeviceStatus Multiply(int size, const DeviceWork& work, MatrixProduct& out) override {
    return CudaMultiply(size, work, out);
  }

 private:
  int index_;
};

}  // namespace

DeviceStatus CudaStatus(cudaError_t code, std::string call) {
  if (code == cudaSuccess) {
    return {};
  }
  cudaGetLastError();  // or a refusal that does no harm would be blamed on the next launch
  return {static_cast<int>(code), cudaGetErrorName(code), cudaGetErrorString(code),
          std::move(call)};
}

int CudaRuntimeVersion() {
  return CUDART_VERSION;
}

const char* CudaArchitectures() {
  return DLC_CUDA_ARCHITECTURES;
}

DeviceStatus CountCudaDevices(int& count) {
  count = 0;
  return CudaStatus(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
}

std::unique_ptr<ComputeDevice> OpenCudaDevice(int index, DeviceStatus& status) {
  CudaCalls calls;
  if (calls.Ok(cudaSetDevice(index), "cudaSetDevice")) {
    // The context is made here, not by the first call that happens to need it.
    calls.Ok(cudaFree(nullptr), "cudaFree(nullptr)");
  }
  const bool good = calls.Good();
  status = calls.Take();
  return good ? std::make_unique<CudaDevice>(index) : nullptr;
}

}  // namespace dlc
