#pragma once

#include <cstdint>

namespace dlc {

/// `tokens` vectors of `size` numbers.
struct CpuRows {
  std::int64_t tokens = 0;
  std::int64_t size = 0;
};

/// inverse[t] = 1 / sqrt(mean of squares of row t + epsilon).
void CpuInverseRms(CpuRows rows, const float* values, float epsilon, float* inverse);
/// out = weight * (values * inverse).
void CpuNormalize(CpuRows rows, const float* values, const float* inverse, const float* weight,
                  float* out);
/// Adds the gradient of `values` to `gradient`, and overwrites the weight's; `out_gradient` is that
/// of CpuNormalize's out.
void CpuNormalizeBackward(CpuRows rows, const float* values, const float* inverse,
                          const float* weight, const float* out_gradient, float* gradient,
                          float* weight_gradient);

/// out (tokens x outputs) = values * weight^T + bias, weight outputs x size; no bias: nullptr.
void CpuLinear(CpuRows rows, const float* values, const float* weight, const float* bias,
               std::int64_t outputs, float* out);
/// gradient (tokens x size) = out_gradient * weight, or += .
void CpuLinearInput(CpuRows rows, const float* out_gradient, const float* weight,
                    std::int64_t outputs, float* gradient, bool add);
/// Overwrites the weight's gradient, and the bias's where there is one.
void CpuLinearWeight(CpuRows rows, const float* values, const float* out_gradient,
                     std::int64_t outputs, float* weight_gradient, float* bias_gradient);

/// out = gate / (1 + exp(-gate)) * up.
void CpuSwiGlu(std::int64_t count, const float* gate, const float* up, float* out);
void CpuSwiGluBackward(std::int64_t count, const float* gate, const float* up,
                       const float* out_gradient, float* gate_gradient, float* up_gradient);

}  // namespace dlc
