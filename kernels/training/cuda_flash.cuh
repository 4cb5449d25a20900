// Tiles of 64 vectors for the tensor cores, shared by the two passes of fused attention.
#pragma once

#include "kernels/training/cuda_training.cuh"

namespace dlc {

// mma.sync m16n8k16 (PTX ISA, 9.7.14.5): of a 16 x 8 result a thread holds, with g = lane / 4 and t =
// lane % 4, the elements (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1). A warp has 16 rows.
constexpr int kFlashBlock = 64;
constexpr int kFlashThreads = 128;

/// A row's place in shared memory: 16 bytes more, so that eight rows at one column lie in different
/// banks.
template <int kSize>
constexpr int kFlashStep = kSize + 8;
template <int kSize>
constexpr int kFlashTile = kFlashBlock * kFlashStep<kSize>;

/// The result of a warp's 16 vectors with the 64 of a tile.
using FlashScores = float[8][4];
template <int kSize>
using FlashVectors = float[kSize / 8][4];

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

__device__ inline unsigned SharedAddress(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

/// 16 bytes, or zeros.
__device__ inline void FlashCopy(void* to, const void* from, bool real) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)), "l"(from),
               "r"(real ? 16 : 0)
               : "memory");
}
__device__ inline void FlashCopyFloat(float* to, const float* from, bool real) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(SharedAddress(to)), "l"(from),
               "r"(real ? 4 : 0)
               : "memory");
}
__device__ inline void FlashCommit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Until at most the latest group is on its way.
__device__ inline void FlashAwaitEarlier() {
  asm volatile("cp.async.wait_group 1;" ::: "memory");
}

__device__ inline void LoadFragment(unsigned (&to)[4], const __nv_bfloat16* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(SharedAddress(from))
               : "memory");
}
__device__ inline void LoadFragmentTransposed(unsigned (&to)[4], const __nv_bfloat16* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(SharedAddress(from))
               : "memory");
}
__device__ inline void MultiplyAdd(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                   unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline unsigned PackPair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}

/// 64 vectors from position `first`, `step` elements apart; zeros from position `end` on.
template <int kSize>
__device__ void LoadFlashTile(__nv_bfloat16* tile, const __nv_bfloat16* from, std::int64_t step,
                              int first, int end) {
  constexpr int kPerRow = kSize / 8;
#pragma unroll
  for (int n = 0; n < kFlashBlock * kPerRow / kFlashThreads; ++n) {
    const int place = n * kFlashThreads + static_cast<int>(threadIdx.x);
    const int row = place / kPerRow;
    const int column = place % kPerRow * 8;
    const bool real = first + row < end;
    const __nv_bfloat16* source = real ? from + (first + row) * step + column : from;
    FlashCopy(tile + row * kFlashStep<kSize> + column, source, real);
  }
}

/// scores = this warp's 16 rows of `a` times the 64 of `b`.
template <int kSize>
__device__ void MultiplyRows(FlashScores& scores, const __nv_bfloat16* a,
                             const __nv_bfloat16* b) {
  constexpr int kStep = kFlashStep<kSize>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const __nv_bfloat16* a_at = a + lane % 16 * kStep + lane / 16 * 8;
  const __nv_bfloat16* b_at = b + (lane % 8 + lane / 16 * 8) * kStep + lane / 8 % 2 * 8;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      scores[n][e] = 0;
    }
  }
#pragma unroll
  for (int k = 0; k < kSize; k += 16) {
    unsigned left[4];
    LoadFragment(left, a_at + k);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      unsigned right[4];
      LoadFragment(right, b_at + n * 16 * kStep + k);
      MultiplyAdd(scores[2 * n], left, right[0], right[1]);
      MultiplyAdd(scores[2 * n + 1], left, right[2], right[3]);
    }
  }
}

/// sums += weights (16 x 64, rounded to bfloat16) times the 64 vectors of `tile`.
template <int kSize>
__device__ void AddWeighted(FlashVectors<kSize>& sums, const FlashScores& weights,
                            const __nv_bfloat16* tile) {
  constexpr int kStep = kFlashStep<kSize>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const __nv_bfloat16* at = tile + lane % 16 * kStep + lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const unsigned left[4] = {PackPair(weights[2 * k][0], weights[2 * k][1]),
                              PackPair(weights[2 * k][2], weights[2 * k][3]),
                              PackPair(weights[2 * k + 1][0], weights[2 * k + 1][1]),
                              PackPair(weights[2 * k + 1][2], weights[2 * k + 1][3])};
#pragma unroll
    for (int n = 0; n < kSize / 16; ++n) {
      unsigned right[4];
      LoadFragmentTransposed(right, at + k * 16 * kStep + n * 16);
      MultiplyAdd(sums[2 * n], left, right[0], right[1]);
      MultiplyAdd(sums[2 * n + 1], left, right[2], right[3]);
    }
  }
}

template <int kSize>
__device__ void ClearVectors(FlashVectors<kSize>& sums) {
#pragma unroll
  for (int n = 0; n < kSize / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      sums[n][e] = 0;
    }
  }
}

/// This thread's part of rows `first` and `first` + 8; `at` is the vector of position 0.
template <int kSize>
__device__ void StoreVectors(const FlashVectors<kSize>& sums, __nv_bfloat16* at, std::int64_t step,
                             int first, int end) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int position = first + 8 * half;
    if (position < end) {
      __nv_bfloat16* to = at + position * step + column;
#pragma unroll
      for (int n = 0; n < kSize / 8; ++n) {
        *reinterpret_cast<unsigned*>(to + n * 8) =
            PackPair(sums[n][2 * half], sums[n][2 * half + 1]);
      }
    }
  }
}

/// Where a block's head and sequence start.
struct FlashPlaces {
  const __nv_bfloat16* query;
  const __nv_bfloat16* key;
  const __nv_bfloat16* value;
  std::int64_t attended;  ///< elements; also of gradients in that layout
  std::int64_t step;      ///< of those, from token to token
  std::int64_t sums;

  __device__ explicit FlashPlaces(const CudaAttention& work) {
    const auto head = static_cast<int>(blockIdx.y);
    const int kv_head = head / (work.heads / work.kv_heads);
    const std::int64_t token = static_cast<std::int64_t>(blockIdx.z) * work.sequence;
    query = static_cast<const __nv_bfloat16*>(work.query) + token * work.step + head * work.size;
    key = static_cast<const __nv_bfloat16*>(work.key) + token * work.step + kv_head * work.size;
    value = static_cast<const __nv_bfloat16*>(work.value) + token * work.step + kv_head * work.size;
    step = static_cast<std::int64_t>(work.heads) * work.size;
    attended = token * step + head * work.size;
    sums = (static_cast<std::int64_t>(blockIdx.z) * work.heads + head) * work.sequence;
  }
};

#endif

constexpr float kFlashLog2E = 1.4426950408889634F;

inline dim3 FlashGrid(const CudaAttention& work) {
  return {static_cast<unsigned>((work.sequence + kFlashBlock - 1) / kFlashBlock),
          static_cast<unsigned>(work.heads), static_cast<unsigned>(work.rows)};
}

}  // namespace dlc
