#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include "kernels/cuda_support.cuh"

// A product by the tensor cores (the warp-level matrix API, which every architecture from 7.0 on
// has), and the same product by integer arithmetic on the other units, from the formula and not
// from the stored factors. Good for some half of what tuned libraries reach: it finds wrong
// results, and its speed is told, not judged.
namespace dlc {
namespace {

namespace wmma = nvcuda::wmma;

constexpr int kTile = 128;        // of the product, per block
constexpr int kDepth = 32;        // of k, per step
constexpr int kRow = kDepth + 8;  // padded, against bank conflicts
constexpr int kThreads = 256;     // 4 x 2 warps of 32 x 64 each

template <class T>
struct Tile {
  alignas(32) T rows[kTile][kRow];
};

/// A kTile x kDepth part of a factor on its way from global to shared memory.
struct InFlight {
  uint4 part[2];
};

template <class T>
__device__ InFlight Load(const T* factor, int size, int k) {
  InFlight in;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int place = static_cast<int>(threadIdx.x) + i * kThreads;
    const T* at = factor + static_cast<std::size_t>(place / 4) * size + k + place % 4 * 8;
    in.part[i] = *reinterpret_cast<const uint4*>(at);
  }
  return in;
}

template <class T>
__device__ void Store(Tile<T>& tile, const InFlight& in) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int place = static_cast<int>(threadIdx.x) + i * kThreads;
    *reinterpret_cast<uint4*>(&tile.rows[place / 4][place % 4 * 8]) = in.part[i];
  }
}

template <class T>
using Left = wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major>;
template <class T>
using Right = wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major>;
using Sum = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

template <class T>
__device__ void MultiplyStep(const Tile<T>& left, const Tile<T>& right, Sum (&sums)[2][4]) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / 2 * 32;
  const int column = warp % 2 * 64;
#pragma unroll
  for (int k = 0; k < kDepth; k += 16) {
    Left<T> a[2];
    Right<T> b[4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      wmma::load_matrix_sync(a[i], &left.rows[row + 16 * i][k], kRow);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      wmma::load_matrix_sync(b[j], &right.rows[column + 16 * j][k], kRow);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        wmma::mma_sync(sums[i][j], a[i], b[j], sums[i][j]);
      }
    }
  }
}

template <class T>
__device__ void MultiplyTile(const T* left, const T* right, float* product, int size) {
  __shared__ Tile<T> left_tiles[2];
  __shared__ Tile<T> right_tiles[2];
  const std::size_t row0 = std::size_t{blockIdx.y} * kTile;
  const std::size_t column0 = std::size_t{blockIdx.x} * kTile;
  left += row0 * size;
  right += column0 * size;
  Sum sums[2][4];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      wmma::fill_fragment(sums[i][j], 0.0F);
    }
  }
  InFlight next_left = Load(left, size, 0);
  InFlight next_right = Load(right, size, 0);
  Store(left_tiles[0], next_left);
  Store(right_tiles[0], next_right);
  __syncthreads();
  int stage = 0;
  for (int k = 0; k < size; k += kDepth) {
    const bool more = k + kDepth < size;
    if (more) {
      next_left = Load(left, size, k + kDepth);
      next_right = Load(right, size, k + kDepth);
    }
    MultiplyStep(left_tiles[stage], right_tiles[stage], sums);
    stage ^= 1;
    if (more) {
      Store(left_tiles[stage], next_left);
      Store(right_tiles[stage], next_right);
    }
    __syncthreads();
  }
  const int warp = static_cast<int>(threadIdx.x) / 32;
  float* out = product + (row0 + warp / 2 * 32) * size + column0 + warp % 2 * 64;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      wmma::store_matrix_sync(out + static_cast<std::size_t>(16 * i) * size + 16 * j, sums[i][j],
                              static_cast<unsigned>(size), wmma::mem_row_major);
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    MultiplyFloat16(const __half* left, const __half* right, float* product, int size) {
  MultiplyTile(left, right, product, size);
}

__global__ void __launch_bounds__(kThreads)
    MultiplyBfloat16(const __nv_bfloat16* left, const __nv_bfloat16* right, float* product,
                     int size) {
// Before 8.0 the tensor cores have no bfloat16; the host chooses the other kernel there.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  MultiplyTile(left, right, product, size);
#endif
}

template <class T>
__global__ void FillFactor(T* out, std::uint64_t seed, int factor, int size) {
  const int row = static_cast<int>(blockIdx.x);
  for (int k = static_cast<int>(threadIdx.x); k < size; k += static_cast<int>(blockDim.x)) {
    out[static_cast<std::size_t>(row) * size + k] =
        static_cast<T>(static_cast<float>(MatrixEntry(seed, factor, row, k)));
  }
}

constexpr int kPlainTile = 64;  // 16 x 16 threads of 4 x 4 elements
constexpr int kPlainDepth = 16;

__global__ void __launch_bounds__(256) MultiplyIntegers(int* out, std::uint64_t seed, int size) {
  __shared__ int left[kPlainDepth][kPlainTile];
  __shared__ int right[kPlainDepth][kPlainTile];
  const int row0 = static_cast<int>(blockIdx.y) * kPlainTile;
  const int column0 = static_cast<int>(blockIdx.x) * kPlainTile;
  const int thread = static_cast<int>(threadIdx.x);
  const int y = thread / 16;
  const int x = thread % 16;
  int sums[4][4] = {};
  for (int k0 = 0; k0 < size; k0 += kPlainDepth) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int place = thread + 256 * i;
      const int k = place / kPlainTile;
      const int at = place % kPlainTile;
      left[k][at] = MatrixEntry(seed, 0, row0 + at, k0 + k);
      right[k][at] = MatrixEntry(seed, 1, column0 + at, k0 + k);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kPlainDepth; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sums[i][j] += left[k][y + 16 * i] * right[k][x + 16 * j];
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      out[static_cast<std::size_t>(row0 + y + 16 * i) * size + column0 + x + 16 * j] = sums[i][j];
    }
  }
}

__global__ void CompareProduct(const float* product, const int* reference, std::uint64_t elements,
                               WrongWords* out) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += step) {
    if (product[i] != static_cast<float>(reference[i])) {  // a NaN too
      atomicAdd(&out->count, 1ULL);
      atomicMin(&out->first, static_cast<unsigned long long>(i));
    }
  }
}

/// The buffers of one experiment.
struct Matrices {
  int size = 0;
  bool bfloat16 = false;
  CudaBuffer left;
  CudaBuffer right;
  CudaBuffer product;
  CudaBuffer reference;
  CudaBuffer report;

  std::uint64_t Elements() const { return static_cast<std::uint64_t>(size) * size; }
};

bool Allocate(CudaCalls& calls, Matrices& m) {
  return m.left.Allocate(calls, 2 * m.Elements()) && m.right.Allocate(calls, 2 * m.Elements()) &&
         m.product.Allocate(calls, 4 * m.Elements()) &&
         m.reference.Allocate(calls, 4 * m.Elements()) &&
         m.report.Allocate(calls, sizeof(WrongWords));
}

template <class T>
bool Fill(CudaCalls& calls, const Matrices& m, std::uint64_t seed) {
  const auto rows = static_cast<unsigned>(m.size);
  FillFactor<<<rows, kThreads>>>(m.left.As<T>(), seed, 0, m.size);
  FillFactor<<<rows, kThreads>>>(m.right.As<T>(), seed, 1, m.size);
  return calls.Launched("the kernel that fills factors");
}

bool Prepare(CudaCalls& calls, const Matrices& m, std::uint64_t seed) {
  const bool filled =
      m.bfloat16 ? Fill<__nv_bfloat16>(calls, m, seed) : Fill<__half>(calls, m, seed);
  if (!filled) {
    return false;
  }
  const auto tiles = static_cast<unsigned>(m.size / kPlainTile);
  MultiplyIntegers<<<dim3(tiles, tiles), 256>>>(m.reference.As<int>(), seed, m.size);
  const WrongWords none{0, ~0ULL, 0};
  return calls.Launched("the integer product's kernel") &&
         calls.Ok(cudaMemcpy(m.report.As<WrongWords>(), &none, sizeof none, cudaMemcpyHostToDevice),
                  "cudaMemcpy of an empty comparison");
}

bool LaunchProduct(CudaCalls& calls, const Matrices& m) {
  const auto tiles = static_cast<unsigned>(m.size / kTile);
  const dim3 grid(tiles, tiles);
  if (m.bfloat16) {
    MultiplyBfloat16<<<grid, kThreads>>>(m.left.As<__nv_bfloat16>(), m.right.As<__nv_bfloat16>(),
                                         m.product.As<float>(), m.size);
  } else {
    MultiplyFloat16<<<grid, kThreads>>>(m.left.As<__half>(), m.right.As<__half>(),
                                        m.product.As<float>(), m.size);
  }
  return calls.Launched("the tensor-core product's kernel");
}

bool LaunchComparison(CudaCalls& calls, const Matrices& m) {
  CompareProduct<<<4096, kThreads>>>(m.product.As<float>(), m.reference.As<int>(), m.Elements(),
                                     m.report.As<WrongWords>());
  return calls.Launched("the comparison's kernel");
}

/// A product that was never written must not compare equal by what an earlier one left.
bool Spoil(CudaCalls& calls, const Matrices& m) {
  return calls.Ok(cudaMemsetAsync(m.product.As<void>(), 0xff, 4 * m.Elements()),
                  "cudaMemsetAsync over the product");
}

/// One timed product, compared.
bool OneProduct(CudaCalls& calls, const Matrices& m, const DeviceWork& work, MatrixProduct& out,
                double& seconds) {
  CudaEvent start(calls);
  CudaEvent stop(calls);
  if (!Spoil(calls, m) || !calls.Ok(cudaEventRecord(start.get()), "cudaEventRecord") ||
      !LaunchProduct(calls, m) || !calls.Ok(cudaEventRecord(stop.get()), "cudaEventRecord")) {
    return false;
  }
  if (work.plant_flip && out.checked_elements == 0 &&
      !FlipBit(calls, m.product.As<void>(), m.Elements() / 6, 5)) {
    return false;
  }
  if (!LaunchComparison(calls, m)) {
    return false;
  }
  if (work.under_load) {
    work.under_load();
  }
  float milliseconds = 0;
  if (!calls.Ok(cudaDeviceSynchronize(), "cudaDeviceSynchronize after a product") ||
      !calls.Ok(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()),
                "cudaEventElapsedTime")) {
    return false;
  }
  seconds = milliseconds / 1e3;
  out.checked_elements += static_cast<std::int64_t>(m.Elements());
  return true;
}

bool Repeat(CudaCalls& calls, const Matrices& m, const DeviceWork& work, MatrixProduct& out) {
  double first = 0;
  if (!OneProduct(calls, m, work, out, first)) {  // warm-up, compared as well
    return false;
  }
  const Stopwatch budget(work.seconds);
  double total = 0;
  do {
    double seconds = 0;
    if (!OneProduct(calls, m, work, out, seconds)) {
      return false;
    }
    total += seconds;
    DeviceTiming& timing = out.timing;
    timing.seconds = total / static_cast<double>(++timing.iterations);
    timing.best_seconds =
        timing.best_seconds == 0 ? seconds : std::min(timing.best_seconds, seconds);
  } while (!budget.Over());
  return true;
}

bool ReadReport(CudaCalls& calls, const Matrices& m, MatrixProduct& out) {
  WrongWords wrong{};
  if (!calls.Ok(cudaMemcpy(&wrong, m.report.As<WrongWords>(), sizeof wrong, cudaMemcpyDeviceToHost),
                "cudaMemcpy of the comparison")) {
    return false;
  }
  out.wrong_elements = static_cast<std::int64_t>(wrong.count);
  if (wrong.count == 0) {
    return true;
  }
  float found = 0;
  int expected = 0;
  calls.Ok(
      cudaMemcpy(&found, m.product.As<float>() + wrong.first, sizeof found, cudaMemcpyDeviceToHost),
      "cudaMemcpy of a wrong element");
  calls.Ok(cudaMemcpy(&expected, m.reference.As<int>() + wrong.first, sizeof expected,
                      cudaMemcpyDeviceToHost),
           "cudaMemcpy of a right element");
  out.wrong_row = static_cast<int>(wrong.first / static_cast<std::uint64_t>(m.size));
  out.wrong_column = static_cast<int>(wrong.first % static_cast<std::uint64_t>(m.size));
  out.found = found;
  out.expected = expected;
  return calls.Good();
}

/// Some elements of the reference, all over it, computed once more by the CPU: the device must not
/// be its only judge.
bool CheckReference(CudaCalls& calls, const Matrices& m, std::uint64_t seed, MatrixProduct& out) {
  constexpr int kSamples = 64;
  for (int i = 0; i < kSamples; ++i) {
    const std::uint64_t at = MixBits(seed + static_cast<std::uint64_t>(i)) % m.Elements();
    int value = 0;
    if (!calls.Ok(
            cudaMemcpy(&value, m.reference.As<int>() + at, sizeof value, cudaMemcpyDeviceToHost),
            "cudaMemcpy of a reference element")) {
      return false;
    }
    const int row = static_cast<int>(at / static_cast<std::uint64_t>(m.size));
    const int column = static_cast<int>(at % static_cast<std::uint64_t>(m.size));
    ++out.host_checked_elements;
    out.host_wrong_elements += value != ProductElement(seed, m.size, row, column) ? 1 : 0;
  }
  return true;
}

}  // namespace

DeviceStatus CudaMultiply(int size, const DeviceWork& work, MatrixProduct& out) {
  CudaCalls calls;
  int device = 0;
  int major = 0;
  if (!calls.Ok(cudaGetDevice(&device), "cudaGetDevice") ||
      !calls.Ok(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                "cudaDeviceGetAttribute")) {
    return calls.Take();
  }
  Matrices m;
  m.size = size;
  m.bfloat16 = major >= 8;
  out.size = size;
  out.type = m.bfloat16 ? "bfloat16" : "float16";
  if (Allocate(calls, m) && Prepare(calls, m, work.seed) && Repeat(calls, m, work, out) &&
      ReadReport(calls, m, out)) {
    CheckReference(calls, m, work.seed, out);
  }
  return calls.Take();
}

}  // namespace dlc
