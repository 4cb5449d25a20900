#include "checks/finding.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace dlc {
namespace {

using List = std::vector<std::string>;

bool Compare(Op op, AssertedValue observed, AssertedValue limit) {
  return Holds({"m", op, std::move(limit), std::move(observed), "", ""});
}

TEST_CASE("assertion: numbers at the limit and just beyond") {
  CHECK(Compare(Op::kGe, std::int64_t{4}, std::int64_t{4}));
  CHECK_FALSE(Compare(Op::kGe, std::int64_t{3}, std::int64_t{4}));
  CHECK(Compare(Op::kLe, 4.0, std::int64_t{4}));
  CHECK_FALSE(Compare(Op::kLe, std::nextafter(4.0, 5.0), std::int64_t{4}));
  CHECK_FALSE(Compare(Op::kGt, 4.0, 4.0));
  CHECK_FALSE(Compare(Op::kLt, 4.0, 4.0));
  CHECK(Compare(Op::kEq, std::int64_t{3}, 3.0));
  CHECK_FALSE(Compare(Op::kEq, std::int64_t{9007199254740993}, std::int64_t{9007199254740992}));
}

TEST_CASE("assertion: text and lists") {
  CHECK(Compare(Op::kIn, std::string("b"), List{"a", "b"}));
  CHECK_FALSE(Compare(Op::kIn, std::string("c"), List{"a", "b"}));
  CHECK_FALSE(Compare(Op::kIn, std::string("c"), List{}));
  CHECK(Compare(Op::kSubset, List{"a"}, List{"a", "b"}));
  CHECK(Compare(Op::kSubset, List{}, List{}));
  CHECK_FALSE(Compare(Op::kSubset, List{"a", "c"}, List{"a", "b"}));
  CHECK(Compare(Op::kEq, std::string("x"), std::string("x")));
  CHECK(Compare(Op::kNe, std::string("x"), std::string("y")));
}

TEST_CASE("assertion: an absent value satisfies nothing but absent") {
  for (const Op op : {Op::kEq, Op::kNe, Op::kGe, Op::kLe, Op::kGt, Op::kLt, Op::kIn, Op::kSubset}) {
    CAPTURE(OpName(op));
    CHECK_FALSE(Compare(op, std::monostate{}, std::monostate{}));
    CHECK_FALSE(Compare(op, std::monostate{}, std::string("x")));
  }
  CHECK(Compare(Op::kAbsent, std::monostate{}, std::monostate{}));
  CHECK_FALSE(Compare(Op::kAbsent, std::string("x"), std::monostate{}));
}

TEST_CASE("assertion: types that do not fit never hold, and NaN never holds") {
  CHECK_FALSE(Compare(Op::kGe, std::string("4"), std::int64_t{4}));
  CHECK_FALSE(Compare(Op::kEq, std::string("4"), std::int64_t{4}));
  CHECK_FALSE(Compare(Op::kIn, std::int64_t{4}, List{"4"}));
  for (const Op op : {Op::kEq, Op::kGe, Op::kLe, Op::kGt, Op::kLt}) {
    CHECK_FALSE(Compare(op, std::nan(""), 1.0));
  }
}

}  // namespace
}  // namespace dlc
