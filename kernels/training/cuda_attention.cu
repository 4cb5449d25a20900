#include <cmath>

#include "kernels/training/cuda_training.cuh"
#include "kernels/training/training_math.h"

// Attention for every head size and device: a warp for each query, or each key, and float32 all the
// way. Slow, and what cuda_flash.cu is compared with.
namespace dlc {
namespace {

constexpr int kWarps = 4;                      // of a block
constexpr int kOwn = kCudaMostHeadSize / 32;   // of a vector's elements, in each lane
constexpr float kLog2E = 1.4426950408889634F;

/// Lane l holds elements l, l + 32, ...; 0 beyond the end.
template <class T>
__device__ void LoadVector(const T* from, int size, float (&to)[kOwn]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    const int i = n * 32 + lane;
    to[n] = i < size ? CudaWiden(from[i]) : 0.0F;
  }
}

template <class T>
__device__ void StoreVector(T* to, int size, const float (&from)[kOwn]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    const int i = n * 32 + lane;
    if (i < size) {
      to[i] = CudaNarrow<T>(from[n]);
    }
  }
}

__device__ float Dot(const float (&a)[kOwn], const float (&b)[kOwn]) {
  float sum = 0;
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    sum += a[n] * b[n];
  }
  return CudaWarpSum(sum);
}

__device__ void AddScaled(float factor, const float (&b)[kOwn], float (&to)[kOwn]) {
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    to[n] += factor * b[n];
  }
}

/// This warp's vector of all (row, head, position).
struct Place {
  bool real;
  int head;
  int position;
  std::int64_t sequence_at;  ///< first token of its row
  std::int64_t token;
  std::int64_t sums_at;
};

__device__ Place OwnPlace(const CudaAttention& work) {
  const std::int64_t index =
      static_cast<std::int64_t>(blockIdx.x) * kWarps + static_cast<std::int64_t>(threadIdx.x / 32);
  Place place{};
  place.sums_at = index;
  place.position = static_cast<int>(index % work.sequence);
  const std::int64_t vector = index / work.sequence;
  place.head = static_cast<int>(vector % work.heads);
  place.sequence_at = vector / work.heads * work.sequence;
  place.token = place.sequence_at + place.position;
  place.real = index < work.Tokens() * work.heads;
  return place;
}

template <class T>
struct Vectors {
  const CudaAttention& work;
  int kv_head;

  __device__ Vectors(const CudaAttention& all, const Place& place)
      : work(all), kv_head(place.head / (all.heads / all.kv_heads)) {}
  __device__ const T* Query(std::int64_t token, int head) const {
    return static_cast<const T*>(work.query) + token * work.step + head * work.size;
  }
  __device__ const T* Key(std::int64_t token) const {
    return static_cast<const T*>(work.key) + token * work.step + kv_head * work.size;
  }
  __device__ const T* Value(std::int64_t token) const {
    return static_cast<const T*>(work.value) + token * work.step + kv_head * work.size;
  }
  __device__ std::int64_t Attended(std::int64_t token, int head) const {
    return (token * work.heads + head) * work.size;
  }
};

template <class T>
__global__ void AttendPlainly(CudaAttention work, float scale) {
  const Place place = OwnPlace(work);
  if (!place.real) {
    return;
  }
  const Vectors<T> at(work, place);
  float query[kOwn];
  LoadVector(at.Query(place.token, place.head), work.size, query);
  float sum = 0;
  float largest = -INFINITY;
  float attended[kOwn] = {};
  for (int k = 0; k <= place.position; ++k) {
    float other[kOwn];
    LoadVector(at.Key(place.sequence_at + k), work.size, other);
    const float score = Dot(query, other) * scale * kLog2E;
    const float now = fmaxf(largest, score);
    const float shrink = exp2f(largest - now);
    const float weight = exp2f(score - now);
    sum = sum * shrink + weight;
    largest = now;
    LoadVector(at.Value(place.sequence_at + k), work.size, other);
#pragma unroll
    for (int n = 0; n < kOwn; ++n) {
      attended[n] = attended[n] * shrink + weight * other[n];
    }
  }
#pragma unroll
  for (int n = 0; n < kOwn; ++n) {
    attended[n] /= sum;
  }
  StoreVector(static_cast<T*>(work.attended) + at.Attended(place.token, place.head), work.size,
              attended);
  if (threadIdx.x % 32 == 0) {
    work.log_sums[place.sums_at] = largest + log2f(sum);
  }
}

/// dots: of each query's result with its gradient.
template <class T>
__global__ void DotGradients(CudaAttention work) {
  const Place place = OwnPlace(work);
  if (!place.real) {
    return;
  }
  const Vectors<T> at(work, place);
  const std::int64_t from = at.Attended(place.token, place.head);
  float attended[kOwn];
  float gradient[kOwn];
  LoadVector(static_cast<const T*>(work.attended) + from, work.size, attended);
  LoadVector(static_cast<const T*>(work.attended_gradient) + from, work.size, gradient);
  const float dot = Dot(attended, gradient);
  if (threadIdx.x % 32 == 0) {
    work.dots[place.sums_at] = dot;
  }
}

template <class T>
__global__ void QueryGradients(CudaAttention work, float scale) {
  const Place place = OwnPlace(work);
  if (!place.real) {
    return;
  }
  const Vectors<T> at(work, place);
  float query[kOwn];
  float gradient[kOwn];
  float result[kOwn] = {};
  LoadVector(at.Query(place.token, place.head), work.size, query);
  LoadVector(static_cast<const T*>(work.attended_gradient) +
                 at.Attended(place.token, place.head),
             work.size, gradient);
  const float log_sum = work.log_sums[place.sums_at];
  const float dot = work.dots[place.sums_at];
  for (int k = 0; k <= place.position; ++k) {
    float key[kOwn];
    float value[kOwn];
    LoadVector(at.Key(place.sequence_at + k), work.size, key);
    LoadVector(at.Value(place.sequence_at + k), work.size, value);
    const float weight = exp2f(Dot(query, key) * scale * kLog2E - log_sum);
    AddScaled(weight * (Dot(gradient, value) - dot) * scale, key, result);
  }
  StoreVector(static_cast<T*>(work.query_gradient) + place.token * work.gradient_step +
                  place.head * work.size,
              work.size, result);
}

/// For each query head; CudaRotateBackward sums over those that share a key.
template <class T>
__global__ void KeyGradients(CudaAttention work, float scale) {
  const Place place = OwnPlace(work);
  if (!place.real) {
    return;
  }
  const Vectors<T> at(work, place);
  float key[kOwn];
  float value[kOwn];
  float key_gradient[kOwn] = {};
  float value_gradient[kOwn] = {};
  LoadVector(at.Key(place.token), work.size, key);
  LoadVector(at.Value(place.token), work.size, value);
  const std::int64_t sums = place.sums_at - place.position;
  for (int q = place.position; q < work.sequence; ++q) {
    const std::int64_t token = place.sequence_at + q;
    float query[kOwn];
    float gradient[kOwn];
    LoadVector(at.Query(token, place.head), work.size, query);
    LoadVector(static_cast<const T*>(work.attended_gradient) + at.Attended(token, place.head),
               work.size, gradient);
    const float weight = exp2f(Dot(query, key) * scale * kLog2E - work.log_sums[sums + q]);
    AddScaled(weight, gradient, value_gradient);
    AddScaled(weight * (Dot(gradient, value) - work.dots[sums + q]) * scale, query, key_gradient);
  }
  const std::int64_t to = at.Attended(place.token, place.head);
  StoreVector(static_cast<T*>(work.key_parts) + to, work.size, key_gradient);
  StoreVector(static_cast<T*>(work.value_parts) + to, work.size, value_gradient);
}

unsigned Blocks(const CudaAttention& work) {
  return static_cast<unsigned>((work.Tokens() * work.heads + kWarps - 1) / kWarps);
}

bool IsForTensorCores(const CudaAttention& work) {
  return work.tensor_cores && work.type == DataType::kBfloat16 &&
         (work.size == 64 || work.size == 128);
}

}  // namespace

void CudaAttend(CudaQueue queue, const CudaAttention& work) {
  if (IsForTensorCores(work)) {
    CudaFlashAttend(queue, work);
    return;
  }
  ForCudaType(work.type, [&](auto element) {
    AttendPlainly<decltype(element)>
        <<<Blocks(work), kWarps * 32, 0, queue.stream>>>(work, AttentionScale(work.size));
  });
  queue.calls.Launched("launch of plain attention");
}

void CudaAttendBackward(CudaQueue queue, const CudaAttention& work) {
  const float scale = AttentionScale(work.size);
  ForCudaType(work.type, [&](auto element) {
    using T = decltype(element);
    DotGradients<T><<<Blocks(work), kWarps * 32, 0, queue.stream>>>(work);
    if (!IsForTensorCores(work)) {
      QueryGradients<T><<<Blocks(work), kWarps * 32, 0, queue.stream>>>(work, scale);
      KeyGradients<T><<<Blocks(work), kWarps * 32, 0, queue.stream>>>(work, scale);
    }
  });
  queue.calls.Launched("launch of plain attention's gradient");
  if (IsForTensorCores(work)) {
    CudaFlashBackward(queue, work);
  }
}

}  // namespace dlc
