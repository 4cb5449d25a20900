#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/mix.h"

/// Data whose every element is known from its position, for memory and for matrix products.
/// constexpr, so that the same lines run on the host and on the device.
namespace dlc {

/// What is written over memory, then read back.
enum class MemoryPattern : std::uint8_t {
  kAddress,      ///< each word holds its own index: cells that answer for another address differ
  kWalkingOne,   ///< one set bit that moves on by one from word to word: data lines that stick
  kWalkingZero,  ///< its complement
  kRandom,       ///< counter-based random words
};
inline constexpr MemoryPattern kMemoryPatterns[] = {
    MemoryPattern::kAddress, MemoryPattern::kWalkingOne, MemoryPattern::kWalkingZero,
    MemoryPattern::kRandom};

/// "address", "walking-one", "walking-zero", "random".
constexpr std::string_view MemoryPatternName(MemoryPattern pattern) {
  switch (pattern) {
    case MemoryPattern::kAddress:
      return "address";
    case MemoryPattern::kWalkingOne:
      return "walking-one";
    case MemoryPattern::kWalkingZero:
      return "walking-zero";
    case MemoryPattern::kRandom:
      break;
  }
  return "random";
}

/// The 8-byte word at `index`. Another seed gives other words everywhere, so that what an earlier
/// pass left behind is not taken for this one's.
constexpr std::uint64_t PatternWord(MemoryPattern pattern, std::uint64_t seed,
                                    std::uint64_t index) {
  switch (pattern) {
    case MemoryPattern::kAddress:
      return index ^ (seed << 40);
    case MemoryPattern::kWalkingOne:
      return std::uint64_t{1} << ((index + seed) & 63U);
    case MemoryPattern::kWalkingZero:
      return ~(std::uint64_t{1} << ((index + seed) & 63U));
    case MemoryPattern::kRandom:
      break;
  }
  return MixBits(seed ^ MixBits(index));
}

/// Entries of matrices are whole numbers of magnitude up to this. A sum of kMaxMatrixSize products
/// of two then stays below 2^24: exact in float32 in any order, and exact as a float16 or bfloat16
/// factor.
inline constexpr int kMaxMatrixEntry = 8;
inline constexpr int kMaxMatrixSize = 1 << 17;

/// The entry of a factor at (row, k); `factor` is 0 for the left and 1 for the right one.
constexpr int MatrixEntry(std::uint64_t seed, int factor, int row, int k) {
  const std::uint64_t place = (static_cast<std::uint64_t>(factor) << 62) |
                              (static_cast<std::uint64_t>(row) << 31) |
                              static_cast<std::uint64_t>(k);
  return static_cast<int>(MixBits(seed ^ MixBits(place)) % (2 * kMaxMatrixEntry + 1)) -
         kMaxMatrixEntry;
}

/// Element (row, column) of the product: the sum over k < size of left(row, k) * right(column, k).
/// Both factors are stored by rows, the right one transposed.
constexpr int ProductElement(std::uint64_t seed, int size, int row, int column) {
  int sum = 0;
  for (int k = 0; k < size; ++k) {
    sum += MatrixEntry(seed, 0, row, k) * MatrixEntry(seed, 1, column, k);
  }
  return sum;
}

}  // namespace dlc
