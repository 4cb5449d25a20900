#include <algorithm>
#include <cstdint>

#include "kernels/mix.h"
#include "kernels/training/cuda_shards.cuh"
#include "kernels/training/synthetic.h"

namespace dlc {
namespace {

constexpr int kThreads = 256;

__device__ std::int64_t FirstIndex() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::int64_t Stride() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

__global__ void NormalValues(float* to, std::uint64_t key, std::uint64_t first, std::int64_t count,
                             float mean, float spread) {
  for (std::int64_t i = FirstIndex(); i < count; i += Stride()) {
    const float part =
        __fmul_rn(spread, SyntheticNormal(key, first + static_cast<std::uint64_t>(i)));
    to[i] = __fadd_rn(mean, part);
  }
}

template <class T>
__global__ void IntegerValues(T* to, std::uint64_t key, std::uint64_t first, std::int64_t count) {
  for (std::int64_t i = FirstIndex(); i < count; i += Stride()) {
    const int value = SyntheticInteger(key, first + static_cast<std::uint64_t>(i));
    to[i] = CudaNarrow<T>(static_cast<float>(value));
  }
}

__global__ void HashValues(const float* values, std::uint64_t key, std::uint64_t first,
                           std::int64_t count, unsigned long long* hash) {
  __shared__ unsigned long long scratch[32];
  unsigned long long sum = 0;
  for (std::int64_t i = FirstIndex(); i < count; i += Stride()) {
    const std::uint64_t place = MixBits(key ^ (first + static_cast<std::uint64_t>(i)));
    sum += MixBits(__float_as_uint(values[i]) ^ place);
  }
  sum = CudaBlockSum(sum, scratch);
  if (threadIdx.x == 0) {
    atomicAdd(hash, sum);  // whole numbers: in any order the same
  }
}

__device__ double BlockLargest(double value, double* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    value = fmax(value, __shfl_xor_sync(0xffffffffU, value, step));
  }
  __syncthreads();
  if (lane == 0) {
    scratch[threadIdx.x / 32] = value;
  }
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / 32;
  for (int i = 0; i < warps; ++i) {
    value = fmax(value, scratch[i]);
  }
  return value;
}

__global__ void CompareValues(const float* found, const float* expected, std::int64_t count,
                              FloatComparison* comparisons) {
  __shared__ long long counts[32];
  __shared__ double scratch[32];
  FloatComparison own{};
  for (std::int64_t i = FirstIndex(); i < count; i += Stride()) {
    const float a = found[i];
    const float b = expected[i];
    own.different += __float_as_uint(a) == __float_as_uint(b) ? 0 : 1;
    if (!isfinite(a) || !isfinite(b)) {
      ++own.not_finite;
      continue;
    }
    const double right = fabs(static_cast<double>(b));
    const double difference = fabs(static_cast<double>(a) - static_cast<double>(b));
    own.largest_difference = fmax(own.largest_difference, difference);
    own.largest_expected = fmax(own.largest_expected, right);
    own.sum_squared_difference += difference * difference;
    own.sum_squared_expected += right * right;
  }
  FloatComparison all{};
  all.different = CudaBlockSum(static_cast<long long>(own.different), counts);
  all.not_finite = CudaBlockSum(static_cast<long long>(own.not_finite), counts);
  all.largest_difference = BlockLargest(own.largest_difference, scratch);
  all.largest_expected = BlockLargest(own.largest_expected, scratch);
  all.sum_squared_difference = CudaBlockSum(own.sum_squared_difference, scratch);
  all.sum_squared_expected = CudaBlockSum(own.sum_squared_expected, scratch);
  if (threadIdx.x == 0) {
    comparisons[blockIdx.x] = all;
  }
}

unsigned BlocksOf(std::int64_t count) {
  return static_cast<unsigned>(
      std::clamp<std::int64_t>((count + kThreads - 1) / kThreads, 1, 1 << 16));
}

}  // namespace

void CudaFillNormal(CudaQueue queue, float* to, std::uint64_t key, std::int64_t first,
                    std::int64_t count, float mean, float spread) {
  NormalValues<<<BlocksOf(count), kThreads, 0, queue.stream>>>(
      to, key, static_cast<std::uint64_t>(first), count, mean, spread);
  queue.calls.Launched("launch of synthetic values");
}

void CudaFillIntegers(CudaQueue queue, void* to, DataType type, std::uint64_t key,
                      std::int64_t first, std::int64_t count) {
  ForCudaType(type, [&](auto element) {
    IntegerValues<<<BlocksOf(count), kThreads, 0, queue.stream>>>(
        static_cast<decltype(element)*>(to), key, static_cast<std::uint64_t>(first), count);
  });
  queue.calls.Launched("launch of synthetic integers");
}

void CudaAddHash(CudaQueue queue, const float* values, std::uint64_t key, std::int64_t first,
                 std::int64_t count, unsigned long long* hash) {
  const unsigned blocks = std::min<unsigned>(BlocksOf(count), 4096);
  HashValues<<<blocks, kThreads, 0, queue.stream>>>(values, key, static_cast<std::uint64_t>(first),
                                                    count, hash);
  queue.calls.Launched("launch of a hash");
}

void CudaCompare(CudaQueue queue, const float* found, const float* expected, std::int64_t count,
                 FloatComparison* comparisons) {
  CompareValues<<<kCudaReduceBlocks, kThreads, 0, queue.stream>>>(found, expected, count,
                                                                  comparisons);
  queue.calls.Launched("launch of a comparison");
}

}  // namespace dlc
