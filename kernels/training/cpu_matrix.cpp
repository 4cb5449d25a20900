#include "kernels/training/cpu_matrix.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace dlc {
namespace {

// A tile of the product stays in registers: 8 of the 16 that every x86-64 has.
constexpr std::int64_t kTileRows = 4;
constexpr std::int64_t kTileColumns = 8;
// A block of the left factor stays in the second level cache, a strip of the right one in the
// first.
constexpr std::int64_t kBlockDepth = 256;
constexpr std::int64_t kBlockRows = 96;
constexpr std::int64_t kBlockColumns = 512;

std::int64_t RoundUpTo(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Strips of `width` rows, each by depth: what MultiplyTile reads lies in the order it is read.
/// Rows beyond the matrix are 0.
void PackStrips(CpuMatrix matrix, std::int64_t rows, std::int64_t depth, std::int64_t width,
                float* to) {
  for (std::int64_t first = 0; first < rows; first += width) {
    const std::int64_t count = std::min(width, rows - first);
    for (std::int64_t i = 0; i < width; ++i) {
      const float* from = matrix.data + (first + i) * matrix.row_step;
      for (std::int64_t k = 0; k < depth; ++k) {
        to[k * width + i] = i < count ? from[k * matrix.column_step] : 0.0F;
      }
    }
    to += width * depth;
  }
}

using Lanes = float __attribute__((vector_size(16)));

/// tile = left strip * right strip.
void MultiplyTile(std::int64_t depth, const float* left, const float* right, float* tile) {
  Lanes sums[kTileRows][2] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    const float* r = right + k * kTileColumns;
    const float* l = left + k * kTileRows;
    const Lanes first = {r[0], r[1], r[2], r[3]};
    const Lanes second = {r[4], r[5], r[6], r[7]};
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < kTileRows; ++i) {
      sums[i][0] += l[i] * first;
      sums[i][1] += l[i] * second;
    }
  }
  for (std::int64_t i = 0; i < kTileRows; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) {
      tile[i * kTileColumns + j] = sums[i][0][j];
      tile[i * kTileColumns + 4 + j] = sums[i][1][j];
    }
  }
}

void StoreTile(const float* tile, std::int64_t rows, std::int64_t columns, CpuProduct out) {
  for (std::int64_t i = 0; i < rows; ++i) {
    float* to = out.data + i * out.row_step;
    const float* from = tile + i * kTileColumns;
    for (std::int64_t j = 0; j < columns; ++j) {
      to[j] = out.add ? to[j] + from[j] : from[j];
    }
  }
}

struct PackedBlock {
  const float* left = nullptr;
  const float* right = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
};

void MultiplyBlock(const PackedBlock& block, CpuProduct out) {
  float tile[kTileRows * kTileColumns];
  for (std::int64_t column = 0; column < block.columns; column += kTileColumns) {
    for (std::int64_t row = 0; row < block.rows; row += kTileRows) {
      MultiplyTile(block.depth, block.left + row * block.depth, block.right + column * block.depth,
                   tile);
      StoreTile(tile, std::min(kTileRows, block.rows - row),
                std::min(kTileColumns, block.columns - column),
                {out.data + row * out.row_step + column, out.row_step, out.add});
    }
  }
}

}  // namespace

void CpuMultiply(std::int64_t rows, std::int64_t columns, std::int64_t depth, CpuMatrix left,
                 CpuMatrix right, CpuProduct out) {
  const std::int64_t most_depth = std::min(depth, kBlockDepth);
  std::vector<float> packed_left(
      static_cast<std::size_t>(most_depth * RoundUpTo(std::min(rows, kBlockRows), kTileRows)));
  std::vector<float> packed_right(static_cast<std::size_t>(
      most_depth * RoundUpTo(std::min(columns, kBlockColumns), kTileColumns)));
  const CpuMatrix by_columns = right.Transposed();
  for (std::int64_t column = 0; column < columns; column += kBlockColumns) {
    for (std::int64_t k = 0; k < depth; k += kBlockDepth) {
      PackedBlock block;
      block.depth = std::min(kBlockDepth, depth - k);
      block.columns = std::min(kBlockColumns, columns - column);
      PackStrips({by_columns.data + column * by_columns.row_step + k * by_columns.column_step,
                  by_columns.row_step, by_columns.column_step},
                 block.columns, block.depth, kTileColumns, packed_right.data());
      block.right = packed_right.data();
      for (std::int64_t row = 0; row < rows; row += kBlockRows) {
        block.rows = std::min(kBlockRows, rows - row);
        PackStrips({left.data + row * left.row_step + k * left.column_step, left.row_step,
                    left.column_step},
                   block.rows, block.depth, kTileRows, packed_left.data());
        block.left = packed_left.data();
        MultiplyBlock(block,
                      {out.data + row * out.row_step + column, out.row_step, out.add || k > 0});
      }
    }
  }
}

}  // namespace dlc
