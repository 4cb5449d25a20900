// Matrix products: by the image's cuBLASLt, else by a kernel of our own.
#pragma once

#include <array>
#include <map>
#include <memory>

#include "kernels/training/cublas_lt.h"
#include "kernels/training/cuda_training.cuh"

namespace dlc {

/// A factor by rows, `step` elements from row to row; `turned` is its transpose.
struct CudaFactor {
  const void* data = nullptr;
  std::int64_t step = 0;
  bool turned = false;
};

/// out (rows x columns) = left (rows x depth) * right (depth x columns) + bias, or += . Factors are
/// of type `in`; sums are float32, rounded once to `out_type`.
struct CudaProduct {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  CudaFactor left;
  CudaFactor right;
  DataType in = DataType::kFloat32;
  void* out = nullptr;
  std::int64_t out_step = 0;
  DataType out_type = DataType::kFloat32;
  const void* add = nullptr;   ///< laid out as out, may be it; nullptr: nothing is added
  const void* bias = nullptr;  ///< `columns` of out_type
};

class CudaProducts {
 public:
  CudaProducts() = default;
  ~CudaProducts();
  CudaProducts(const CudaProducts&) = delete;
  CudaProducts& operator=(const CudaProducts&) = delete;

  DeviceStatus Open(CublasLt library);
  /// Of device memory, for split sums.
  static constexpr std::uint64_t kWorkspaceBytes = std::uint64_t{64} << 20;
  void SetWorkspace(void* workspace) { workspace_ = workspace; }
  void Multiply(CudaQueue queue, const CudaProduct& product);
  /// Products that cuBLASLt had no algorithm for, by shape.
  int OwnShapes() const { return own_shapes_; }

 private:
  struct Plan;
  using Key = std::array<std::int64_t, 13>;

  Plan& PlanFor(CudaCalls& calls, const CudaProduct& product);
  void MakePlan(CudaCalls& calls, const CudaProduct& product, Plan& plan);
  bool Good(CudaCalls& calls, int status, const char* call) const;

  CublasLt library_;
  cublas_abi::Handle handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
  int own_shapes_ = 0;
};

/// Any sizes, any alignment.
void CudaMultiplyPlainly(CudaQueue queue, const CudaProduct& product);

}  // namespace dlc
