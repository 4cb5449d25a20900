// What works on shards, and synthetic values; launches that return at once but for what says so.
#pragma once

#include <vector>

#include "kernels/training/cuda_training.cuh"
#include "kernels/training/training_math.h"

namespace dlc {

/// A part of a piece, for one block.
struct CudaMoveChunk {
  std::int64_t from;
  std::int64_t to;
  std::int64_t count;
};
std::vector<CudaMoveChunk> CudaMoveChunks(const std::vector<Piece>& pieces);
void CudaMove(CudaQueue queue, const CudaMoveChunk* chunks, std::size_t count, const void* from,
              DataType from_type, void* to, DataType to_type);

void CudaAccumulate(CudaQueue queue, float* into, const void* from, DataType from_type,
                    float factor, bool add, std::int64_t count);
/// `scratch` holds kCudaReduceBlocks doubles.
inline constexpr int kCudaReduceBlocks = 1024;
void CudaAddSquares(CudaQueue queue, const float* values, std::int64_t count, double* scratch,
                    double* sum);
void CudaClipScale(CudaQueue queue, const double* sum, double largest, float* scale);

struct CudaAdamWork {
  AdamWScalars scalars;
  const float* gradient;
  const float* scale;
  float* parameter;
  float* m;
  float* v;
  void* copy;
  std::int64_t count;
};
void CudaAdamW(CudaQueue queue, const CudaAdamWork& work, DataType copy_type);

void CudaFillNormal(CudaQueue queue, float* to, std::uint64_t key, std::int64_t first,
                    std::int64_t count, float mean, float spread);
void CudaFillIntegers(CudaQueue queue, void* to, DataType type, std::uint64_t key,
                      std::int64_t first, std::int64_t count);
/// Adds to *hash, in device memory.
void CudaAddHash(CudaQueue queue, const float* values, std::uint64_t key, std::int64_t first,
                 std::int64_t count, unsigned long long* hash);
/// One comparison for each of kCudaReduceBlocks blocks, in device memory; `elements` stays 0.
void CudaCompare(CudaQueue queue, const float* found, const float* expected, std::int64_t count,
                 FloatComparison* comparisons);

}  // namespace dlc
