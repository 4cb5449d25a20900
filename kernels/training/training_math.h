#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/training/training_backend.h"

/// What every backend computes once on the host, so that all of them use the same bits.
namespace dlc {

/// What scores are multiplied with: 1 / sqrt(head_size).
inline float AttentionScale(std::int64_t head_size) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_size)));
}

/// Of each (position, i) with i < head_size / 2, positions outside.
struct RopeTable {
  std::vector<float> cosine;
  std::vector<float> sine;
};

/// The angle is position * theta^(-2i / head_size), in float32 as transformers has it. A vector x
/// of a head turns in pairs (rotate_half): x[i] cos - x[i + half] sin, x[i + half] cos + x[i] sin.
inline RopeTable RopeTableFor(const Qwen2Shape& shape, std::int64_t sequence) {
  RopeTable table;
  const std::int64_t half = shape.head_size / 2;
  const auto theta = static_cast<float>(shape.rope_theta);
  const auto size = static_cast<float>(shape.head_size);
  for (std::int64_t position = 0; position < sequence; ++position) {
    for (std::int64_t i = 0; i < half; ++i) {
      const float frequency = 1.0F / std::pow(theta, static_cast<float>(2 * i) / size);
      const float angle = static_cast<float>(position) * frequency;
      table.cosine.push_back(std::cos(angle));
      table.sine.push_back(std::sin(angle));
    }
  }
  return table;
}

/// What AdamW's step multiplies with. As in torch, computed in double and rounded once.
struct AdamWScalars {
  float keep = 0;              ///< 1 - rate * weight_decay
  float first_weight = 0;      ///< 1 - beta1, of the gradient in m
  float beta2 = 0;             ///< of v
  float second_weight = 0;     ///< 1 - beta2
  float step_size = 0;         ///< rate / (1 - beta1^step)
  float root_correction2 = 0;  ///< sqrt(1 - beta2^step)
  float epsilon = 0;
};

inline AdamWScalars AdamWScalarsFor(const AdamWOptions& options, std::int64_t step) {
  const double rate = static_cast<double>(options.rate);
  const double beta1 = static_cast<double>(options.beta1);
  const double beta2 = static_cast<double>(options.beta2);
  const auto power = static_cast<double>(step);
  AdamWScalars scalars;
  scalars.keep = static_cast<float>(1 - rate * static_cast<double>(options.weight_decay));
  scalars.first_weight = static_cast<float>(1 - beta1);
  scalars.beta2 = options.beta2;
  scalars.second_weight = static_cast<float>(1 - beta2);
  scalars.step_size = static_cast<float>(rate / (1 - std::pow(beta1, power)));
  scalars.root_correction2 = static_cast<float>(std::sqrt(1 - std::pow(beta2, power)));
  scalars.epsilon = options.epsilon;
  return scalars;
}

}  // namespace dlc
