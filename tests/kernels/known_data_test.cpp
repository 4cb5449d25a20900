#include "kernels/known_data.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstdlib>
#include <set>

namespace dlc {

TEST_CASE("no two words of the address pattern are equal, and no seed leaves another's words") {
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    seen.insert(PatternWord(MemoryPattern::kAddress, 3, i));
    for (const MemoryPattern pattern : kMemoryPatterns) {
      CHECK(PatternWord(pattern, 3, i) != PatternWord(pattern, 4, i));
    }
  }
  CHECK(seen.size() == 1000);
}

TEST_CASE("walking patterns put every bit at 1 and at 0, one at a time") {
  std::uint64_t ones = 0;
  std::uint64_t zeros = 0;
  for (std::uint64_t i = 0; i < 64; ++i) {
    const std::uint64_t one = PatternWord(MemoryPattern::kWalkingOne, 0, i);
    const std::uint64_t zero = PatternWord(MemoryPattern::kWalkingZero, 0, i);
    CHECK(std::popcount(one) == 1);
    CHECK(std::popcount(zero) == 63);
    ones |= one;
    zeros |= ~zero;
  }
  CHECK(ones == ~std::uint64_t{0});
  CHECK(zeros == ~std::uint64_t{0});
}

TEST_CASE(
    "matrix entries are small whole numbers of both signs, and products of the largest size are "
    "exact") {
  std::set<int> seen;
  for (int row = 0; row < 40; ++row) {
    for (int k = 0; k < 40; ++k) {
      seen.insert(MatrixEntry(1, 0, row, k));
      CHECK(std::abs(MatrixEntry(1, 1, row, k)) <= kMaxMatrixEntry);
    }
  }
  CHECK(seen.size() == 2 * kMaxMatrixEntry + 1);
  CHECK(std::int64_t{kMaxMatrixSize} * kMaxMatrixEntry * kMaxMatrixEntry < (1 << 24));
}

TEST_CASE("a product is the sum over the common index, its factors independent of each other") {
  int sum = 0;
  for (int k = 0; k < 5; ++k) {
    sum += MatrixEntry(9, 0, 2, k) * MatrixEntry(9, 1, 3, k);
  }
  CHECK(ProductElement(9, 5, 2, 3) == sum);
  int equal = 0;
  for (int k = 0; k < 1000; ++k) {
    equal += MatrixEntry(9, 0, 2, k) == MatrixEntry(9, 1, 2, k) ? 1 : 0;
  }
  CHECK(equal < 150);  // 1 in 17 by chance
}

}  // namespace dlc
