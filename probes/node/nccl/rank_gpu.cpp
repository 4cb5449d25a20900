#include "probes/node/nccl/rank_gpu.h"

#include <array>
#include <cstdint>
#include <utility>

namespace dlc {
namespace {

constexpr int kNotReady = 600;
constexpr unsigned kNonBlocking = 1;

unsigned long long AsDevice(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

}  // namespace

Result<std::unique_ptr<RankGpu>> RankGpu::Open(int local_rank) {
  auto library = DynamicLibrary::Open({"libcuda.so.1"});
  if (!library) {
    return std::move(library).error();
  }
  std::unique_ptr<RankGpu> gpu(new RankGpu(std::move(library).value()));
  if (const auto bound = gpu->Bind(); !bound) {
    return bound.error();
  }
  if (const auto started = gpu->Start(local_rank); !started) {
    return started.error();
  }
  return gpu;
}

Result<void> RankGpu::Bind() {
  for (const auto& found : {library_.Find("cuInit", nullptr, init_),
                            library_.Find("cuDeviceGetCount", nullptr, device_count_),
                            library_.Find("cuDeviceGet", nullptr, device_get_),
                            library_.Find("cuDeviceGetName", nullptr, device_name_),
                            library_.Find("cuDeviceGetPCIBusId", nullptr, device_pci_),
                            library_.Find("cuDevicePrimaryCtxRetain", nullptr, retain_),
                            library_.Find("cuCtxSetCurrent", nullptr, set_current_),
                            library_.Find("cuStreamCreate", nullptr, stream_create_),
                            library_.Find("cuStreamQuery", nullptr, stream_query_),
                            library_.Find("cuMemAlloc_v2", nullptr, allocate_),
                            library_.Find("cuMemFree_v2", nullptr, free_),
                            library_.Find("cuMemcpyHtoDAsync_v2", nullptr, copy_in_),
                            library_.Find("cuMemcpyDtoHAsync_v2", nullptr, copy_out_),
                            library_.Find("cuGetErrorString", nullptr, error_text_)}) {
    if (!found) {
      return found;
    }
  }
  return {};
}

Result<void> RankGpu::Check(int code, const char* call) const {
  if (code == 0) {
    return {};
  }
  const char* text = nullptr;
  const bool known = error_text_(code, &text) == 0 && text != nullptr;
  return Error{ErrorCode::kUnavailable,
               std::string(call) + ": CUDA error " + std::to_string(code) +
                   (known ? std::string(", ") + text : std::string()),
               "dlc-check gpu looks at this rank's GPUs"};
}

Result<void> RankGpu::Start(int local_rank) {
  int count = 0;
  if (auto good = Check(init_(0), "cuInit"); !good) {
    return good;
  }
  if (auto good = Check(device_count_(&count), "cuDeviceGetCount"); !good) {
    return good;
  }
  if (count <= 0) {
    return Error{ErrorCode::kNotFound, "CUDA shows this process no GPU", ""};
  }
  int device = 0;
  std::array<char, 256> name{};
  std::array<char, 64> pci{};
  void* context = nullptr;
  const auto first_failure = [](std::initializer_list<Result<void>> all) -> Result<void> {
    for (const Result<void>& one : all) {
      if (!one) {
        return one;
      }
    }
    return {};
  };
  if (auto good = Check(device_get_(&device, local_rank % count), "cuDeviceGet"); !good) {
    return good;
  }
  if (auto good =
          first_failure({Check(device_name_(name.data(), static_cast<int>(name.size()) - 1, device),
                               "cuDeviceGetName"),
                         Check(device_pci_(pci.data(), static_cast<int>(pci.size()) - 1, device),
                               "cuDeviceGetPCIBusId"),
                         Check(retain_(&context, device), "cuDevicePrimaryCtxRetain")});
      !good) {
    return good;
  }
  name_ = name.data();
  pci_address_ = pci.data();
  if (auto good = Check(set_current_(context), "cuCtxSetCurrent"); !good) {
    return good;
  }
  return Check(stream_create_(&stream_, kNonBlocking), "cuStreamCreate");
}

Result<void*> RankGpu::Allocate(std::size_t bytes) {
  unsigned long long at = 0;
  const std::string call = "cuMemAlloc of " + std::to_string(bytes) + " bytes";
  if (const auto good = Check(allocate_(&at, bytes), call.c_str()); !good) {
    return good.error();
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): CUdeviceptr is an integer
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(at));
}

void RankGpu::Free(void* memory) {
  free_(AsDevice(memory));
}

// Not the calls without "Async": theirs is another stream, and from pageable memory the one to the
// device returns before the bytes are there.
Result<void> RankGpu::CopyIn(void* to, const void* from, std::size_t bytes) {
  return bytes == 0 ? Result<void>()
                    : Check(copy_in_(AsDevice(to), from, bytes, stream_), "cuMemcpyHtoDAsync");
}

Result<void> RankGpu::CopyOut(void* to, const void* from, std::size_t bytes) {
  return bytes == 0 ? Result<void>()
                    : Check(copy_out_(to, AsDevice(from), bytes, stream_), "cuMemcpyDtoHAsync");
}

Result<bool> RankGpu::Idle() {
  const int code = stream_query_(stream_);
  if (code == kNotReady) {
    return false;
  }
  if (const auto good = Check(code, "cuStreamQuery"); !good) {
    return good.error();
  }
  return true;
}

}  // namespace dlc
