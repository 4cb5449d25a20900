// libcuda.so.1 for nodes that we do not have. Lists GPUs; nothing computes on it, but the fake NCCL
// moves bytes in what nccl/fake_memory.cpp gives it.
#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/fakes/gpu/fake_node.h"

namespace {

constexpr int kNotSupported = 801;

int Shown() {
  return fake::Number("cuda", fake::Number("gpus", 1));
}

int Unsupported() {
  return kNotSupported;
}

}  // namespace

extern "C" {

int cuInit(unsigned /*flags*/) {
  if (fake::Setting("cuinit", "") == "hang") {
    while (true) {
      pause();
    }
  }
  return Shown() == 0 ? 100 : fake::Number("cuinit", 0);
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuGetErrorName(int code, const char** name) {
  switch (code) {
    case 100:
      *name = "CUDA_ERROR_NO_DEVICE";
      break;
    case 802:
      *name = "CUDA_ERROR_SYSTEM_NOT_READY";
      break;
    case 803:
      *name = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
      break;
    case 804:
      *name = "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE";
      break;
    default:
      *name = "CUDA_ERROR_UNKNOWN";
  }
  return 0;
}
int cuGetErrorString(int /*code*/, const char** text) {
  *text = "says the fake";
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = Shown();
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return fake::Is("lost", ordinal) ? 999 : 0;
}
int cuDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, static_cast<std::size_t>(size), "%s", fake::ModelOf(device).c_str());
  return 0;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  for (int i = 0; i < 16; ++i) {
    uuid[i] = fake::UuidByte(device, i, fake::Is("mig", device));
  }
  return 0;
}
int cuDeviceGetPCIBusId(char* address, int size, int device) {
  std::snprintf(address, static_cast<std::size_t>(size), "0000:%02x:00.0", 0x30 + device);
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int /*device*/) {
  *value = attribute == 75 ? 8 : 9;
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  *bytes = fake::Is("mig", device) ? fake::kMemory / 8 : fake::kMemory;
  return 0;
}

/// How the CUDA runtime asks for everything: what there is, and for the rest one that refuses.
int cuGetProcAddress_v2(const char* name, void** function, int /*version*/,
                        unsigned long long /*flags*/, int* status) {
  *function = nullptr;
  for (const char* suffix : {"_v2", ""}) {
    if (*function == nullptr) {
      *function = dlsym(RTLD_DEFAULT, (std::string(name) + suffix).c_str());
    }
  }
  if (*function == nullptr) {
    *function = reinterpret_cast<void*>(&Unsupported);
  }
  if (status != nullptr) {
    *status = 0;
  }
  return 0;
}

}  // extern "C"
