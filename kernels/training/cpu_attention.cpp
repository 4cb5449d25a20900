#include "kernels/training/cpu_attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "kernels/training/cpu_matrix.h"

namespace dlc {
namespace {

constexpr std::int64_t kQueryBlock = 32;

/// One head of one sequence, and a block of its queries. Keys beyond the block are never looked at.
struct AttentionBlock {
  std::int64_t first = 0;  ///< query, in the sequence
  std::int64_t queries = 0;
  std::int64_t keys = 0;      ///< first + queries
  std::int64_t query_at = 0;  ///< of its first number, in query and attended
  std::int64_t key_at = 0;    ///< of the sequence's first number, in key and value
  std::int64_t sums_at = 0;   ///< of the first, in log_sums
};

template <class Body>
void ForEachBlock(const TrainingShape& shape, Body body) {
  const Qwen2Shape& model = shape.model;
  const std::int64_t group = model.heads / model.kv_heads;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    for (std::int64_t head = 0; head < model.heads; ++head) {
      for (std::int64_t first = 0; first < shape.sequence; first += kQueryBlock) {
        AttentionBlock block;
        block.first = first;
        block.queries = std::min(kQueryBlock, shape.sequence - first);
        block.keys = first + block.queries;
        const std::int64_t token = row * shape.sequence + first;
        block.query_at = (token * model.heads + head) * model.head_size;
        block.key_at = (row * shape.sequence * model.kv_heads + head / group) * model.head_size;
        block.sums_at = token * model.heads + head;
        body(block);
      }
    }
  }
}

struct AttentionSteps {
  explicit AttentionSteps(const TrainingShape& shape)
      : query(shape.model.heads * shape.model.head_size),
        key(shape.model.kv_heads * shape.model.head_size),
        size(shape.model.head_size),
        scale(AttentionScale(shape.model.head_size)) {}
  std::int64_t query;  ///< numbers from one token to the next
  std::int64_t key;
  std::int64_t size;
  float scale;
};

/// out (queries x keys) = rows of `left` * rows of `right`.
void MultiplyWithKeys(const AttentionSteps& steps, const AttentionBlock& block, const float* left,
                      const float* right, float* out) {
  CpuMultiply(block.queries, block.keys, steps.size, {left + block.query_at, steps.query, 1},
              {right + block.key_at, 1, steps.key}, {out, block.keys, false});
}

/// Scores become weights; what the causal mask hides becomes 0.
void Softmax(std::int64_t visible, std::int64_t keys, float scale, float* scores, float* log_sum) {
  float largest = scores[0];
  for (std::int64_t j = 1; j < visible; ++j) {
    largest = std::max(largest, scores[j]);
  }
  double sum = 0;
  for (std::int64_t j = 0; j < visible; ++j) {
    scores[j] = std::exp((scores[j] - largest) * scale);
    sum += static_cast<double>(scores[j]);
  }
  const auto inverse = static_cast<float>(1 / sum);
  for (std::int64_t j = 0; j < visible; ++j) {
    scores[j] *= inverse;
  }
  std::fill(scores + visible, scores + keys, 0.0F);
  *log_sum = largest * scale + static_cast<float>(std::log(sum));
}

/// Scores become weights again, and `gradients`, those of the weights, become the scores'.
void SoftmaxBackward(std::int64_t visible, std::int64_t keys, float scale, float log_sum, float dot,
                     float* scores, float* gradients) {
  for (std::int64_t j = 0; j < visible; ++j) {
    scores[j] = std::exp(scores[j] * scale - log_sum);
    gradients[j] = scores[j] * (gradients[j] - dot) * scale;
  }
  std::fill(scores + visible, scores + keys, 0.0F);
  std::fill(gradients + visible, gradients + keys, 0.0F);
}

float Dot(const float* left, const float* right, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    sum += static_cast<double>(left[i]) * static_cast<double>(right[i]);
  }
  return static_cast<float>(sum);
}

}  // namespace

void CpuRotate(const TrainingShape& shape, const RopeTable& table, float direction,
               std::int64_t heads, float* values) {
  const std::int64_t half = shape.model.head_size / 2;
  for (std::int64_t token = 0; token < shape.Tokens(); ++token) {
    const auto at = static_cast<std::size_t>(token % shape.sequence * half);
    const float* cosine = table.cosine.data() + at;
    const float* sine = table.sine.data() + at;
    for (std::int64_t head = 0; head < heads; ++head) {
      float* low = values + (token * heads + head) * 2 * half;
      float* high = low + half;
      for (std::int64_t i = 0; i < half; ++i) {
        const float turned = sine[i] * direction;
        const float was = low[i];
        low[i] = was * cosine[i] - high[i] * turned;
        high[i] = high[i] * cosine[i] + was * turned;
      }
    }
  }
}

std::int64_t CpuAttentionScratch(const TrainingShape& shape) {
  return 2 * kQueryBlock * shape.sequence;
}

void CpuAttend(const TrainingShape& shape, const CpuAttentionForward& tensors, float* scratch) {
  const AttentionSteps steps(shape);
  ForEachBlock(shape, [&](const AttentionBlock& block) {
    MultiplyWithKeys(steps, block, tensors.query, tensors.key, scratch);
    for (std::int64_t i = 0; i < block.queries; ++i) {
      Softmax(block.first + i + 1, block.keys, steps.scale, scratch + i * block.keys,
              tensors.log_sums + block.sums_at + i * shape.model.heads);
    }
    CpuMultiply(block.queries, steps.size, block.keys, {scratch, block.keys, 1},
                {tensors.value + block.key_at, steps.key, 1},
                {tensors.attended + block.query_at, steps.query, false});
  });
}

void CpuAttendBackward(const TrainingShape& shape, const CpuAttentionBackward& tensors,
                       float* scratch) {
  const AttentionSteps steps(shape);
  const CpuAttentionForward& forward = tensors.forward;
  const auto key_bytes = static_cast<std::size_t>(shape.Tokens() * steps.key) * sizeof(float);
  std::memset(tensors.key_gradient, 0, key_bytes);
  std::memset(tensors.value_gradient, 0, key_bytes);
  ForEachBlock(shape, [&](const AttentionBlock& block) {
    float* weights = scratch;
    float* gradients = scratch + kQueryBlock * shape.sequence;
    MultiplyWithKeys(steps, block, forward.query, forward.key, weights);
    MultiplyWithKeys(steps, block, tensors.attended_gradient, forward.value, gradients);
    for (std::int64_t i = 0; i < block.queries; ++i) {
      const std::int64_t at = block.query_at + i * steps.query;
      const float dot = Dot(forward.attended + at, tensors.attended_gradient + at, steps.size);
      SoftmaxBackward(block.first + i + 1, block.keys, steps.scale,
                      forward.log_sums[block.sums_at + i * shape.model.heads], dot,
                      weights + i * block.keys, gradients + i * block.keys);
    }
    const CpuMatrix by_keys{gradients, 1, block.keys};
    CpuMultiply(block.queries, steps.size, block.keys, by_keys.Transposed(),
                {forward.key + block.key_at, steps.key, 1},
                {tensors.query_gradient + block.query_at, steps.query, false});
    CpuMultiply(block.keys, steps.size, block.queries, by_keys,
                {forward.query + block.query_at, steps.query, 1},
                {tensors.key_gradient + block.key_at, steps.key, true});
    CpuMultiply(block.keys, steps.size, block.queries, {weights, 1, block.keys},
                {tensors.attended_gradient + block.query_at, steps.query, 1},
                {tensors.value_gradient + block.key_at, steps.key, true});
  });
}

}  // namespace dlc
