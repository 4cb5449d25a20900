// What a libcuda needs to have for the fake NCCL: memory is the process's own, and the stream is
// busy as long as NCCL is.
#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kNotReady = 600;
constexpr int kOutOfMemory = 2;

void* Memory(unsigned long long at) {
  return reinterpret_cast<void*>(at);
}

}  // namespace

extern "C" {

int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = context;
  return 0;
}
int cuCtxSetCurrent(void*) {
  return 0;
}
int cuStreamCreate(void** stream, unsigned) {
  *stream = stream;
  return 0;
}
int cuStreamQuery(void*) {
  // Found only where NCCL was opened so that later libraries see its symbols, as plugins need.
  using Busy = int();
  const auto busy = reinterpret_cast<Busy*>(dlsym(RTLD_DEFAULT, "fakeNcclBusy"));
  return busy == nullptr ? 999 : busy() != 0 ? kNotReady : 0;
}
int cuMemAlloc_v2(unsigned long long* at, std::size_t bytes) {
  *at = reinterpret_cast<unsigned long long>(std::malloc(bytes));
  return *at == 0 ? kOutOfMemory : 0;
}
int cuMemFree_v2(unsigned long long at) {
  std::free(Memory(at));
  return 0;
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, std::size_t bytes, void*) {
  std::memcpy(Memory(to), from, bytes);
  return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, std::size_t bytes, void*) {
  std::memcpy(to, Memory(from), bytes);
  return 0;
}

}  // extern "C"
