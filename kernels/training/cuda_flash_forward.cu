#include "kernels/training/cuda_flash.cuh"
#include "kernels/training/training_math.h"

// Fused causal attention by the tensor cores, forward: a block has 64 queries of one head and goes
// through the keys up to them, 64 at a time (Dao 2023, FlashAttention-2, algorithm 1).
namespace dlc {
namespace {

template <int kSize>
constexpr int kForwardShared = 5 * kFlashTile<kSize> * 2;  // bytes: queries, two of keys and values

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

/// Of a thread's two rows.
template <int kSize>
struct Running {
  float largest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  ///< of this thread's columns
  FlashVectors<kSize> attended;
};

__device__ void HideLaterKeys(FlashScores& scores, int row) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (n * 8 + column + e % 2 > row + e / 2 * 8) {
        scores[n][e] = -INFINITY;
      }
    }
  }
}

/// Scores become weights; what was there before shrinks to the new largest.
template <int kSize>
__device__ void Weigh(FlashScores& scores, float scale, Running<kSize>& running) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest = running.largest[half];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      largest = fmaxf(largest, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 2));
    const float shrink = exp2f((running.largest[half] - largest) * scale);
    running.largest[half] = largest;
    const float base = largest * scale;
    float sum = 0;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; ++e) {
        scores[n][e] = exp2f(scores[n][e] * scale - base);
        sum += scores[n][e];
      }
    }
    running.sum[half] = running.sum[half] * shrink + sum;
#pragma unroll
    for (int n = 0; n < kSize / 8; ++n) {
      running.attended[n][2 * half] *= shrink;
      running.attended[n][2 * half + 1] *= shrink;
    }
  }
}

template <int kSize>
__device__ void Finish(const CudaAttention& work, const FlashPlaces& at, float scale, int first,
                       Running<kSize>& running) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = running.sum[half];
    sum += __shfl_xor_sync(0xffffffffU, sum, 1);
    sum += __shfl_xor_sync(0xffffffffU, sum, 2);
    const float inverse = 1.0F / sum;
#pragma unroll
    for (int n = 0; n < kSize / 8; ++n) {
      running.attended[n][2 * half] *= inverse;
      running.attended[n][2 * half + 1] *= inverse;
    }
    const int position = first + 8 * half;
    if (position < work.sequence && threadIdx.x % 4 == 0) {
      work.log_sums[at.sums + position] = running.largest[half] * scale + log2f(sum);
    }
  }
  StoreVectors<kSize>(running.attended, static_cast<__nv_bfloat16*>(work.attended) + at.attended,
                      at.step, first, work.sequence);
}

#endif

template <int kSize>
__global__ void __launch_bounds__(kFlashThreads, 2) FlashForward(CudaAttention work, float scale) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  extern __shared__ uint4 shared[];
  auto* queries = reinterpret_cast<__nv_bfloat16*>(shared);
  __nv_bfloat16* keys = queries + kFlashTile<kSize>;  // two
  __nv_bfloat16* values = keys + 2 * kFlashTile<kSize>;
  const FlashPlaces at(work);
  const int last = static_cast<int>(gridDim.x - 1 - blockIdx.x);  // the longest come first
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
  LoadFlashTile<kSize>(queries, at.query, work.step, last * kFlashBlock, work.sequence);
  LoadFlashTile<kSize>(keys, at.key, work.step, 0, work.sequence);
  LoadFlashTile<kSize>(values, at.value, work.step, 0, work.sequence);
  FlashCommit();
  Running<kSize> running;
  ClearVectors<kSize>(running.attended);
  for (int block = 0; block <= last; ++block) {
    const int stage = block % 2 * kFlashTile<kSize>;
    if (block < last) {
      const int other = (block + 1) % 2 * kFlashTile<kSize>;
      const int next = (block + 1) * kFlashBlock;
      LoadFlashTile<kSize>(keys + other, at.key, work.step, next, work.sequence);
      LoadFlashTile<kSize>(values + other, at.value, work.step, next, work.sequence);
    }
    FlashCommit();
    FlashAwaitEarlier();
    __syncthreads();
    FlashScores scores;
    MultiplyRows<kSize>(scores, queries + warp * 16 * kFlashStep<kSize>, keys + stage);
    if (block == last) {
      HideLaterKeys(scores, row);
    }
    Weigh<kSize>(scores, scale, running);
    AddWeighted<kSize>(running.attended, scores, values + stage);
    __syncthreads();
  }
  Finish<kSize>(work, at, scale, last * kFlashBlock + row, running);
#endif
}

template <int kSize>
void LaunchForward(CudaQueue queue, const CudaAttention& work) {
  constexpr int kBytes = kForwardShared<kSize>;
  if (queue.calls.Ok(cudaFuncSetAttribute(FlashForward<kSize>,
                                          cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
                     "cudaFuncSetAttribute of attention")) {
    FlashForward<kSize><<<FlashGrid(work), kFlashThreads, kBytes, queue.stream>>>(
        work, AttentionScale(kSize) * kFlashLog2E);
    queue.calls.Launched("launch of attention");
  }
}

}  // namespace

void CudaFlashAttend(CudaQueue queue, const CudaAttention& work) {
  if (work.size == 64) {
    LaunchForward<64>(queue, work);
  } else {
    LaunchForward<128>(queue, work);
  }
}

}  // namespace dlc
