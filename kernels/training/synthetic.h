#pragma once

#include <cstdint>

#include "kernels/mix.h"

/// Weights, tokens and gradients that follow from where they stand, so that any rank can make any
/// shard of them, and a reference can be made anywhere. Integer arithmetic and one exact
/// conversion: the same bits on the CPU, on a GPU and in numpy. constexpr for device code.
namespace dlc {

/// Key of a stream of random words; `stream` tells the uses of one seed apart.
constexpr std::uint64_t SyntheticKey(std::uint64_t seed, std::uint64_t stream) {
  return MixBits(seed ^ MixBits(stream));
}

/// Near to a normal distribution of mean 0 and variance 1/3 (four uniform parts, |x| <= 2); whole
/// multiples of 2^-16, so that it is exact as a float. `key` is SyntheticKey(seed, index of the
/// parameter), `element` the index in the whole parameter.
constexpr float SyntheticNormal(std::uint64_t key, std::uint64_t element) {
  const std::uint64_t bits = MixBits(key ^ element);
  const auto sum = static_cast<std::int32_t>((bits & 0xffffU) + ((bits >> 16) & 0xffffU) +
                                             ((bits >> 32) & 0xffffU) + (bits >> 48));
  return static_cast<float>(sum - 131070) * (1.0F / 65536.0F);
}

/// A weight of the model at its start: mean + spread * SyntheticNormal, the product rounded first.
/// The initial spread of Qwen2 (initializer_range 0.02) is sqrt(3) * 0.02 here; 1/32 is near to it
/// and exact.
inline constexpr float kWeightSpread = 1.0F / 32.0F;

/// A whole number from -8 to 8: sums of up to 32 of them are exact even as bfloat16.
constexpr int SyntheticInteger(std::uint64_t key, std::uint64_t element) {
  return static_cast<int>(MixBits(key ^ element) % 17U) - 8;
}

/// A token of the batch at (row, position), 0 to vocabulary - 1. A row has one more position than
/// the model is given: the token at position p + 1 is what position p is to foretell. `key` is
/// SyntheticKey(seed, of step and rank).
constexpr std::int32_t SyntheticToken(std::uint64_t key, std::uint64_t row, std::uint64_t position,
                                      std::uint64_t vocabulary) {
  return static_cast<std::int32_t>(MixBits(key ^ (row << 32) ^ position) % vocabulary);
}

}  // namespace dlc
