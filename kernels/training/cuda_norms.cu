#include <algorithm>

#include "kernels/training/cuda_training.cuh"

// Norms, and sums over tokens in two stages, in an order that never changes.
namespace dlc {
namespace {

constexpr int kNormThreads = 192;  // of 8 elements each: one pass over Qwen2.5-1.5B's rows
constexpr int kMostNormParts = 528;
constexpr int kSumColumns = 32;
constexpr int kSumGroups = 32;

template <class T, int V>
__global__ void NormalizeRows(const T* values, const T* weight, float epsilon, int size, T* out,
                              float* inverse) {
  __shared__ float scratch[32];
  const T* row = values + static_cast<std::int64_t>(blockIdx.x) * size;
  T* out_row = out + static_cast<std::int64_t>(blockIdx.x) * size;
  const int first = static_cast<int>(threadIdx.x) * V;
  const int stride = static_cast<int>(blockDim.x) * V;
  float sum = 0;
  for (int i = first; i < size; i += stride) {
    float part[V];
    CudaLoad<V>(row + i, part);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      sum += part[k] * part[k];
    }
  }
  sum = CudaBlockSum(sum, scratch);
  const float scale = 1.0F / sqrtf(sum / static_cast<float>(size) + epsilon);
  if (threadIdx.x == 0) {
    inverse[blockIdx.x] = scale;
  }
  for (int i = first; i < size; i += stride) {
    float part[V];
    float factor[V];
    CudaLoad<V>(row + i, part);
    CudaLoad<V>(weight + i, factor);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      part[k] = factor[k] * (part[k] * scale);
    }
    CudaStore<V>(out_row + i, part);
  }
}

template <class T>
struct NormWork {
  const T* values;
  const float* inverse;
  const T* weight;
  const T* out_gradient;
  T* gradient;
  bool add;
  float* parts;
  std::int64_t rows;
  int size;
};

/// A block does every gridDim.x-th row; a thread's columns are the same in all of them, so that
/// it can sum the weight's gradient alone.
template <class T, int V>
__global__ void NormalizeRowsBackward(NormWork<T> work) {
  extern __shared__ float sums[];
  __shared__ float scratch[32];
  const int first = static_cast<int>(threadIdx.x) * V;
  const int stride = static_cast<int>(blockDim.x) * V;
  for (int i = first; i < work.size; i += stride) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      sums[i + k] = 0;
    }
  }
  for (std::int64_t row = blockIdx.x; row < work.rows; row += gridDim.x) {
    const T* values = work.values + row * work.size;
    const T* out_gradient = work.out_gradient + row * work.size;
    T* gradient = work.gradient + row * work.size;
    const float scale = work.inverse[row];
    float dot = 0;
    for (int i = first; i < work.size; i += stride) {
      float x[V];
      float w[V];
      float g[V];
      CudaLoad<V>(values + i, x);
      CudaLoad<V>(work.weight + i, w);
      CudaLoad<V>(out_gradient + i, g);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const float part = g[k] * (x[k] * scale);
        sums[i + k] += part;
        dot += part * w[k];
      }
    }
    const float mean = CudaBlockSum(dot, scratch) / static_cast<float>(work.size);
    for (int i = first; i < work.size; i += stride) {
      float x[V];
      float w[V];
      float g[V];
      float was[V] = {};
      CudaLoad<V>(values + i, x);
      CudaLoad<V>(work.weight + i, w);
      CudaLoad<V>(out_gradient + i, g);
      if (work.add) {
        CudaLoad<V>(gradient + i, was);
      }
#pragma unroll
      for (int k = 0; k < V; ++k) {
        was[k] += scale * (w[k] * g[k] - x[k] * scale * mean);
      }
      CudaStore<V>(gradient + i, was);
    }
  }
  float* parts = work.parts + static_cast<std::int64_t>(blockIdx.x) * work.size;
  for (int i = first; i < work.size; i += stride) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      parts[i + k] = sums[i + k];
    }
  }
}

template <class T>
__global__ void AddColumns(CudaColumnSums all) {
  __shared__ float scratch[kSumGroups][kSumColumns + 1];
  const CudaColumnSum& sum = all.sums[blockIdx.y];
  const int column = static_cast<int>(blockIdx.x) * kSumColumns + static_cast<int>(threadIdx.x);
  const int group = static_cast<int>(threadIdx.y);
  float total = 0;
  if (column < sum.columns) {
    for (int part = group; part < sum.count; part += kSumGroups) {
      total += sum.parts[static_cast<std::int64_t>(part) * sum.step + column];
    }
  }
  scratch[group][threadIdx.x] = total;
  __syncthreads();
  if (group == 0 && column < sum.columns) {
    total = 0;
    for (int i = 0; i < kSumGroups; ++i) {
      total += scratch[i][threadIdx.x];
    }
    static_cast<T*>(sum.out)[column] = CudaNarrow<T>(total);
  }
}

int NormThreads(int size, int width) {
  return std::min(kNormThreads, (size / width + 31) / 32 * 32);
}

}  // namespace

void CudaNormalize(CudaQueue queue, DataType type, std::int64_t rows, int size, const void* values,
                   const void* weight, float epsilon, void* out, float* inverse) {
  ForCudaLanes(type, size % 8 == 0, [&](auto lanes) {
    using Lanes = decltype(lanes);
    using T = typename Lanes::Type;
    NormalizeRows<T, Lanes::kWidth>
        <<<static_cast<unsigned>(rows), NormThreads(size, Lanes::kWidth), 0, queue.stream>>>(
            static_cast<const T*>(values), static_cast<const T*>(weight), epsilon, size,
            static_cast<T*>(out), inverse);
  });
  queue.calls.Launched("launch of the norm");
}

int CudaNormParts(std::int64_t rows) {
  return static_cast<int>(std::min<std::int64_t>(rows, kMostNormParts));
}

void CudaNormalizeBackward(CudaQueue queue, DataType type, std::int64_t rows, int size,
                           const CudaNormGradient& work) {
  ForCudaLanes(type, size % 8 == 0, [&](auto lanes) {
    using Lanes = decltype(lanes);
    using T = typename Lanes::Type;
    const NormWork<T> typed{static_cast<const T*>(work.values),
                            work.inverse,
                            static_cast<const T*>(work.weight),
                            static_cast<const T*>(work.out_gradient),
                            static_cast<T*>(work.gradient),
                            work.add,
                            work.parts,
                            rows,
                            size};
    NormalizeRowsBackward<T, Lanes::kWidth>
        <<<static_cast<unsigned>(CudaNormParts(rows)), NormThreads(size, Lanes::kWidth),
           static_cast<std::size_t>(size) * sizeof(float), queue.stream>>>(typed);
  });
  queue.calls.Launched("launch of the norm's gradient");
}

void CudaAddColumns(CudaQueue queue, DataType type, const CudaColumnSums& sums) {
  int widest = 0;
  for (int i = 0; i < sums.used; ++i) {
    widest = std::max(widest, sums.sums[i].columns);
  }
  const dim3 grid(static_cast<unsigned>((widest + kSumColumns - 1) / kSumColumns),
                  static_cast<unsigned>(sums.used));
  ForCudaType(type, [&](auto element) {
    AddColumns<decltype(element)>
        <<<grid, dim3(kSumColumns, kSumGroups), 0, queue.stream>>>(sums);
  });
  queue.calls.Launched("launch of sums over tokens");
}

}  // namespace dlc
