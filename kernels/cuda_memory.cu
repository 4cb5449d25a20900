#include <cstddef>

#include "kernels/cuda_support.cuh"

namespace dlc {
namespace {

constexpr int kThreads = 256;
constexpr int kPairsPerThread = 4;  // of 16 bytes each: enough in flight to fill the memory bus
constexpr std::uint64_t kBlockPairs = std::uint64_t{kThreads} * kPairsPerThread;

/// A grid that fills any device and lets each thread loop.
constexpr unsigned kLoopingBlocks = 4096;

__device__ ulonglong2 PatternPair(MemoryPattern pattern, std::uint64_t seed, std::uint64_t pair) {
  return make_ulonglong2(PatternWord(pattern, seed, 2 * pair),
                         PatternWord(pattern, seed, 2 * pair + 1));
}

__global__ void FillKernel(ulonglong2* out, std::uint64_t pairs, MemoryPattern pattern,
                           std::uint64_t seed) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < pairs;
       i += step) {
    out[i] = PatternPair(pattern, seed, i);
  }
}

__device__ void Note(std::uint64_t index, std::uint64_t found, std::uint64_t expected,
                     WrongWords* out) {
  if (found != expected) {
    atomicAdd(&out->count, 1ULL);
    atomicMin(&out->first, static_cast<unsigned long long>(index));
    atomicOr(&out->bits, static_cast<unsigned long long>(found ^ expected));
  }
}

__global__ void CheckKernel(const ulonglong2* data, std::uint64_t pairs, MemoryPattern pattern,
                            std::uint64_t seed, WrongWords* out) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < pairs;
       i += step) {
    const ulonglong2 found = __ldcs(data + i);
    const ulonglong2 expected = PatternPair(pattern, seed, i);
    Note(2 * i, found.x, expected.x, out);
    Note(2 * i + 1, found.y, expected.y, out);
  }
}

__global__ void FlipKernel(std::uint64_t* word, std::uint64_t bit) {
  *word ^= std::uint64_t{1} << bit;
}

// One block per kBlockPairs; the buffers are multiples of that.

__global__ void ReadKernel(const uint4* from, uint4* never) {
  const uint4* at = from + blockIdx.x * kBlockPairs + threadIdx.x;
  uint4 got[kPairsPerThread];
#pragma unroll
  for (int i = 0; i < kPairsPerThread; ++i) {
    got[i] = __ldcs(at + i * kThreads);
  }
  unsigned bits = 0;
#pragma unroll
  for (int i = 0; i < kPairsPerThread; ++i) {
    bits |= got[i].x | got[i].y | got[i].z | got[i].w;
  }
  // The buffer holds no zeros, but the compiler does not know.
  if (bits == 0) {
    *never = got[0];
  }
}

__global__ void WriteKernel(uint4* to, uint4 value) {
  uint4* at = to + blockIdx.x * kBlockPairs + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kPairsPerThread; ++i) {
    __stcs(at + i * kThreads, value);
  }
}

__global__ void CopyKernel(const uint4* from, uint4* to) {
  const std::uint64_t at = blockIdx.x * kBlockPairs + threadIdx.x;
  uint4 got[kPairsPerThread];
#pragma unroll
  for (int i = 0; i < kPairsPerThread; ++i) {
    got[i] = __ldcs(from + at + i * kThreads);
  }
#pragma unroll
  for (int i = 0; i < kPairsPerThread; ++i) {
    __stcs(to + at + i * kThreads, got[i]);
  }
}

__global__ void CheckConstantKernel(const uint4* data, std::uint64_t quads, uint4 value,
                                    WrongWords* out) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < quads;
       i += step) {
    const uint4 found = data[i];
    const std::uint64_t low = found.x | std::uint64_t{found.y} << 32;
    const std::uint64_t high = found.z | std::uint64_t{found.w} << 32;
    Note(2 * i, low, value.x | std::uint64_t{value.y} << 32, out);
    Note(2 * i + 1, high, value.z | std::uint64_t{value.w} << 32, out);
  }
}

constexpr uint4 kWritten{0x01234567U, 0x89abcdefU, 0xfedcba98U, 0x76543210U};

bool LaunchOperation(CudaCalls& calls, MemoryOperation operation, uint4* from, uint4* to,
                     std::uint64_t bytes) {
  const auto blocks = static_cast<unsigned>(bytes / 16 / kBlockPairs);
  switch (operation) {
    case MemoryOperation::kRead:
      ReadKernel<<<blocks, kThreads>>>(from, to);
      return calls.Launched("the read kernel");
    case MemoryOperation::kWrite:
      WriteKernel<<<blocks, kThreads>>>(to, kWritten);
      return calls.Launched("the write kernel");
    case MemoryOperation::kCopy:
      CopyKernel<<<blocks, kThreads>>>(from, to);
      return calls.Launched("the copy kernel");
    case MemoryOperation::kMemcpy:
      break;
  }
  return calls.Ok(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice),
                  "cudaMemcpyAsync, device to device");
}

bool Fetch(CudaCalls& calls, const CudaBuffer& report, WrongWords& out) {
  return calls.Ok(cudaMemcpy(&out, report.As<WrongWords>(), sizeof out, cudaMemcpyDeviceToHost),
                  "cudaMemcpy of a comparison's result");
}

bool ClearReport(CudaCalls& calls, const CudaBuffer& report) {
  const WrongWords none{0, ~0ULL, 0};
  return calls.Ok(cudaMemcpy(report.As<WrongWords>(), &none, sizeof none, cudaMemcpyHostToDevice),
                  "cudaMemcpy of an empty comparison");
}

bool Elapsed(CudaCalls& calls, const CudaEvent& start, const CudaEvent& stop, double& seconds) {
  float milliseconds = 0;
  const bool good = calls.Ok(cudaEventSynchronize(stop.get()), "cudaEventSynchronize") &&
                    calls.Ok(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()),
                             "cudaEventElapsedTime");
  seconds = milliseconds / 1e3;
  return good;
}

/// Where a planted flip goes: neither an edge nor a power of two.
std::uint64_t PlantedPlace(std::uint64_t words) {
  return words / 3 + words / 7;
}

bool CheckOnePattern(CudaCalls& calls, const CudaBuffer& buffer, const CudaBuffer& report,
                     const DeviceWork& work, MemoryCheck& out) {
  CudaEvent start(calls);
  CudaEvent stop(calls);
  auto* words = buffer.As<std::uint64_t>();
  const std::uint64_t count = out.bytes / 8;
  if (!calls.Ok(cudaEventRecord(start.get()), "cudaEventRecord") ||
      !FillWords(calls, words, count, out.pattern, work.seed) ||
      !calls.Ok(cudaEventRecord(stop.get()), "cudaEventRecord") ||
      !Elapsed(calls, start, stop, out.write_seconds)) {
    return false;
  }
  if (work.plant_flip && !FlipBit(calls, words, PlantedPlace(count), 17)) {
    return false;
  }
  WrongWords wrong{};
  if (!ClearReport(calls, report) || !calls.Ok(cudaEventRecord(start.get()), "cudaEventRecord") ||
      !CheckWords(calls, words, count, out.pattern, work.seed, report.As<WrongWords>()) ||
      !calls.Ok(cudaEventRecord(stop.get()), "cudaEventRecord")) {
    return false;
  }
  if (work.under_load) {
    work.under_load();
  }
  if (!Elapsed(calls, start, stop, out.read_seconds) || !Fetch(calls, report, wrong)) {
    return false;
  }
  out.wrong_words = wrong.count;
  if (wrong.count == 0) {
    return true;
  }
  out.first_wrong = wrong.first;
  out.flipped_bits = wrong.bits;
  out.expected = PatternWord(out.pattern, work.seed, wrong.first);
  return calls.Ok(cudaMemcpy(&out.reread, words + wrong.first, 8, cudaMemcpyDeviceToHost),
                  "cudaMemcpy of a wrong word");
}

}  // namespace

bool FillWords(CudaCalls& calls, std::uint64_t* out, std::uint64_t count, MemoryPattern pattern,
               std::uint64_t seed) {
  FillKernel<<<kLoopingBlocks, kThreads>>>(reinterpret_cast<ulonglong2*>(out), count / 2, pattern,
                                           seed);
  return calls.Launched("the fill kernel");
}

bool CheckWords(CudaCalls& calls, const std::uint64_t* data, std::uint64_t count,
                MemoryPattern pattern, std::uint64_t seed, WrongWords* out) {
  CheckKernel<<<kLoopingBlocks, kThreads>>>(reinterpret_cast<const ulonglong2*>(data), count / 2,
                                            pattern, seed, out);
  return calls.Launched("the check kernel");
}

bool CountWrongWords(CudaCalls& calls, const std::uint64_t* data, std::uint64_t count,
                     MemoryPattern pattern, std::uint64_t seed, std::uint64_t& wrong) {
  CudaBuffer report;
  WrongWords found{};
  if (!report.Allocate(calls, sizeof(WrongWords)) || !ClearReport(calls, report) ||
      !CheckWords(calls, data, count, pattern, seed, report.As<WrongWords>()) ||
      !Fetch(calls, report, found)) {
    return false;
  }
  wrong = found.count;
  return true;
}

bool FlipBit(CudaCalls& calls, void* data, std::uint64_t index, std::uint64_t bit) {
  FlipKernel<<<1, 1>>>(static_cast<std::uint64_t*>(data) + index, bit);
  return calls.Launched("the flip kernel") &&
         calls.Ok(cudaDeviceSynchronize(), "cudaDeviceSynchronize after the flip kernel");
}

DeviceStatus CudaCheckMemory(std::uint64_t bytes, const DeviceWork& work,
                             std::vector<MemoryCheck>& out) {
  CudaCalls calls;
  const std::uint64_t whole = bytes / 16 * 16;
  CudaBuffer buffer;
  CudaBuffer report;
  if (!buffer.Allocate(calls, whole) || !report.Allocate(calls, sizeof(WrongWords))) {
    return calls.Take();
  }
  for (const MemoryPattern pattern : kMemoryPatterns) {
    MemoryCheck check;
    check.pattern = pattern;
    check.bytes = whole;
    if (!CheckOnePattern(calls, buffer, report, work, check)) {
      break;
    }
    out.push_back(check);
  }
  return calls.Take();
}

DeviceStatus CudaMeasureMemory(MemoryOperation operation, std::uint64_t bytes,
                               const DeviceWork& work, MemorySpeed& out) {
  CudaCalls calls;
  const std::uint64_t whole = bytes / (kBlockPairs * 16) * (kBlockPairs * 16);
  const bool both = operation == MemoryOperation::kCopy || operation == MemoryOperation::kMemcpy;
  CudaBuffer from;
  CudaBuffer to;
  CudaBuffer report;
  out.operation = operation;
  out.moved_bytes = both ? 2 * whole : whole;
  if (!from.Allocate(calls, whole) || !to.Allocate(calls, whole) ||
      !report.Allocate(calls, sizeof(WrongWords)) || !ClearReport(calls, report) ||
      !FillWords(calls, from.As<std::uint64_t>(), whole / 8, MemoryPattern::kRandom, work.seed)) {
    return calls.Take();
  }
  const auto launch = [&] {
    return LaunchOperation(calls, operation, from.As<uint4>(), to.As<uint4>(), whole);
  };
  if (!TimeBatches(calls, work, launch, out.timing) || operation == MemoryOperation::kRead) {
    return calls.Take();
  }
  if (work.plant_flip && !FlipBit(calls, to.As<void>(), PlantedPlace(whole / 8), 17)) {
    return calls.Take();
  }
  if (both) {
    CheckWords(calls, to.As<std::uint64_t>(), whole / 8, MemoryPattern::kRandom, work.seed,
               report.As<WrongWords>());
  } else {
    CheckConstantKernel<<<kLoopingBlocks, kThreads>>>(to.As<uint4>(), whole / 16, kWritten,
                                                      report.As<WrongWords>());
    calls.Launched("the constant check kernel");
  }
  WrongWords wrong{};
  if (calls.Good() && Fetch(calls, report, wrong)) {
    out.wrong_words = wrong.count;
  }
  return calls.Take();
}

}  // namespace dlc
