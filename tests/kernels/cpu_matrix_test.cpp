#include "kernels/training/cpu_matrix.h"

#include <doctest/doctest.h>

#include "tests/kernels/training_conformance.h"

namespace dlc {
namespace {

constexpr float kOutside = 77;

std::vector<float> Integers(std::size_t count, std::uint64_t key) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(SyntheticInteger(key, i)));
  }
  return values;
}

struct ProductSizes {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
};

/// Of whole numbers, exact in any order. Each factor by rows or by columns, in a wider matrix.
bool IsExact(ProductSizes sizes, bool left_turned, bool right_turned, bool add) {
  const auto in = [](std::int64_t rows, std::int64_t columns, bool turned,
                     const std::vector<float>& data) {
    return turned ? CpuMatrix{data.data(), 1, rows + 3} : CpuMatrix{data.data(), columns + 3, 1};
  };
  const auto space = static_cast<std::size_t>((sizes.rows + 3) * (sizes.depth + 3) +
                                              (sizes.depth + 3) * (sizes.columns + 3));
  const std::vector<float> left_data = Integers(space, 1);
  const std::vector<float> right_data = Integers(space, 2);
  const CpuMatrix left = in(sizes.rows, sizes.depth, left_turned, left_data);
  const CpuMatrix right = in(sizes.depth, sizes.columns, right_turned, right_data);
  const std::int64_t step = sizes.columns + 2;
  std::vector<float> out(static_cast<std::size_t>(sizes.rows * step), kOutside);
  CpuMultiply(sizes.rows, sizes.columns, sizes.depth, left, right, {out.data(), step, add});
  bool exact = true;
  for (std::int64_t i = 0; i < sizes.rows; ++i) {
    for (std::int64_t j = 0; j < step; ++j) {
      float sum = add || j >= sizes.columns ? kOutside : 0;
      for (std::int64_t k = 0; j < sizes.columns && k < sizes.depth; ++k) {
        sum += left.data[i * left.row_step + k * left.column_step] *
               right.data[k * right.row_step + j * right.column_step];
      }
      exact = exact && out[static_cast<std::size_t>(i * step + j)] == sum;
    }
  }
  return exact;
}

TEST_CASE("products are exact, whatever the sizes, and nothing else is written") {
  for (const ProductSizes sizes :
       {ProductSizes{1, 1, 1}, {4, 8, 1}, {5, 9, 3}, {3, 7, 255}, {97, 17, 257}, {13, 515, 30}}) {
    for (const bool left_turned : {false, true}) {
      for (const bool right_turned : {false, true}) {
        for (const bool add : {false, true}) {
          CAPTURE(sizes.rows);
          CAPTURE(left_turned);
          CAPTURE(right_turned);
          CAPTURE(add);
          CHECK(IsExact(sizes, left_turned, right_turned, add));
        }
      }
    }
  }
}

TEST_CASE("a part of a product has the bits of the whole") {
  constexpr std::int64_t kRows = 9;
  constexpr std::int64_t kColumns = 30;
  constexpr std::int64_t kDepth = 300;
  std::vector<float> left(kRows * kDepth);
  std::vector<float> right(kColumns * kDepth);
  for (auto* values : {&left, &right}) {
    for (std::size_t i = 0; i < values->size(); ++i) {
      (*values)[i] = SyntheticNormal(values->size(), i);
    }
  }
  std::vector<float> whole(kRows * kColumns);
  CpuMultiply(kRows, kColumns, kDepth, {left.data(), kDepth, 1}, {right.data(), kColumns, 1},
              {whole.data(), kColumns, false});
  std::vector<float> parts(kRows * kColumns);
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (const std::int64_t column : {0, 7}) {
      CpuMultiply(1, column == 0 ? 7 : kColumns - 7, kDepth,
                  {left.data() + row * kDepth, kDepth, 1}, {right.data() + column, kColumns, 1},
                  {parts.data() + row * kColumns + column, kColumns, false});
    }
  }
  CHECK(SameBits(parts, whole));
}

}  // namespace
}  // namespace dlc
