#pragma once

#include <cstdint>

#include "kernels/training/training_backend.h"
#include "kernels/training/training_math.h"

namespace dlc {

/// Turns `heads` vectors of each token in place: forwards (direction 1) or back (-1). `values` has
/// heads * head_size numbers of each token.
void CpuRotate(const TrainingShape& shape, const RopeTable& table, float direction,
               std::int64_t heads, float* values);

/// Causal attention; query head h uses the key and value head h * kv_heads / heads. Of each token,
/// query, attended and their gradients have heads * head_size numbers, key and value kv_heads *
/// head_size, and log_sums has heads: the logarithm of the sum that the softmax divides by.
struct CpuAttentionForward {
  const float* query = nullptr;
  const float* key = nullptr;
  const float* value = nullptr;
  float* attended = nullptr;
  float* log_sums = nullptr;
};

struct CpuAttentionBackward {
  CpuAttentionForward forward;  ///< all of it is read
  const float* attended_gradient = nullptr;
  float* query_gradient = nullptr;
  float* key_gradient = nullptr;
  float* value_gradient = nullptr;
};

/// Floats that the two below work in: probabilities of a block of queries, never of all.
std::int64_t CpuAttentionScratch(const TrainingShape& shape);
void CpuAttend(const TrainingShape& shape, const CpuAttentionForward& tensors, float* scratch);
/// Computes the probabilities again from log_sums.
void CpuAttendBackward(const TrainingShape& shape, const CpuAttentionBackward& tensors,
                       float* scratch);

}  // namespace dlc
