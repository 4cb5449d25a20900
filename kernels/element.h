#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dlc {

/// What collectives move. kBfloat16 is the upper half of a float32.
enum class DataType : std::uint8_t { kFloat32, kBfloat16, kInt32, kInt64 };

/// kAvg is the sum over ranks divided once by their number: rounded to nearest for floats, towards
/// zero for integers. Integer sums wrap.
enum class ReduceOp : std::uint8_t { kSum, kAvg, kMax };

constexpr std::size_t ElementBytes(DataType type) {
  switch (type) {
    case DataType::kBfloat16:
      return 2;
    case DataType::kInt64:
      return 8;
    case DataType::kFloat32:
    case DataType::kInt32:
      break;
  }
  return 4;
}

/// "float32", "bfloat16", "int32", "int64".
constexpr std::string_view DataTypeName(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "float32";
    case DataType::kBfloat16:
      return "bfloat16";
    case DataType::kInt32:
      return "int32";
    case DataType::kInt64:
      break;
  }
  return "int64";
}

/// "sum", "avg", "max".
constexpr std::string_view ReduceOpName(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAvg:
      return "avg";
    case ReduceOp::kMax:
      break;
  }
  return "max";
}

}  // namespace dlc
