#pragma once

#include <cstdint>
#include <vector>

#include "kernels/training/training_backend.h"
#include "kernels/training/training_math.h"

/// The shards' part of TrainingBackend in plain loops; the parameters are as there.
namespace dlc {

/// `count` values of `type` as float32.
void CpuWiden(const void* from, DataType type, std::int64_t count, float* to);
/// Float32 as `type` (kFloat32 or kBfloat16).
void CpuNarrow(const float* from, std::int64_t count, void* to, DataType type);
/// Each value to the nearest that `type` holds.
void CpuRound(DataType type, float* values, std::int64_t count);

void CpuMove(const std::vector<Piece>& pieces, const void* from, DataType from_type, void* to,
             DataType to_type);
void CpuAccumulate(float* into, const void* from, DataType from_type, float factor, bool add,
                   std::int64_t count);
double CpuSumOfSquares(const float* values, std::int64_t count);
float CpuClipScale(double sum, double largest);
void CpuAdamW(const AdamWScalars& scalars, const float* gradient, float scale, float* parameter,
              float* m, float* v, std::int64_t count);

void CpuFillNormal(float* to, std::uint64_t key, std::int64_t first, std::int64_t count, float mean,
                   float spread);
void CpuFillIntegers(void* to, DataType type, std::uint64_t key, std::int64_t first,
                     std::int64_t count);
std::uint64_t CpuHash(const float* values, std::uint64_t key, std::int64_t first,
                      std::int64_t count);
void CpuCompareFloats(const float* found, const float* expected, std::int64_t count,
                      FloatComparison& comparison);

}  // namespace dlc
