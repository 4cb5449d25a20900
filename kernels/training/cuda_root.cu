#include <cfloat>

#include "kernels/training/cuda_training.cuh"

// The embedding, and the loss over a chunk of logits that becomes its own gradient.
namespace dlc {
namespace {

constexpr int kEmbedThreads = 192;
constexpr int kLossThreads = 1024;
constexpr float kLog2E = 1.4426950408889634F;
constexpr double kLn2 = 0.69314718055994531;

template <class T, int V>
__global__ void EmbedRows(const T* table, const std::int32_t* tokens, int size, T* out) {
  const std::int64_t row = blockIdx.x;
  const T* from = table + static_cast<std::int64_t>(tokens[row]) * size;
  for (int i = static_cast<int>(threadIdx.x) * V; i < size;
       i += static_cast<int>(blockDim.x) * V) {
    *reinterpret_cast<CudaPack<T, V>*>(out + row * size + i) =
        *reinterpret_cast<const CudaPack<T, V>*>(from + i);
  }
}

/// A block for each word: its rows are summed first, in order, then added with one rounding.
template <class T, class Gradient>
__global__ void EmbedRowsBackward(CudaEmbedGradient work, int size) {
  const int word = static_cast<int>(blockIdx.x);
  const auto* gradient = static_cast<const T*>(work.gradient);
  auto* out = static_cast<Gradient*>(work.table_gradient) +
              static_cast<std::int64_t>(work.words[word]) * size;
  const int begin = work.starts[word];
  const int end = work.starts[word + 1];
  for (int i = static_cast<int>(threadIdx.x); i < size; i += static_cast<int>(blockDim.x)) {
    float sum = 0;
    for (int n = begin; n < end; ++n) {
      sum += CudaWiden(gradient[static_cast<std::int64_t>(work.order[n]) * size + i]);
    }
    out[i] = CudaNarrow<Gradient>(CudaWiden(out[i]) + sum);
  }
}

/// The sum of 2^(x - largest), and the largest.
struct Exponents {
  float largest;
  float sum;
};

__device__ Exponents Join(Exponents a, Exponents b) {
  const float largest = fmaxf(a.largest, b.largest);
  return {largest, a.sum * exp2f(a.largest - largest) + b.sum * exp2f(b.largest - largest)};
}

__device__ Exponents WarpJoin(Exponents mine) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const Exponents other{__shfl_xor_sync(0xffffffffU, mine.largest, step),
                          __shfl_xor_sync(0xffffffffU, mine.sum, step)};
    mine = Join(mine, other);
  }
  return mine;
}

__device__ Exponents BlockJoin(Exponents mine) {
  __shared__ Exponents scratch[32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  mine = WarpJoin(mine);
  if (lane == 0) {
    scratch[threadIdx.x / 32] = mine;
  }
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / 32;
  return WarpJoin(lane < warps ? scratch[lane] : Exponents{-FLT_MAX, 0});
}

template <class T, int V>
__device__ Exponents OwnExponents(const T* row, int vocabulary) {
  Exponents mine{-FLT_MAX, 0};
  for (int i = static_cast<int>(threadIdx.x) * V; i < vocabulary;
       i += static_cast<int>(blockDim.x) * V) {
    float x[V];
    CudaLoad<V>(row + i, x);
    float largest = mine.largest;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      x[k] = i + k < vocabulary ? x[k] * kLog2E : -INFINITY;
      largest = fmaxf(largest, x[k]);
    }
    float sum = mine.sum * exp2f(mine.largest - largest);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      sum += exp2f(x[k] - largest);
    }
    mine = {largest, sum};
  }
  return mine;
}

/// A block for each row. Rows start at multiples of 16 bytes: their tails are read and written
/// beyond the vocabulary, into the filling.
template <class T, int V>
__global__ void CrossEntropyRows(CudaLogits logits) {
  T* row = static_cast<T*>(logits.values) + static_cast<std::int64_t>(blockIdx.x) * logits.step;
  const int target = logits.targets[blockIdx.x];
  const float right = CudaWiden(row[target]);
  const Exponents all = BlockJoin(OwnExponents<T, V>(row, logits.vocabulary));
  const double log_sum = static_cast<double>(all.largest) + static_cast<double>(log2f(all.sum));
  if (threadIdx.x == 0) {
    logits.losses[blockIdx.x] =
        static_cast<float>(log_sum * kLn2 - static_cast<double>(right));
  }
  const float factor = logits.share / all.sum;
  for (int i = static_cast<int>(threadIdx.x) * V; i < logits.vocabulary;
       i += static_cast<int>(blockDim.x) * V) {
    float x[V];
    CudaLoad<V>(row + i, x);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      x[k] = exp2f(x[k] * kLog2E - all.largest) * factor - (i + k == target ? logits.share : 0.0F);
    }
    CudaStore<V>(row + i, x);
  }
}

__global__ void MeanOf(const float* values, std::int64_t count, float* mean) {
  __shared__ double scratch[32];
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    sum += static_cast<double>(values[i]);
  }
  sum = CudaBlockSum(sum, scratch);
  if (threadIdx.x == 0) {
    *mean = static_cast<float>(sum / static_cast<double>(count));
  }
}

}  // namespace

void CudaEmbedRows(CudaQueue queue, DataType type, std::int64_t rows, int size, const void* table,
                   const std::int32_t* tokens, void* out) {
  ForCudaLanes(type, size % 8 == 0, [&](auto lanes) {
    using Lanes = decltype(lanes);
    using T = typename Lanes::Type;
    EmbedRows<T, Lanes::kWidth>
        <<<static_cast<unsigned>(rows), kEmbedThreads, 0, queue.stream>>>(
            static_cast<const T*>(table), tokens, size, static_cast<T*>(out));
  });
  queue.calls.Launched("launch of the embedding");
}

void CudaEmbedBackward(CudaQueue queue, DataType type, int size, const CudaEmbedGradient& work) {
  ForCudaType(type, [&](auto element) {
    ForCudaType(work.table_type, [&](auto gradient) {
      EmbedRowsBackward<decltype(element), decltype(gradient)>
          <<<static_cast<unsigned>(work.count), 256, 0, queue.stream>>>(work, size);
    });
  });
  queue.calls.Launched("launch of the embedding's gradient");
}

void CudaCrossEntropy(CudaQueue queue, DataType type, const CudaLogits& logits) {
  ForCudaLanes(type, true, [&](auto lanes) {
    using Lanes = decltype(lanes);
    CrossEntropyRows<typename Lanes::Type, Lanes::kWidth>
        <<<static_cast<unsigned>(logits.rows), kLossThreads, 0, queue.stream>>>(logits);
  });
  queue.calls.Launched("launch of the cross-entropy");
}

void CudaMean(CudaQueue queue, const float* values, std::int64_t count, float* mean) {
  MeanOf<<<1, 1024, 0, queue.stream>>>(values, count, mean);
  queue.calls.Launched("launch of the mean loss");
}

}  // namespace dlc
