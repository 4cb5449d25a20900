#include "kernels/training/cpu_layers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/training/cpu_matrix.h"

namespace dlc {

void CpuInverseRms(CpuRows rows, const float* values, float epsilon, float* inverse) {
  for (std::int64_t token = 0; token < rows.tokens; ++token) {
    const float* row = values + token * rows.size;
    double sum = 0;
    for (std::int64_t i = 0; i < rows.size; ++i) {
      sum += static_cast<double>(row[i]) * static_cast<double>(row[i]);
    }
    const double mean = sum / static_cast<double>(rows.size);
    inverse[token] = static_cast<float>(1 / std::sqrt(mean + static_cast<double>(epsilon)));
  }
}

void CpuNormalize(CpuRows rows, const float* values, const float* inverse, const float* weight,
                  float* out) {
  for (std::int64_t token = 0; token < rows.tokens; ++token) {
    const std::int64_t at = token * rows.size;
    for (std::int64_t i = 0; i < rows.size; ++i) {
      out[at + i] = weight[i] * (values[at + i] * inverse[token]);
    }
  }
}

void CpuNormalizeBackward(CpuRows rows, const float* values, const float* inverse,
                          const float* weight, const float* out_gradient, float* gradient,
                          float* weight_gradient) {
  std::vector<double> sums(static_cast<std::size_t>(rows.size));
  for (std::int64_t token = 0; token < rows.tokens; ++token) {
    const std::int64_t at = token * rows.size;
    const float scale = inverse[token];
    double dot = 0;
    for (std::int64_t i = 0; i < rows.size; ++i) {
      const double part =
          static_cast<double>(out_gradient[at + i]) * static_cast<double>(values[at + i] * scale);
      sums[static_cast<std::size_t>(i)] += part;
      dot += part * static_cast<double>(weight[i]);
    }
    const auto mean = static_cast<float>(dot / static_cast<double>(rows.size));
    for (std::int64_t i = 0; i < rows.size; ++i) {
      gradient[at + i] +=
          scale * (weight[i] * out_gradient[at + i] - values[at + i] * scale * mean);
    }
  }
  for (std::int64_t i = 0; i < rows.size; ++i) {
    weight_gradient[i] = static_cast<float>(sums[static_cast<std::size_t>(i)]);
  }
}

void CpuLinear(CpuRows rows, const float* values, const float* weight, const float* bias,
               std::int64_t outputs, float* out) {
  CpuMultiply(rows.tokens, outputs, rows.size, {values, rows.size, 1}, {weight, 1, rows.size},
              {out, outputs, false});
  for (std::int64_t token = 0; bias != nullptr && token < rows.tokens; ++token) {
    for (std::int64_t i = 0; i < outputs; ++i) {
      out[token * outputs + i] += bias[i];
    }
  }
}

void CpuLinearInput(CpuRows rows, const float* out_gradient, const float* weight,
                    std::int64_t outputs, float* gradient, bool add) {
  CpuMultiply(rows.tokens, rows.size, outputs, {out_gradient, outputs, 1}, {weight, rows.size, 1},
              {gradient, rows.size, add});
}

void CpuLinearWeight(CpuRows rows, const float* values, const float* out_gradient,
                     std::int64_t outputs, float* weight_gradient, float* bias_gradient) {
  CpuMultiply(outputs, rows.size, rows.tokens, {out_gradient, 1, outputs}, {values, rows.size, 1},
              {weight_gradient, rows.size, false});
  if (bias_gradient == nullptr) {
    return;
  }
  std::vector<double> sums(static_cast<std::size_t>(outputs));
  for (std::int64_t token = 0; token < rows.tokens; ++token) {
    for (std::int64_t i = 0; i < outputs; ++i) {
      sums[static_cast<std::size_t>(i)] += static_cast<double>(out_gradient[token * outputs + i]);
    }
  }
  for (std::int64_t i = 0; i < outputs; ++i) {
    bias_gradient[i] = static_cast<float>(sums[static_cast<std::size_t>(i)]);
  }
}

void CpuSwiGlu(std::int64_t count, const float* gate, const float* up, float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i];
  }
}

void CpuSwiGluBackward(std::int64_t count, const float* gate, const float* up,
                       const float* out_gradient, float* gate_gradient, float* up_gradient) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float open = 1.0F / (1.0F + std::exp(-gate[i]));
    const float slope = open * (1.0F + gate[i] * (1.0F - open));
    gate_gradient[i] = out_gradient[i] * up[i] * slope;
    up_gradient[i] = out_gradient[i] * gate[i] * open;
  }
}

}  // namespace dlc
