// Shared by the CUDA sources; no other file includes it.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "kernels/compute_device.h"

namespace dlc {

DeviceStatus CudaStatus(cudaError_t code, std::string call);

/// Keeps the first failure.
class CudaCalls {
 public:
  bool Ok(cudaError_t code, const char* call) {
    if (status_.Good() && code != cudaSuccess) {
      status_ = CudaStatus(code, call);
    }
    return status_.Good();
  }
  /// Of another library.
  void Fail(DeviceStatus status) {
    if (status_.Good()) {
      status_ = std::move(status);
    }
  }
  /// After a <<<>>> launch.
  bool Launched(const char* kernel) { return Ok(cudaGetLastError(), kernel); }
  bool Good() const { return status_.Good(); }
  DeviceStatus Take() { return std::move(status_); }

 private:
  DeviceStatus status_;
};

/// Memory of the device.
class CudaBuffer {
 public:
  CudaBuffer() = default;
  ~CudaBuffer() { cudaFree(at_); }
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

  bool Allocate(CudaCalls& calls, std::uint64_t bytes) {
    const std::string call = "cudaMalloc of " + std::to_string(bytes) + " bytes";
    return calls.Ok(cudaMalloc(&at_, bytes), call.c_str());
  }
  template <class T>
  T* As() const {
    return static_cast<T*>(at_);
  }

 private:
  void* at_ = nullptr;
};

class CudaEvent {
 public:
  explicit CudaEvent(CudaCalls& calls) { calls.Ok(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~CudaEvent() { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Whether `seconds` have gone by, on the wall: the budget is what the user waits.
class Stopwatch {
 public:
  explicit Stopwatch(double seconds)
      : end_(std::chrono::steady_clock::now() +
             std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6))) {}
  bool Over() const { return std::chrono::steady_clock::now() >= end_; }

 private:
  std::chrono::steady_clock::time_point end_;
};

/// Times `launch` on the default stream, in batches, for about `work.seconds`.
template <class Launch>
bool TimeBatches(CudaCalls& calls, const DeviceWork& work, Launch launch, DeviceTiming& out) {
  constexpr int kBatch = 8;
  CudaEvent start(calls);
  CudaEvent stop(calls);
  if (!calls.Good() || !launch()) {  // warm-up: the first launch loads the code
    return false;
  }
  const Stopwatch budget(work.seconds);
  double total = 0;
  do {
    calls.Ok(cudaEventRecord(start.get()), "cudaEventRecord");
    for (int i = 0; i < kBatch && calls.Good(); ++i) {
      launch();
    }
    calls.Ok(cudaEventRecord(stop.get()), "cudaEventRecord");
    if (work.under_load && calls.Good()) {
      work.under_load();
    }
    float milliseconds = 0;
    if (!calls.Ok(cudaEventSynchronize(stop.get()), "cudaEventSynchronize") ||
        !calls.Ok(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()),
                  "cudaEventElapsedTime")) {
      return false;
    }
    const double batch = milliseconds / 1e3;
    total += batch;
    out.iterations += kBatch;
    out.seconds = total / static_cast<double>(out.iterations);
    const double each = batch / kBatch;
    out.best_seconds = out.best_seconds == 0 ? each : std::min(out.best_seconds, each);
  } while (!budget.Over());
  return true;
}

/// What a comparison on the device found; zero it before use but for `first`.
struct WrongWords {
  unsigned long long count;
  unsigned long long first;
  unsigned long long bits;
};

/// Launches that return at once; `count` words of 8 bytes, a multiple of 2.
bool FillWords(CudaCalls& calls, std::uint64_t* out, std::uint64_t count, MemoryPattern pattern,
               std::uint64_t seed);
bool CheckWords(CudaCalls& calls, const std::uint64_t* data, std::uint64_t count,
                MemoryPattern pattern, std::uint64_t seed, WrongWords* out);
/// Waits.
bool CountWrongWords(CudaCalls& calls, const std::uint64_t* data, std::uint64_t count,
                     MemoryPattern pattern, std::uint64_t seed, std::uint64_t& wrong);
/// In word `index` of what lies at `data`. Waits.
bool FlipBit(CudaCalls& calls, void* data, std::uint64_t index, std::uint64_t bit);

DeviceStatus CudaCheckMemory(std::uint64_t bytes, const DeviceWork& work,
                             std::vector<MemoryCheck>& out);
DeviceStatus CudaMeasureMemory(MemoryOperation operation, std::uint64_t bytes,
                               const DeviceWork& work, MemorySpeed& out);
DeviceStatus CudaCopyHost(bool to_device, std::uint64_t bytes, const DeviceWork& work,
                          HostCopy& out);
DeviceStatus CudaMultiply(int size, const DeviceWork& work, MatrixProduct& out);

}  // namespace dlc
