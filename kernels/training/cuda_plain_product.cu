#include "kernels/training/cuda_products.cuh"

// The product for what cuBLASLt has no algorithm for: small and odd sizes, old devices.
namespace dlc {
namespace {

constexpr int kTile = 64;   // of the result, per block
constexpr int kDepth = 16;  // per step
constexpr int kThreads = 256;
constexpr int kOwn = 4;  // rows and columns of a thread

/// Element (i, k) of a factor is data[i * across + k * along].
template <class T>
struct Operand {
  const T* data;
  std::int64_t across;
  std::int64_t along;
  std::int64_t size;  ///< of i
};

template <class T>
__device__ void LoadTile(const Operand<T>& operand, std::int64_t first, std::int64_t k,
                         std::int64_t depth, float (&tile)[kDepth][kTile + 1]) {
#pragma unroll
  for (int n = 0; n < kTile * kDepth / kThreads; ++n) {
    const int place = n * kThreads + static_cast<int>(threadIdx.x);
    // Neighbours in memory go to neighbouring threads.
    const int i = operand.along == 1 ? place / kDepth : place % kTile;
    const int d = operand.along == 1 ? place % kDepth : place / kTile;
    const bool real = first + i < operand.size && k + d < depth;
    tile[d][i] = real ? CudaWiden(operand.data[(first + i) * operand.across +
                                               (k + d) * operand.along])
                      : 0.0F;
  }
}

template <class In, class Out>
struct PlainWork {
  Operand<In> left;
  Operand<In> right;
  std::int64_t depth;
  Out* out;
  std::int64_t out_step;
  const Out* add;
  const Out* bias;
};

template <class In, class Out>
__global__ void MultiplyTiles(PlainWork<In, Out> work) {
  __shared__ float left[kDepth][kTile + 1];
  __shared__ float right[kDepth][kTile + 1];
  const std::int64_t row0 = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const std::int64_t column0 = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const int row = static_cast<int>(threadIdx.x) / 16;
  const int column = static_cast<int>(threadIdx.x) % 16;
  float sums[kOwn][kOwn] = {};
  for (std::int64_t k = 0; k < work.depth; k += kDepth) {
    LoadTile(work.left, row0, k, work.depth, left);
    LoadTile(work.right, column0, k, work.depth, right);
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
#pragma unroll
        for (int j = 0; j < kOwn; ++j) {
          sums[i][j] += left[d][row + 16 * i] * right[d][column + 16 * j];
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const std::int64_t r = row0 + row + 16 * i;
      const std::int64_t c = column0 + column + 16 * j;
      if (r < work.left.size && c < work.right.size) {
        const std::int64_t at = r * work.out_step + c;
        const float bias = work.bias != nullptr ? CudaWiden(work.bias[c]) : 0.0F;
        const float add = work.add != nullptr ? CudaWiden(work.add[at]) : 0.0F;
        work.out[at] = CudaNarrow<Out>(sums[i][j] + bias + add);
      }
    }
  }
}

}  // namespace

void CudaMultiplyPlainly(CudaQueue queue, const CudaProduct& product) {
  const dim3 grid(static_cast<unsigned>((product.rows + kTile - 1) / kTile),
                  static_cast<unsigned>((product.columns + kTile - 1) / kTile));
  const CudaFactor& left = product.left;
  const CudaFactor& right = product.right;
  ForCudaType(product.in, [&](auto in) {
    ForCudaType(product.out_type, [&](auto out) {
      using In = decltype(in);
      using Out = decltype(out);
      const PlainWork<In, Out> work{{static_cast<const In*>(left.data), left.turned ? 1 : left.step,
                                     left.turned ? left.step : 1, product.rows},
                                    {static_cast<const In*>(right.data),
                                     right.turned ? right.step : 1, right.turned ? 1 : right.step,
                                     product.columns},
                                    product.depth,
                                    static_cast<Out*>(product.out),
                                    product.out_step,
                                    static_cast<const Out*>(product.add),
                                    static_cast<const Out*>(product.bias)};
      MultiplyTiles<<<grid, kThreads, 0, queue.stream>>>(work);
    });
  });
  queue.calls.Launched("launch of a plain product");
}

}  // namespace dlc
