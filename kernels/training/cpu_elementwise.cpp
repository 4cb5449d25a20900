#include "kernels/training/cpu_elementwise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "kernels/bfloat16.h"
#include "kernels/mix.h"
#include "kernels/training/synthetic.h"

// This file is compiled without contraction: a product and a sum are two roundings, here as on a
// GPU.
namespace dlc {

void CpuWiden(const void* from, DataType type, std::int64_t count, float* to) {
  if (type == DataType::kFloat32) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
    return;
  }
  const auto* bits = static_cast<const std::uint16_t*>(from);
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = FloatFromBfloat16(bits[i]);
  }
}

void CpuNarrow(const float* from, std::int64_t count, void* to, DataType type) {
  if (type == DataType::kFloat32) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
    return;
  }
  auto* bits = static_cast<std::uint16_t*>(to);
  for (std::int64_t i = 0; i < count; ++i) {
    bits[i] = Bfloat16FromFloat(from[i]);
  }
}

void CpuRound(DataType type, float* values, std::int64_t count) {
  if (type != DataType::kBfloat16) {
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    values[i] = FloatFromBfloat16(Bfloat16FromFloat(values[i]));
  }
}

void CpuMove(const std::vector<Piece>& pieces, const void* from, DataType from_type, void* to,
             DataType to_type) {
  const std::size_t from_bytes = ElementBytes(from_type);
  const std::size_t to_bytes = ElementBytes(to_type);
  for (const Piece& piece : pieces) {
    const std::byte* source =
        static_cast<const std::byte*>(from) + static_cast<std::size_t>(piece.from) * from_bytes;
    std::byte* target = static_cast<std::byte*>(to) + static_cast<std::size_t>(piece.to) * to_bytes;
    if (from_type == to_type) {
      std::memcpy(target, source, static_cast<std::size_t>(piece.count) * from_bytes);
    } else if (from_type == DataType::kFloat32) {
      CpuNarrow(reinterpret_cast<const float*>(source), piece.count, target, to_type);
    } else {
      CpuWiden(source, from_type, piece.count, reinterpret_cast<float*>(target));
    }
  }
}

void CpuAccumulate(float* into, const void* from, DataType from_type, float factor, bool add,
                   std::int64_t count) {
  const auto* floats = static_cast<const float*>(from);
  const auto* bits = static_cast<const std::uint16_t*>(from);
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = from_type == DataType::kFloat32 ? floats[i] : FloatFromBfloat16(bits[i]);
    const float product = value * factor;
    into[i] = add ? into[i] + product : product;
  }
}

double CpuSumOfSquares(const float* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(values[i]);
    sum += value * value;
  }
  return sum;
}

float CpuClipScale(double sum, double largest) {
  // Written so that a NaN stays one.
  const double scale = largest / (std::sqrt(sum) + 1e-6);
  return static_cast<float>(scale > 1 ? 1 : scale);
}

void CpuAdamW(const AdamWScalars& scalars, const float* gradient, float scale, float* parameter,
              float* m, float* v, std::int64_t count) {
  const float weight = scalars.first_weight;
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] * scale;
    const float difference = g - m[i];
    // torch.lerp changes sides at one half.
    m[i] = weight < 0.5F ? m[i] + weight * difference : g - difference * (1.0F - weight);
    v[i] = scalars.beta2 * v[i] + scalars.second_weight * g * g;
    const float root = std::sqrt(v[i]) / scalars.root_correction2 + scalars.epsilon;
    parameter[i] = parameter[i] * scalars.keep - scalars.step_size * m[i] / root;
  }
}

void CpuFillNormal(float* to, std::uint64_t key, std::int64_t first, std::int64_t count, float mean,
                   float spread) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float part = spread * SyntheticNormal(key, static_cast<std::uint64_t>(first + i));
    to[i] = mean + part;
  }
}

void CpuFillIntegers(void* to, DataType type, std::uint64_t key, std::int64_t first,
                     std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value =
        static_cast<float>(SyntheticInteger(key, static_cast<std::uint64_t>(first + i)));
    if (type == DataType::kFloat32) {
      static_cast<float*>(to)[i] = value;
    } else {
      static_cast<std::uint16_t*>(to)[i] = Bfloat16FromFloat(value);
    }
  }
}

std::uint64_t CpuHash(const float* values, std::uint64_t key, std::int64_t first,
                      std::int64_t count) {
  std::uint64_t hash = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t place = MixBits(key ^ static_cast<std::uint64_t>(first + i));
    hash += MixBits(std::bit_cast<std::uint32_t>(values[i]) ^ place);
  }
  return hash;
}

void CpuCompareFloats(const float* found, const float* expected, std::int64_t count,
                      FloatComparison& comparison) {
  comparison.elements += count;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool same =
        std::bit_cast<std::uint32_t>(found[i]) == std::bit_cast<std::uint32_t>(expected[i]);
    comparison.different += same ? 0 : 1;
    if (!std::isfinite(found[i]) || !std::isfinite(expected[i])) {
      ++comparison.not_finite;
      continue;
    }
    const double right = std::abs(static_cast<double>(expected[i]));
    const double difference =
        std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
    comparison.largest_difference = std::max(comparison.largest_difference, difference);
    comparison.largest_expected = std::max(comparison.largest_expected, right);
    comparison.sum_squared_difference += difference * difference;
    comparison.sum_squared_expected += right * right;
  }
}

}  // namespace dlc
