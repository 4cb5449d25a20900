#pragma once

#include <cstdint>

#include "kernels/mix.h"

namespace dlc {

/// What an element of a parameter holds at one stage of the proof: made from its place, so that an
/// element anywhere else is another. Sums of all ranks' are exact: arithmetic is modulo 2^32.
struct PlaceValues {
  std::uint64_t seed = 0;
  std::uint32_t factor = 1;
  std::uint32_t addend = 0;
  std::uint32_t filling = 0;

  /// `key` is Key of the parameter's index in the model.
  std::uint64_t Key(int parameter) const {
    return MixBits(seed ^ MixBits(static_cast<std::uint64_t>(parameter)));
  }
  std::uint32_t At(std::uint64_t key, std::int64_t element) const {
    const std::uint64_t mixed = MixBits(key ^ static_cast<std::uint64_t>(element));
    return static_cast<std::uint32_t>(mixed >> 32) * factor + addend;
  }
};

/// Of the parameters before training step `step`.
inline PlaceValues ParameterValues(std::uint64_t step, std::uint32_t filling) {
  return {MixBits(2 * step), 1, 0, filling};
}
/// What one rank of a run gives to the sum: no two ranks the same.
inline PlaceValues GradientValues(std::uint64_t step, int rank) {
  const auto r = static_cast<std::uint32_t>(rank);
  return {MixBits(2 * step + 1), 2 * r + 1, r + 1, 0};
}
/// The sum over ranks 0 to ranks - 1.
inline PlaceValues GradientSums(std::uint64_t step, int ranks) {
  const auto n = static_cast<std::uint32_t>(ranks);
  return {MixBits(2 * step + 1), n * n, n * (n + 1) / 2, 0};
}

}  // namespace dlc
