#include "kernels/pattern.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/reduction.h"

namespace dlc {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBfloat16, DataType::kInt32,
                               DataType::kInt64};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax};
constexpr std::size_t kCount = 500;

std::vector<std::byte> Share(DataType type, ReduceOp op, int rank, int ranks) {
  std::vector<std::byte> share(kCount * ElementBytes(type));
  FillShare(type, op, 7, rank, ranks, 100, kCount, share.data());
  return share;
}

/// The shares of `order`, of so many ranks, combined one by one.
std::vector<std::byte> Combine(DataType type, ReduceOp op, const std::vector<int>& order,
                               int ranks) {
  std::vector<std::byte> total = Share(type, op, order.front(), ranks);
  for (std::size_t i = 1; i < order.size(); ++i) {
    Reduce(type, op, total.data(), total.data(), Share(type, op, order[i], ranks).data(), kCount);
  }
  if (op == ReduceOp::kAvg) {
    DivideBy(type, total.data(), kCount, ranks);
  }
  return total;
}

/// Each rank's share once, in the given order.
std::vector<std::byte> Combine(DataType type, ReduceOp op, const std::vector<int>& order) {
  return Combine(type, op, order, static_cast<int>(order.size()));
}

std::vector<int> Ranks(int ranks) {
  std::vector<int> order;
  for (int rank = 0; rank < ranks; ++rank) {
    order.push_back(rank);
  }
  return order;
}

}  // namespace

TEST_CASE("shares reduce to the expected result in any order, for every type and operation") {
  for (const DataType type : kTypes) {
    for (const ReduceOp op : kOps) {
      for (const int ranks : {1, 2, 3, 7, 64, 256}) {
        CAPTURE(DataTypeName(type));
        CAPTURE(ReduceOpName(op));
        CAPTURE(ranks);
        std::vector<int> order = Ranks(ranks);
        CHECK(CountWrongReduced(type, op, 7, ranks, 100, kCount, Combine(type, op, order).data()) ==
              0);
        std::reverse(order.begin(), order.end());
        std::rotate(order.begin(), order.begin() + ranks / 3, order.end());
        CHECK(CountWrongReduced(type, op, 7, ranks, 100, kCount, Combine(type, op, order).data()) ==
              0);
      }
    }
  }
}

TEST_CASE("a rank that is dropped, doubled or read at another place is seen") {
  for (const DataType type : kTypes) {
    for (const ReduceOp op : kOps) {
      CAPTURE(DataTypeName(type));
      CAPTURE(ReduceOpName(op));
      const std::vector<std::byte> total = Combine(type, op, Ranks(3));
      CHECK(CountWrongReduced(type, op, 7, 3, 101, kCount - 1, total.data()) > kCount / 4);
      CHECK(CountWrongReduced(type, op, 8, 3, 100, kCount, total.data()) > kCount / 2);
      const auto wrong_of = [&](const std::vector<int>& order) {
        return CountWrongReduced(type, op, 7, 3, 100, kCount, Combine(type, op, order, 3).data());
      };
      REQUIRE(wrong_of({0, 1, 2}) == 0);
      CHECK(wrong_of({0, 2}) > kCount / 4);
      CHECK(wrong_of({0, 1, 1}) > kCount / 4);
      if (op != ReduceOp::kMax) {  // a maximum is the same with a share twice
        CHECK(wrong_of({0, 1, 2, 1}) > kCount / 4);
      }
    }
  }
}

TEST_CASE("one flipped bit is one wrong element, wherever it is") {
  for (const DataType type : kTypes) {
    const std::size_t element = ElementBytes(type);
    std::vector<std::byte> reduced = Combine(type, ReduceOp::kSum, Ranks(4));
    std::vector<std::byte> moved(kCount * element);
    FillMoved(type, 7, 2, 100, kCount, moved.data());
    REQUIRE(CountWrongMoved(type, 7, 2, 100, kCount, moved.data()) == 0);
    for (const std::size_t at : {std::size_t{0}, kCount / 2 * element, kCount * element - 1}) {
      for (const std::byte bit : {std::byte{1}, std::byte{0x80}}) {
        reduced[at] ^= bit;
        moved[at] ^= bit;
        CHECK(CountWrongReduced(type, ReduceOp::kSum, 7, 4, 100, kCount, reduced.data()) == 1);
        CHECK(CountWrongMoved(type, 7, 2, 100, kCount, moved.data()) == 1);
        reduced[at] ^= bit;
        moved[at] ^= bit;
      }
    }
  }
}

TEST_CASE("moved data of another rank, place or seed is nearly all wrong") {
  for (const DataType type : kTypes) {
    CAPTURE(DataTypeName(type));
    std::vector<std::byte> moved(kCount * ElementBytes(type));
    FillMoved(type, 7, 2, 100, kCount, moved.data());
    CHECK(CountWrongMoved(type, 7, 3, 100, kCount, moved.data()) > kCount * 9 / 10);
    CHECK(CountWrongMoved(type, 7, 2, 101, kCount, moved.data()) > kCount * 9 / 10);
    CHECK(CountWrongMoved(type, 8, 2, 100, kCount, moved.data()) > kCount * 9 / 10);
  }
}

TEST_CASE("an average that bfloat16 cannot hold exactly is refused, not weakened") {
  CHECK(HasExactReduction(DataType::kBfloat16, ReduceOp::kAvg, 256));
  CHECK_FALSE(HasExactReduction(DataType::kBfloat16, ReduceOp::kAvg, 257));
  CHECK(HasExactReduction(DataType::kBfloat16, ReduceOp::kSum, 4096));
  CHECK(HasExactReduction(DataType::kFloat32, ReduceOp::kAvg, 4096));
  CHECK_FALSE(HasExactReduction(DataType::kFloat32, ReduceOp::kSum, 0));
}

}  // namespace dlc
