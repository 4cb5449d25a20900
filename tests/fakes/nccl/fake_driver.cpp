// libcuda for the fake NCCL, with fake_memory.cpp.
//
//   FAKE_GPUS   how many it shows (1), each at a PCI address of its own
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

int DeviceCount() {
  const char* pretend = std::getenv("FAKE_GPUS");
  return pretend == nullptr ? 1 : std::atoi(pretend);
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = DeviceCount();
  return 0;
}
int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}
int cuDeviceGetName(char* name, int length, int) {
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(length));
  return 0;
}
int cuDeviceGetPCIBusId(char* address, int length, int device) {
  std::snprintf(address, static_cast<std::size_t>(length), "0000:%02x:00.0", 0x53 + device);
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "a fake error";
  return 0;
}

}  // extern "C"
