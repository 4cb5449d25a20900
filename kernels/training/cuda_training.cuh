// Shared by the CUDA sources of training; no other file includes it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda_support.cuh"
#include "kernels/training/training_backend.h"

namespace dlc {

/// An element type and how many of them one thread loads at a time.
template <class T, int kCount>
struct CudaLanes {
  using Type = T;
  static constexpr int kWidth = kCount;
};

/// Calls body(CudaLanes): 16 bytes at a time where `wide`, else element by element.
template <class Body>
void ForCudaLanes(DataType type, bool wide, Body body) {
  if (type == DataType::kFloat32) {
    if (wide) {
      body(CudaLanes<float, 4>{});
    } else {
      body(CudaLanes<float, 1>{});
    }
  } else if (wide) {
    body(CudaLanes<__nv_bfloat16, 8>{});
  } else {
    body(CudaLanes<__nv_bfloat16, 1>{});
  }
}

/// Calls body with a value of the element type.
template <class Body>
void ForCudaType(DataType type, Body body) {
  if (type == DataType::kFloat32) {
    body(float{});
  } else {
    body(__nv_bfloat16{});
  }
}

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) CudaPack {
  T at[kCount];
};

__device__ inline float CudaWiden(float value) {
  return value;
}
__device__ inline float CudaWiden(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
template <class T>
__device__ T CudaNarrow(float value);
template <>
__device__ inline float CudaNarrow<float>(float value) {
  return value;
}
template <>
__device__ inline __nv_bfloat16 CudaNarrow<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

template <int kCount, class T>
__device__ void CudaLoad(const T* from, float (&to)[kCount]) {
  const auto pack = *reinterpret_cast<const CudaPack<T, kCount>*>(from);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    to[i] = CudaWiden(pack.at[i]);
  }
}

template <int kCount, class T>
__device__ void CudaStore(T* to, const float (&from)[kCount]) {
  CudaPack<T, kCount> pack;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    pack.at[i] = CudaNarrow<T>(from[i]);
  }
  *reinterpret_cast<CudaPack<T, kCount>*>(to) = pack;
}

template <class T>
__device__ T CudaWarpSum(T value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, step);
  }
  return value;
}

/// In every thread the sum over the block, whose threads are a multiple of 32; `scratch` holds 32.
template <class T>
__device__ T CudaBlockSum(T value, T* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  value = CudaWarpSum(value);
  __syncthreads();  // of an earlier sum, all have read
  if (lane == 0) {
    scratch[warp] = value;
  }
  __syncthreads();
  return CudaWarpSum(lane < warps ? scratch[lane] : T{0});
}

/// Where the model's work goes.
struct CudaQueue {
  CudaCalls& calls;
  cudaStream_t stream;
};

// Norms and element by element (cuda_layers.cu). `size` is a row's; pointers are aligned to 16 bytes
// where size is a multiple of 8.

/// out = weight * (values * inverse); inverse[row] = 1 / sqrt(mean of squares + epsilon).
void CudaNormalize(CudaQueue queue, DataType type, std::int64_t rows, int size, const void* values,
                   const void* weight, float epsilon, void* out, float* inverse);

struct CudaNormGradient {
  const void* values = nullptr;
  const float* inverse = nullptr;
  const void* weight = nullptr;
  const void* out_gradient = nullptr;
  void* gradient = nullptr;  ///< of values
  bool add = false;          ///< to what is in gradient
  float* parts = nullptr;    ///< of the weight's gradient: CudaNormParts(rows) x size
};
int CudaNormParts(std::int64_t rows);
void CudaNormalizeBackward(CudaQueue queue, DataType type, std::int64_t rows, int size,
                           const CudaNormGradient& work);

/// out[column] = the sum over parts, in a fixed order.
struct CudaColumnSum {
  const float* parts = nullptr;
  int count = 0;    ///< of parts
  int step = 0;     ///< from part to part
  int columns = 0;
  void* out = nullptr;
};
inline constexpr int kCudaMostSums = 5;
struct CudaColumnSums {
  CudaColumnSum sums[kCudaMostSums];
  int used = 0;
};
void CudaAddColumns(CudaQueue queue, DataType type, const CudaColumnSums& sums);

/// gate and up lie side by side, `size` each, in `both`.
void CudaSwiGlu(CudaQueue queue, DataType type, std::int64_t rows, int size, const void* both,
                void* out);
/// `both` becomes its gradient, and `product`, which holds that of the product, the product.
void CudaSwiGluBackward(CudaQueue queue, DataType type, std::int64_t rows, int size, void* both,
                        void* product);

/// Heads of one token, side by side: query, key, value.
struct CudaHeads {
  std::int64_t tokens = 0;
  int sequence = 0;
  int heads = 0;
  int kv_heads = 0;
  int size = 0;
  const float* cosine = nullptr;  ///< RopeTable
  const float* sine = nullptr;

  constexpr int Width() const { return (heads + 2 * kv_heads) * size; }
};
/// Turns query and key in place.
void CudaRotate(CudaQueue queue, DataType type, const CudaHeads& heads, void* values);
/// Turns the query's gradient back in place; sums those of key and value over the query heads that
/// share them (parts: tokens x heads x size) and puts them where they belong; bias_parts:
/// CudaRotateParts(heads) x Width(), the sums over tokens.
void CudaRotateBackward(CudaQueue queue, DataType type, const CudaHeads& heads, void* gradients,
                        const void* key_parts, const void* value_parts, float* bias_parts);
int CudaRotateParts(const CudaHeads& heads);

struct CudaSegment {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t bytes = 0;
};
inline constexpr int kCudaMostSegments = 6;
struct CudaSegments {
  CudaSegment segments[kCudaMostSegments];
  int used = 0;
};
void CudaCopySegments(CudaQueue queue, const CudaSegments& segments);

// The embedding and the loss (cuda_root.cu).

void CudaEmbedRows(CudaQueue queue, DataType type, std::int64_t rows, int size, const void* table,
                   const std::int32_t* tokens, void* out);
/// Rows of `gradient` by word: word w's are order[starts[w]] to order[starts[w + 1] - 1].
struct CudaEmbedGradient {
  const void* gradient = nullptr;
  const std::int32_t* words = nullptr;
  const std::int32_t* starts = nullptr;
  const std::int32_t* order = nullptr;
  int count = 0;  ///< of words
  void* table_gradient = nullptr;
  DataType table_type = DataType::kFloat32;
};
void CudaEmbedBackward(CudaQueue queue, DataType type, int size, const CudaEmbedGradient& work);

struct CudaLogits {
  void* values = nullptr;  ///< become the loss's gradients, times `share`
  std::int64_t rows = 0;
  std::int64_t step = 0;  ///< from row to row, a multiple of 8
  int vocabulary = 0;
  const std::int32_t* targets = nullptr;
  float* losses = nullptr;  ///< of each row
  float share = 0;
};
void CudaCrossEntropy(CudaQueue queue, DataType type, const CudaLogits& logits);
/// *mean, in a fixed order.
void CudaMean(CudaQueue queue, const float* values, std::int64_t count, float* mean);

// Attention (cuda_attention.cu, cuda_flash.cu).

struct CudaAttention {
  DataType type = DataType::kBfloat16;
  bool tensor_cores = false;
  int rows = 0;
  int sequence = 0;
  int heads = 0;
  int kv_heads = 0;
  int size = 0;
  const void* query = nullptr;  ///< turned
  const void* key = nullptr;
  const void* value = nullptr;
  std::int64_t step = 0;      ///< of these three, from token to token
  void* attended = nullptr;   ///< tokens x heads x size
  float* log_sums = nullptr;  ///< to base 2; rows x heads x sequence
  // Of the backward pass.
  const void* attended_gradient = nullptr;
  float* dots = nullptr;  ///< rows x heads x sequence
  void* query_gradient = nullptr;
  std::int64_t gradient_step = 0;
  void* key_parts = nullptr;  ///< tokens x heads x size
  void* value_parts = nullptr;

  constexpr std::int64_t Tokens() const { return static_cast<std::int64_t>(rows) * sequence; }
};
inline constexpr int kCudaMostHeadSize = 256;
void CudaAttend(CudaQueue queue, const CudaAttention& work);
void CudaAttendBackward(CudaQueue queue, const CudaAttention& work);
/// With the tensor cores: kBfloat16, size 64 or 128, compute capability 8.0.
void CudaFlashAttend(CudaQueue queue, const CudaAttention& work);
void CudaFlashBackward(CudaQueue queue, const CudaAttention& work);

}  // namespace dlc
