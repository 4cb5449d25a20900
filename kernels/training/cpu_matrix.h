#pragma once

#include <cstdint>

namespace dlc {

/// A matrix somewhere in memory: (i, j) is data[i * row_step + j * column_step].
struct CpuMatrix {
  const float* data = nullptr;
  std::int64_t row_step = 0;
  std::int64_t column_step = 1;

  CpuMatrix Transposed() const { return {data, column_step, row_step}; }
};

/// What a product is written to, by rows.
struct CpuProduct {
  float* data = nullptr;
  std::int64_t row_step = 0;
  bool add = false;  ///< to what is there
};

/// out (rows x columns) = left (rows x depth) * right (depth x columns). Every element is summed in
/// the order of depth, in float32, in runs of a fixed length whose sums are added in order: the
/// same bits whatever the vectors of the machine.
void CpuMultiply(std::int64_t rows, std::int64_t columns, std::int64_t depth, CpuMatrix left,
                 CpuMatrix right, CpuProduct out);

}  // namespace dlc
