#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/element.h"

namespace dlc {

/// Test data whose right answer is known for every element and exactly representable, so that
/// results are compared bit for bit. A value depends on the position, the rank and the seed:
/// elements at a wrong place, of a wrong rank or of an earlier iteration do not compare equal
/// (bfloat16 has 513 exact integers, so there one element may match by chance; a run of them does
/// not).

/// Data that is moved and not reduced: element `first + i` of what `rank` owns.
void FillMoved(DataType type, std::uint64_t seed, int rank, std::size_t first, std::size_t count,
               void* out);
/// How many of the `count` elements differ from FillMoved's.
std::uint64_t CountWrongMoved(DataType type, std::uint64_t seed, int rank, std::size_t first,
                              std::size_t count, const void* data);

/// False when the type cannot hold exact partial results over that many ranks: bfloat16 kAvg over
/// more than 256 ranks, float32 kAvg over more than 2^24.
bool HasExactReduction(DataType type, ReduceOp op, int ranks);

/// What `rank` of `ranks` puts into a reduction, for elements first .. first + count - 1. Partial
/// sums are exact in any order. Precondition: HasExactReduction.
void FillShare(DataType type, ReduceOp op, std::uint64_t seed, int rank, int ranks,
               std::size_t first, std::size_t count, void* out);
/// How many of the `count` reduced elements are wrong.
std::uint64_t CountWrongReduced(DataType type, ReduceOp op, std::uint64_t seed, int ranks,
                                std::size_t first, std::size_t count, const void* data);

}  // namespace dlc
