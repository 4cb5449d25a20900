#include "kernels/training/cuda_shards.cuh"

#include <algorithm>

// Shards. Products and sums are rounded one by one (__fmul_rn and the like are never fused), so that
// the bits are those of the CPU.
namespace dlc {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kChunk = 16384;
constexpr int kGroup = 4;  // elements of a thread in the wide loops
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;

template <class From, class To>
__device__ To Convert(From value) {
  return CudaNarrow<To>(CudaWiden(value));
}

/// Without a detour through float32, which would quieten a NaN.
template <>
__device__ __nv_bfloat16 Convert<__nv_bfloat16, __nv_bfloat16>(__nv_bfloat16 value) {
  return value;
}

template <class T, int V>
__device__ bool IsAligned(const T* at) {
  return reinterpret_cast<std::uintptr_t>(at) % (sizeof(T) * V) == 0;
}

template <class From, class To>
__global__ void MoveChunks(const CudaMoveChunk* chunks, const From* from, To* to) {
  constexpr int kWide = 4;
  const CudaMoveChunk chunk = chunks[blockIdx.x];
  const From* source = from + chunk.from;
  To* target = to + chunk.to;
  const auto thread = static_cast<std::int64_t>(threadIdx.x);
  // Up to the first element that lies well for both, if there is one.
  std::int64_t head = 0;
  while (head < kWide && head < chunk.count &&
         !(IsAligned<From, kWide>(source + head) && IsAligned<To, kWide>(target + head))) {
    ++head;
  }
  if (head == kWide) {
    head = chunk.count;
  }
  if (thread < head && head < kWide) {
    target[thread] = Convert<From, To>(source[thread]);
  } else if (head >= kWide) {
    for (std::int64_t i = thread; i < head; i += kThreads) {
      target[i] = Convert<From, To>(source[i]);
    }
  }
  const std::int64_t groups = (chunk.count - head) / kWide;
  for (std::int64_t i = thread; i < groups; i += kThreads) {
    const auto in = reinterpret_cast<const CudaPack<From, kWide>*>(source + head)[i];
    CudaPack<To, kWide> out;
#pragma unroll
    for (int k = 0; k < kWide; ++k) {
      out.at[k] = Convert<From, To>(in.at[k]);
    }
    reinterpret_cast<CudaPack<To, kWide>*>(target + head)[i] = out;
  }
  for (std::int64_t i = head + groups * kWide + thread; i < chunk.count; i += kThreads) {
    target[i] = Convert<From, To>(source[i]);
  }
}

template <class From>
__global__ void AccumulateValues(float* into, const From* from, float factor, bool add,
                                 std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    const float product = __fmul_rn(CudaWiden(from[i]), factor);
    into[i] = add ? __fadd_rn(into[i], product) : product;
  }
}

__global__ void SquareParts(const float* values, std::int64_t count, double* parts) {
  __shared__ double scratch[32];
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  double sum = 0;
  if (reinterpret_cast<std::uintptr_t>(values) % 16 == 0) {
    double sums[kGroup] = {};
    const auto* wide = reinterpret_cast<const float4*>(values);
    for (; i < count / kGroup; i += stride) {
      const float4 four = wide[i];
      sums[0] += static_cast<double>(four.x) * static_cast<double>(four.x);
      sums[1] += static_cast<double>(four.y) * static_cast<double>(four.y);
      sums[2] += static_cast<double>(four.z) * static_cast<double>(four.z);
      sums[3] += static_cast<double>(four.w) * static_cast<double>(four.w);
    }
    sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    i = count / kGroup * kGroup + static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  }
  for (; i < count; i += stride) {
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  sum = CudaBlockSum(sum, scratch);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = sum;
  }
}

__global__ void AddParts(const double* parts, int count, double* sum) {
  __shared__ double scratch[32];
  double own = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    own += parts[i];
  }
  own = CudaBlockSum(own, scratch);
  if (threadIdx.x == 0) {
    *sum += own;
  }
}

__global__ void ClipScaleOf(const double* sum, double largest, float* scale) {
  const double whole = largest / (sqrt(*sum) + 1e-6);
  *scale = static_cast<float>(whole > 1 ? 1.0 : whole);
}

__device__ void AdamWStep(const AdamWScalars& s, float gradient, float scale, float& parameter,
                          float& m, float& v) {
  const float g = __fmul_rn(gradient, scale);
  const float difference = __fsub_rn(g, m);
  m = s.first_weight < 0.5F
          ? __fadd_rn(m, __fmul_rn(s.first_weight, difference))
          : __fsub_rn(g, __fmul_rn(difference, __fsub_rn(1.0F, s.first_weight)));
  v = __fadd_rn(__fmul_rn(s.beta2, v), __fmul_rn(__fmul_rn(s.second_weight, g), g));
  const float root = __fadd_rn(__fdiv_rn(__fsqrt_rn(v), s.root_correction2), s.epsilon);
  parameter = __fsub_rn(__fmul_rn(parameter, s.keep), __fdiv_rn(__fmul_rn(s.step_size, m), root));
}

template <int V, class Copy>
__global__ void AdamWValues(CudaAdamWork work) {
  const float scale = *work.scale;
  auto* copies = static_cast<Copy*>(work.copy);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x * V;
  std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V;
  for (; i + V <= work.count; i += stride) {
    float g[V];
    float p[V];
    float m[V];
    float v[V];
    CudaLoad<V>(work.gradient + i, g);
    CudaLoad<V>(work.parameter + i, p);
    CudaLoad<V>(work.m + i, m);
    CudaLoad<V>(work.v + i, v);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      AdamWStep(work.scalars, g[k], scale, p[k], m[k], v[k]);
    }
    CudaStore<V>(work.parameter + i, p);
    CudaStore<V>(work.m + i, m);
    CudaStore<V>(work.v + i, v);
    if (copies != nullptr) {
      CudaStore<V>(copies + i, p);
    }
  }
  // The thread whose group is cut short by the end.
  for (; V > 1 && i < work.count; ++i) {
    float p = work.parameter[i];
    float m = work.m[i];
    float v = work.v[i];
    AdamWStep(work.scalars, work.gradient[i], scale, p, m, v);
    work.parameter[i] = p;
    work.m[i] = m;
    work.v[i] = v;
    if (copies != nullptr) {
      copies[i] = CudaNarrow<Copy>(p);
    }
  }
}

unsigned BlocksFor(std::int64_t threads) {
  return static_cast<unsigned>(
      std::clamp<std::int64_t>((threads + kThreads - 1) / kThreads, 1, kMostBlocks));
}

/// Whether four elements of each lie well.
bool IsWide(const CudaAdamWork& work, DataType copy_type) {
  const auto floats = reinterpret_cast<std::uintptr_t>(work.gradient) |
                      reinterpret_cast<std::uintptr_t>(work.parameter) |
                      reinterpret_cast<std::uintptr_t>(work.m) |
                      reinterpret_cast<std::uintptr_t>(work.v);
  return floats % 16 == 0 &&
         reinterpret_cast<std::uintptr_t>(work.copy) % (4 * ElementBytes(copy_type)) == 0;
}

}  // namespace

std::vector<CudaMoveChunk> CudaMoveChunks(const std::vector<Piece>& pieces) {
  std::vector<CudaMoveChunk> chunks;
  for (const Piece& piece : pieces) {
    for (std::int64_t done = 0; done < piece.count; done += kChunk) {
      chunks.push_back(
          {piece.from + done, piece.to + done, std::min(kChunk, piece.count - done)});
    }
  }
  return chunks;
}

void CudaMove(CudaQueue queue, const CudaMoveChunk* chunks, std::size_t count, const void* from,
              DataType from_type, void* to, DataType to_type) {
  if (count == 0) {
    return;
  }
  ForCudaType(from_type, [&](auto source) {
    ForCudaType(to_type, [&](auto target) {
      MoveChunks<decltype(source), decltype(target)>
          <<<static_cast<unsigned>(count), kThreads, 0, queue.stream>>>(
              chunks, static_cast<const decltype(source)*>(from),
              static_cast<decltype(target)*>(to));
    });
  });
  queue.calls.Launched("launch of a move");
}

void CudaAccumulate(CudaQueue queue, float* into, const void* from, DataType from_type,
                    float factor, bool add, std::int64_t count) {
  ForCudaType(from_type, [&](auto element) {
    using From = decltype(element);
    AccumulateValues<From><<<BlocksFor(count), kThreads, 0, queue.stream>>>(
        into, static_cast<const From*>(from), factor, add, count);
  });
  queue.calls.Launched("launch of a sum");
}

void CudaAddSquares(CudaQueue queue, const float* values, std::int64_t count, double* scratch,
                    double* sum) {
  const int blocks = static_cast<int>(
      std::clamp<std::int64_t>(count / (kThreads * kGroup), 1, kCudaReduceBlocks));
  SquareParts<<<static_cast<unsigned>(blocks), kThreads, 0, queue.stream>>>(values, count, scratch);
  AddParts<<<1, kThreads, 0, queue.stream>>>(scratch, blocks, sum);
  queue.calls.Launched("launch of a sum of squares");
}

void CudaClipScale(CudaQueue queue, const double* sum, double largest, float* scale) {
  ClipScaleOf<<<1, 1, 0, queue.stream>>>(sum, largest, scale);
  queue.calls.Launched("launch of the clip scale");
}

void CudaAdamW(CudaQueue queue, const CudaAdamWork& work, DataType copy_type) {
  ForCudaType(copy_type, [&](auto element) {
    using Copy = decltype(element);
    if (IsWide(work, copy_type)) {
      AdamWValues<kGroup, Copy>
          <<<BlocksFor((work.count + kGroup - 1) / kGroup), kThreads, 0, queue.stream>>>(work);
    } else {
      AdamWValues<1, Copy><<<BlocksFor(work.count), kThreads, 0, queue.stream>>>(work);
    }
  });
  queue.calls.Launched("launch of AdamW");
}

}  // namespace dlc
