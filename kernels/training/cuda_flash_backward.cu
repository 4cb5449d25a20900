#include "kernels/training/cuda_flash.cuh"
#include "kernels/training/training_math.h"

// Fused causal attention, backward, in two passes that each own what they sum: one by queries for
// the query's gradient, one by keys for those of key and value. No sum crosses blocks, so that the
// bits are the same in every run.
namespace dlc {
namespace {

template <int kSize>
constexpr int kBackwardShared =
    6 * kFlashTile<kSize> * 2 + 4 * kFlashBlock * static_cast<int>(sizeof(float));

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

/// log_sum and dot of a thread's two rows; rows beyond the end weigh nothing.
struct RowSums {
  float log_sum[2];
  float dot[2];

  __device__ RowSums(const CudaAttention& work, std::int64_t sums, int first) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int position = first + 8 * half;
      const bool real = position < work.sequence;
      log_sum[half] = real ? work.log_sums[sums + position] : INFINITY;
      dot[half] = real ? work.dots[sums + position] : 0.0F;
    }
  }
};

/// By queries: a score's gradient replaces its product with the value.
__device__ void ScoreGradients(const FlashScores& scores, FlashScores& products,
                               const RowSums& rows, float scale, bool diagonal, int row) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const bool hidden = diagonal && n * 8 + column + e % 2 > row + e / 2 * 8;
      const float weight =
          hidden ? 0.0F : exp2f(scores[n][e] * (scale * kFlashLog2E) - rows.log_sum[e / 2]);
      products[n][e] = weight * (products[n][e] - rows.dot[e / 2]) * scale;
    }
  }
}

/// By keys, queries across: scores become weights.
__device__ void KeyWeights(FlashScores& scores, const float* log_sums, float scale, bool masked,
                           int key, int first_query, int end) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int at = n * 8 + column + e % 2;
      const int query = first_query + at;
      const bool hidden = masked && (key + e / 2 * 8 > query || query >= end);
      scores[n][e] =
          hidden ? 0.0F : exp2f(scores[n][e] * (scale * kFlashLog2E) - log_sums[at]);
    }
  }
}

__device__ void KeyScoreGradients(FlashScores& weights, const FlashScores& products,
                                  const float* dots, float scale) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      weights[n][e] *= (products[n][e] - dots[n * 8 + column + e % 2]) * scale;
    }
  }
}

/// Queries, the gradients of their results, and their two sums.
template <int kSize>
struct QueryStage {
  __nv_bfloat16* queries;
  __nv_bfloat16* gradients;
  float* log_sums;
  float* dots;

  __device__ QueryStage(__nv_bfloat16* tiles, float* sums, int stage)
      : queries(tiles + stage * 2 * kFlashTile<kSize>),
        gradients(queries + kFlashTile<kSize>),
        log_sums(sums + stage * 2 * kFlashBlock),
        dots(log_sums + kFlashBlock) {}
  __device__ void Load(const CudaAttention& work, const FlashPlaces& at, int first) const {
    const auto* gradient = static_cast<const __nv_bfloat16*>(work.attended_gradient) + at.attended;
    LoadFlashTile<kSize>(queries, at.query, work.step, first, work.sequence);
    LoadFlashTile<kSize>(gradients, gradient, at.step, first, work.sequence);
    const int place = static_cast<int>(threadIdx.x) % kFlashBlock;
    const bool real = first + place < work.sequence;
    const bool is_sum = static_cast<int>(threadIdx.x) < kFlashBlock;
    const float* from = (is_sum ? work.log_sums : work.dots) + at.sums;
    FlashCopyFloat((is_sum ? log_sums : dots) + place, real ? from + first + place : from, real);
  }
};

#endif

template <int kSize>
__global__ void __launch_bounds__(kFlashThreads, 2) FlashQueries(CudaAttention work, float scale) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  extern __shared__ uint4 shared[];
  auto* queries = reinterpret_cast<__nv_bfloat16*>(shared);
  __nv_bfloat16* gradients = queries + kFlashTile<kSize>;
  __nv_bfloat16* keys = gradients + kFlashTile<kSize>;  // two
  __nv_bfloat16* values = keys + 2 * kFlashTile<kSize>;
  const FlashPlaces at(work);
  const int last = static_cast<int>(gridDim.x - 1 - blockIdx.x);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
  const int own = warp * 16 * kFlashStep<kSize>;
  const auto* gradient = static_cast<const __nv_bfloat16*>(work.attended_gradient) + at.attended;
  LoadFlashTile<kSize>(queries, at.query, work.step, last * kFlashBlock, work.sequence);
  LoadFlashTile<kSize>(gradients, gradient, at.step, last * kFlashBlock, work.sequence);
  LoadFlashTile<kSize>(keys, at.key, work.step, 0, work.sequence);
  LoadFlashTile<kSize>(values, at.value, work.step, 0, work.sequence);
  FlashCommit();
  const RowSums rows(work, at.sums, last * kFlashBlock + row);
  FlashVectors<kSize> sums;
  ClearVectors<kSize>(sums);
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
    FlashScores products;
    MultiplyRows<kSize>(scores, queries + own, keys + stage);
    MultiplyRows<kSize>(products, gradients + own, values + stage);
    ScoreGradients(scores, products, rows, scale, block == last, row);
    AddWeighted<kSize>(sums, products, keys + stage);
    __syncthreads();
  }
  auto* out = static_cast<__nv_bfloat16*>(work.query_gradient) +
              static_cast<std::int64_t>(blockIdx.z) * work.sequence * work.gradient_step +
              static_cast<std::int64_t>(blockIdx.y) * kSize;
  StoreVectors<kSize>(sums, out, work.gradient_step, last * kFlashBlock + row, work.sequence);
#endif
}

template <int kSize>
__global__ void __launch_bounds__(kFlashThreads, 2) FlashKeys(CudaAttention work, float scale) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  extern __shared__ uint4 shared[];
  auto* keys = reinterpret_cast<__nv_bfloat16*>(shared);
  __nv_bfloat16* values = keys + kFlashTile<kSize>;
  __nv_bfloat16* tiles = values + kFlashTile<kSize>;  // two stages of two
  auto* sums = reinterpret_cast<float*>(tiles + 4 * kFlashTile<kSize>);
  const FlashPlaces at(work);
  const int own_block = static_cast<int>(blockIdx.x);  // the first have the most queries
  const int blocks = static_cast<int>(gridDim.x);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int own = warp * 16 * kFlashStep<kSize>;
  const int key = own_block * kFlashBlock + warp * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
  LoadFlashTile<kSize>(keys, at.key, work.step, own_block * kFlashBlock, work.sequence);
  LoadFlashTile<kSize>(values, at.value, work.step, own_block * kFlashBlock, work.sequence);
  QueryStage<kSize>(tiles, sums, own_block % 2).Load(work, at, own_block * kFlashBlock);
  FlashCommit();
  FlashVectors<kSize> key_sums;
  FlashVectors<kSize> value_sums;
  ClearVectors<kSize>(key_sums);
  ClearVectors<kSize>(value_sums);
  for (int block = own_block; block < blocks; ++block) {
    const int first = block * kFlashBlock;
    if (block + 1 < blocks) {
      QueryStage<kSize>(tiles, sums, (block + 1) % 2).Load(work, at, first + kFlashBlock);
    }
    FlashCommit();
    FlashAwaitEarlier();
    __syncthreads();
    const QueryStage<kSize> stage(tiles, sums, block % 2);
    const bool masked = block == own_block || first + kFlashBlock > work.sequence;
    FlashScores weights;
    FlashScores products;
    MultiplyRows<kSize>(weights, keys + own, stage.queries);
    KeyWeights(weights, stage.log_sums, scale, masked, key, first, work.sequence);
    AddWeighted<kSize>(value_sums, weights, stage.gradients);
    MultiplyRows<kSize>(products, values + own, stage.gradients);
    KeyScoreGradients(weights, products, stage.dots, scale);
    AddWeighted<kSize>(key_sums, weights, stage.queries);
    __syncthreads();
  }
  StoreVectors<kSize>(key_sums, static_cast<__nv_bfloat16*>(work.key_parts) + at.attended, at.step,
                      key, work.sequence);
  StoreVectors<kSize>(value_sums, static_cast<__nv_bfloat16*>(work.value_parts) + at.attended,
                      at.step, key, work.sequence);
#endif
}

template <int kSize>
void LaunchBackward(CudaQueue queue, const CudaAttention& work) {
  constexpr int kBytes = kBackwardShared<kSize>;
  constexpr auto kAttribute = cudaFuncAttributeMaxDynamicSharedMemorySize;
  const float scale = AttentionScale(kSize);
  if (queue.calls.Ok(cudaFuncSetAttribute(FlashQueries<kSize>, kAttribute, kBytes),
                     "cudaFuncSetAttribute of attention's gradient") &&
      queue.calls.Ok(cudaFuncSetAttribute(FlashKeys<kSize>, kAttribute, kBytes),
                     "cudaFuncSetAttribute of attention's gradient")) {
    FlashQueries<kSize><<<FlashGrid(work), kFlashThreads, kBytes, queue.stream>>>(work, scale);
    FlashKeys<kSize><<<FlashGrid(work), kFlashThreads, kBytes, queue.stream>>>(work, scale);
    queue.calls.Launched("launch of attention's gradient");
  }
}

}  // namespace

void CudaFlashBackward(CudaQueue queue, const CudaAttention& work) {
  if (work.size == 64) {
    LaunchBackward<64>(queue, work);
  } else {
    LaunchBackward<128>(queue, work);
  }
}

}  // namespace dlc
