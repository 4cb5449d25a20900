#include <algorithm>

#include "kernels/training/cuda_training.cuh"

// What a layer does element by element: SwiGLU, turning by position, packing.
namespace dlc {
namespace {

constexpr int kThreads = 256;
constexpr int kRotateTokens = 64;  // of a block that sums over them

template <class T, int V>
__global__ void SwiGluRows(const T* both, int size, T* out) {
  const std::int64_t row = blockIdx.x;
  const int i = (static_cast<int>(blockIdx.y * blockDim.x) + static_cast<int>(threadIdx.x)) * V;
  if (i >= size) {
    return;
  }
  float gate[V];
  float up[V];
  CudaLoad<V>(both + row * 2 * size + i, gate);
  CudaLoad<V>(both + row * 2 * size + size + i, up);
#pragma unroll
  for (int k = 0; k < V; ++k) {
    gate[k] = gate[k] / (1.0F + expf(-gate[k])) * up[k];
  }
  CudaStore<V>(out + row * size + i, gate);
}

template <class T, int V>
__global__ void SwiGluRowsBackward(T* both, int size, T* product) {
  const std::int64_t row = blockIdx.x;
  const int i = (static_cast<int>(blockIdx.y * blockDim.x) + static_cast<int>(threadIdx.x)) * V;
  if (i >= size) {
    return;
  }
  T* gate_at = both + row * 2 * size + i;
  T* up_at = gate_at + size;
  T* product_at = product + row * size + i;
  float gate[V];
  float up[V];
  float gradient[V];
  CudaLoad<V>(gate_at, gate);
  CudaLoad<V>(up_at, up);
  CudaLoad<V>(product_at, gradient);
  float result[V];
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const float open = 1.0F / (1.0F + expf(-gate[k]));
    const float slope = open * (1.0F + gate[k] * (1.0F - open));
    result[k] = gate[k] * open * up[k];
    const float up_gradient = gradient[k] * gate[k] * open;
    gate[k] = gradient[k] * up[k] * slope;
    up[k] = up_gradient;
  }
  CudaStore<V>(gate_at, gate);
  CudaStore<V>(up_at, up);
  CudaStore<V>(product_at, result);
}

/// A vector's two halves turn together: x[i] and x[i + half].
template <int V>
__device__ void Turn(const float* cosine, const float* sine, float direction, float (&low)[V],
                     float (&high)[V]) {
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const float turned = sine[k] * direction;
    const float was = low[k];
    low[k] = was * cosine[k] - high[k] * turned;
    high[k] = high[k] * cosine[k] + was * turned;
  }
}

template <class T, int V>
__global__ void RotateHeads(CudaHeads heads, T* values) {
  const int half = heads.size / 2;
  const int places = half / V;
  const int turning = heads.heads + heads.kv_heads;
  const std::int64_t index =
      static_cast<std::int64_t>(blockIdx.x) * blockDim.x + static_cast<std::int64_t>(threadIdx.x);
  const int per_token = turning * places;
  const std::int64_t token = index / per_token;
  if (token >= heads.tokens) {
    return;
  }
  const int rest = static_cast<int>(index - token * per_token);
  const int head = rest / places;
  const int i = rest % places * V;
  T* at = values + token * heads.Width() + head * heads.size + i;
  const std::int64_t angle = token % heads.sequence * half + i;
  float low[V];
  float high[V];
  CudaLoad<V>(at, low);
  CudaLoad<V>(at + half, high);
  Turn<V>(heads.cosine + angle, heads.sine + angle, 1.0F, low, high);
  CudaStore<V>(at, low);
  CudaStore<V>(at + half, high);
}

/// Gradients of a place in a head, from where the attention's backward pass left them.
template <class T, int V>
__device__ void Gather(const CudaHeads& heads, const T* from, std::int64_t step, int count,
                       float (&low)[V], float (&high)[V]) {
  const int half = heads.size / 2;
  CudaLoad<V>(from, low);
  CudaLoad<V>(from + half, high);
  for (int n = 1; n < count; ++n) {
    float more_low[V];
    float more_high[V];
    CudaLoad<V>(from + n * step, more_low);
    CudaLoad<V>(from + n * step + half, more_high);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      low[k] += more_low[k];
      high[k] += more_high[k];
    }
  }
}

/// blockIdx.y is a head, blockIdx.x kRotateTokens tokens; threadIdx.x a place in half a vector,
/// threadIdx.y a token.
template <class T, int V>
__global__ void RotateHeadsBackward(CudaHeads heads, T* gradients, const T* key_parts,
                                    const T* value_parts, float* bias_parts) {
  extern __shared__ float sums[];  // [threadIdx.y][size]
  const int half = heads.size / 2;
  const int head = static_cast<int>(blockIdx.y);
  const int i = static_cast<int>(threadIdx.x) * V;
  const int group = heads.heads / heads.kv_heads;
  const bool is_query = head < heads.heads;
  const bool is_value = head >= heads.heads + heads.kv_heads;
  const int shared_head = (head - heads.heads) % heads.kv_heads * group;
  float low_sum[V] = {};
  float high_sum[V] = {};
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kRotateTokens;
  const std::int64_t end = min(first + kRotateTokens, heads.tokens);
  for (std::int64_t token = first + threadIdx.y; token < end; token += blockDim.y) {
    T* at = gradients + token * heads.Width() + head * heads.size + i;
    const T* parts = is_value ? value_parts : key_parts;
    const T* from =
        is_query ? at : parts + (token * heads.heads + shared_head) * heads.size + i;
    float low[V];
    float high[V];
    Gather<T, V>(heads, from, heads.size, is_query ? 1 : group, low, high);
    if (!is_value) {
      const std::int64_t angle = token % heads.sequence * half + i;
      Turn<V>(heads.cosine + angle, heads.sine + angle, -1.0F, low, high);
    }
    CudaStore<V>(at, low);
    CudaStore<V>(at + half, high);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      low_sum[k] += low[k];
      high_sum[k] += high[k];
    }
  }
  float* own = sums + static_cast<int>(threadIdx.y) * heads.size;
#pragma unroll
  for (int k = 0; k < V; ++k) {
    own[i + k] = low_sum[k];
    own[half + i + k] = high_sum[k];
  }
  __syncthreads();
  const int threads = static_cast<int>(blockDim.x * blockDim.y);
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  for (int column = thread; column < heads.size; column += threads) {
    float total = 0;
    for (int y = 0; y < static_cast<int>(blockDim.y); ++y) {
      total += sums[y * heads.size + column];
    }
    bias_parts[static_cast<std::int64_t>(blockIdx.x) * heads.Width() + head * heads.size +
               column] = total;
  }
}

template <class Word>
__global__ void CopySegments(CudaSegments all) {
  const CudaSegment& segment = all.segments[blockIdx.y];
  const std::int64_t count = segment.bytes / static_cast<std::int64_t>(sizeof(Word));
  const auto* from = static_cast<const Word*>(segment.from);
  auto* to = static_cast<Word*>(segment.to);
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    to[i] = from[i];
  }
}

bool IsWide(const CudaSegments& all) {
  for (int i = 0; i < all.used; ++i) {
    const CudaSegment& segment = all.segments[i];
    if (reinterpret_cast<std::uintptr_t>(segment.from) % 16 != 0 ||
        reinterpret_cast<std::uintptr_t>(segment.to) % 16 != 0 || segment.bytes % 16 != 0) {
      return false;
    }
  }
  return true;
}

dim3 RowsAndColumns(std::int64_t rows, int places) {
  return {static_cast<unsigned>(rows), static_cast<unsigned>((places + kThreads - 1) / kThreads)};
}

}  // namespace

void CudaSwiGlu(CudaQueue queue, DataType type, std::int64_t rows, int size, const void* both,
                void* out) {
  ForCudaLanes(type, size % 8 == 0, [&](auto lanes) {
    using Lanes = decltype(lanes);
    using T = typename Lanes::Type;
    SwiGluRows<T, Lanes::kWidth>
        <<<RowsAndColumns(rows, size / Lanes::kWidth), kThreads, 0, queue.stream>>>(
            static_cast<const T*>(both), size, static_cast<T*>(out));
  });
  queue.calls.Launched("launch of SwiGLU");
}

void CudaSwiGluBackward(CudaQueue queue, DataType type, std::int64_t rows, int size, void* both,
                        void* product) {
  ForCudaLanes(type, size % 8 == 0, [&](auto lanes) {
    using Lanes = decltype(lanes);
    using T = typename Lanes::Type;
    SwiGluRowsBackward<T, Lanes::kWidth>
        <<<RowsAndColumns(rows, size / Lanes::kWidth), kThreads, 0, queue.stream>>>(
            static_cast<T*>(both), size, static_cast<T*>(product));
  });
  queue.calls.Launched("launch of SwiGLU's gradient");
}

void CudaRotate(CudaQueue queue, DataType type, const CudaHeads& heads, void* values) {
  const int half = heads.size / 2;
  ForCudaLanes(type, half % 8 == 0, [&](auto lanes) {
    using Lanes = decltype(lanes);
    using T = typename Lanes::Type;
    const std::int64_t threads =
        heads.tokens * (heads.heads + heads.kv_heads) * (half / Lanes::kWidth);
    RotateHeads<T, Lanes::kWidth>
        <<<static_cast<unsigned>((threads + kThreads - 1) / kThreads), kThreads, 0,
           queue.stream>>>(heads, static_cast<T*>(values));
  });
  queue.calls.Launched("launch of the turn by position");
}

int CudaRotateParts(const CudaHeads& heads) {
  return static_cast<int>((heads.tokens + kRotateTokens - 1) / kRotateTokens);
}

void CudaRotateBackward(CudaQueue queue, DataType type, const CudaHeads& heads, void* gradients,
                        const void* key_parts, const void* value_parts, float* bias_parts) {
  const int half = heads.size / 2;
  ForCudaLanes(type, half % 8 == 0, [&](auto lanes) {
    using Lanes = decltype(lanes);
    using T = typename Lanes::Type;
    const int places = half / Lanes::kWidth;
    const int tokens = std::min(32, std::max(1, kThreads / places));
    const dim3 grid(static_cast<unsigned>(CudaRotateParts(heads)),
                    static_cast<unsigned>(heads.heads + 2 * heads.kv_heads));
    const std::size_t shared = sizeof(float) * static_cast<std::size_t>(tokens * heads.size);
    RotateHeadsBackward<T, Lanes::kWidth>
        <<<grid, dim3(static_cast<unsigned>(places), static_cast<unsigned>(tokens)), shared,
           queue.stream>>>(heads, static_cast<T*>(gradients), static_cast<const T*>(key_parts),
                           static_cast<const T*>(value_parts), bias_parts);
  });
  queue.calls.Launched("launch of the turn's gradient");
}

void CudaCopySegments(CudaQueue queue, const CudaSegments& segments) {
  std::int64_t longest = 0;
  for (int i = 0; i < segments.used; ++i) {
    longest = std::max(longest, segments.segments[i].bytes);
  }
  const bool wide = IsWide(segments);
  const std::int64_t words = longest / (wide ? 16 : 2);
  const dim3 grid(static_cast<unsigned>(std::clamp<std::int64_t>((words + kThreads - 1) / kThreads,
                                                                 1, 1024)),
                  static_cast<unsigned>(segments.used));
  if (wide) {
    CopySegments<uint4><<<grid, kThreads, 0, queue.stream>>>(segments);
  } else {
    CopySegments<std::uint16_t><<<grid, kThreads, 0, queue.stream>>>(segments);
  }
  queue.calls.Launched("launch of a copy");
}

}  // namespace dlc
