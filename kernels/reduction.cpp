#include "kernels/reduction.h"

#include <cstdint>
#include <type_traits>

#include "kernels/bfloat16.h"

namespace dlc {
namespace {

template <class T>
struct Arithmetic {
  using Stored = T;
  static T Sum(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;  // signed overflow would be undefined
      return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  }
  static T Max(T a, T b) { return a < b ? b : a; }
  static T Divide(T a, int divisor) { return a / static_cast<T>(divisor); }
};

struct Bfloat16Arithmetic {
  using Stored = std::uint16_t;
  static Stored Sum(Stored a, Stored b) {
    return Bfloat16FromFloat(FloatFromBfloat16(a) + FloatFromBfloat16(b));
  }
  static Stored Max(Stored a, Stored b) {
    return FloatFromBfloat16(a) < FloatFromBfloat16(b) ? b : a;
  }
  static Stored Divide(Stored a, int divisor) {
    return Bfloat16FromFloat(FloatFromBfloat16(a) / static_cast<float>(divisor));
  }
};

template <class A>
void ReduceAs(ReduceOp op, void* out, const void* a, const void* b, std::size_t count) {
  using Stored = typename A::Stored;
  auto* to = static_cast<Stored*>(out);
  const auto* left = static_cast<const Stored*>(a);
  const auto* right = static_cast<const Stored*>(b);
  if (op == ReduceOp::kMax) {
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = A::Max(left[i], right[i]);
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = A::Sum(left[i], right[i]);
    }
  }
}

template <class A>
void DivideAs(void* data, std::size_t count, int divisor) {
  auto* values = static_cast<typename A::Stored*>(data);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = A::Divide(values[i], divisor);
  }
}

}  // namespace

void Reduce(DataType type, ReduceOp op, void* out, const void* a, const void* b,
            std::size_t count) {
  switch (type) {
    case DataType::kFloat32:
      return ReduceAs<Arithmetic<float>>(op, out, a, b, count);
    case DataType::kBfloat16:
      return ReduceAs<Bfloat16Arithmetic>(op, out, a, b, count);
    case DataType::kInt32:
      return ReduceAs<Arithmetic<std::int32_t>>(op, out, a, b, count);
    case DataType::kInt64:
      return ReduceAs<Arithmetic<std::int64_t>>(op, out, a, b, count);
  }
}

void DivideBy(DataType type, void* data, std::size_t count, int divisor) {
  switch (type) {
    case DataType::kFloat32:
      return DivideAs<Arithmetic<float>>(data, count, divisor);
    case DataType::kBfloat16:
      return DivideAs<Bfloat16Arithmetic>(data, count, divisor);
    case DataType::kInt32:
      return DivideAs<Arithmetic<std::int32_t>>(data, count, divisor);
    case DataType::kInt64:
      return DivideAs<Arithmetic<std::int64_t>>(data, count, divisor);
  }
}

}  // namespace dlc
