#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/cuda_device.h"
#include "kernels/training/cpu_backend.h"
#include "kernels/training/cublas_lt.h"
#include "kernels/training/cuda_backend.h"
#include "tests/kernels/training_conformance.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif

namespace dlc {
namespace {

#if __has_include(<cublasLt.h>)
// The numbers that cublas_lt.h writes down are the toolkit's.
static_assert(sizeof(cublas_abi::Heuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(cublas_abi::Heuristic, state) ==
              offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(cublas_abi::kCompute32F == CUBLAS_COMPUTE_32F);
static_assert(cublas_abi::kReal16BF == CUDA_R_16BF && cublas_abi::kReal32F == CUDA_R_32F);
static_assert(cublas_abi::kTransposed == CUBLAS_OP_T);
static_assert(cublas_abi::kDescriptionTransposeA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(cublas_abi::kDescriptionTransposeB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(cublas_abi::kDescriptionEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(cublas_abi::kDescriptionBiasPointer == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(cublas_abi::kEpilogueBias == CUBLASLT_EPILOGUE_BIAS);
static_assert(cublas_abi::kPreferenceWorkspaceBytes == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(cublas_abi::kPreferenceReductionSchemes ==
              CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(cublas_abi::kPreferenceAlignmentA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(cublas_abi::kPreferenceAlignmentA + 3 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(cublas_abi::kReductionComputeType == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
#endif

// Under compute-sanitizer with --report-api-errors no: memory and devices that are not there are
// asked for, to be refused.

/// Whether there is a device; says why not.
bool HasDevice() {
  int count = 0;
  const DeviceStatus counted = CountCudaDevices(count);
  if (!counted.Good()) {
    MESSAGE("no CUDA device here, nothing compared: " << counted.name);
  }
  return counted.Good() && count > 0;
}

std::unique_ptr<TrainingBackend> OpenWith(const CudaTrainingOptions& options) {
  DeviceStatus status;
  auto backend = OpenCudaTrainingBackend(0, status, options);
  CAPTURE(status.call);
  CAPTURE(status.text);
  REQUIRE(status.Good());
  return backend;
}

std::unique_ptr<TrainingBackend> OpenFirst() {
  return OpenWith({});
}

TEST_CASE("CUDA's work on shards is the CPU's, bit for bit") {
  if (!HasDevice()) {
    return;
  }
  const auto found = OpenFirst();
  CheckMemoryAndMarks(*found);
  const auto expected = OpenCpuTrainingBackend();
  CHECK(CompareShards(*found, *expected) == Disagreements{});
}

TEST_CASE("CUDA's decoder in float32 is the CPU's") {
  if (HasDevice()) {
    CHECK(CompareModels(OpenFirst, OpenCpuTrainingBackend, DataType::kFloat32,
                        DataType::kFloat32) == Disagreements{});
  }
}

TEST_CASE("CUDA's decoder in bfloat16 is as near to float32 as the CPU's") {
  if (!HasDevice()) {
    return;
  }
  for (const DataType gradients : {DataType::kFloat32, DataType::kBfloat16}) {
    CHECK(CompareModels(OpenFirst, OpenCpuTrainingBackend, DataType::kBfloat16, gradients) ==
          Disagreements{});
  }
}

TEST_CASE("attention by the tensor cores, over several blocks and with a tail") {
  if (!HasDevice()) {
    return;
  }
  for (const std::int64_t head_size : {64, 128}) {
    TrainingShape shape;
    shape.model = {256, 2, 4, 2, head_size, 320, 640, 1e6, 1e-6, true};
    shape.rows = 2;
    shape.sequence = 203;
    shape.compute = DataType::kBfloat16;
    shape.gradients = DataType::kFloat32;
    // As an H200 has shared memory, an L4, and one that cannot.
    for (const int bytes : {1 << 30, 101376, 0}) {
      CAPTURE(bytes);
      const auto open = [&] { return OpenWith({"", bytes}); };
      CHECK(CompareModel(open, OpenCpuTrainingBackend, shape, SyntheticWeights(shape.model, 5),
                         SyntheticTokens(shape, SyntheticKey(6, 0))) == Disagreements{});
    }
  }
}

TEST_CASE("CUDA refuses what is out of turn, and a token that is no word") {
  if (!HasDevice()) {
    return;
  }
  TrainingShape shape;
  shape.model = *Qwen2Preset("qwen2-tiny");
  shape.rows = 1;
  shape.sequence = 8;
  const auto backend = OpenFirst();
  CHECK(backend->Embed(nullptr, nullptr).name == "cudaErrorInvalidValue");
  TrainingRun run(*backend, shape);
  run.SetWeights(SyntheticWeights(shape.model, 1));
  BackendMemory unit(*backend, 1 << 20);
  CHECK_FALSE(backend->ForwardLayer(0, unit.Get()).Good());
  std::vector<std::int32_t> tokens(9, 3);
  CHECK(backend->Embed(unit.Get(), tokens.data()).Good());
  CHECK_FALSE(backend->ForwardLayer(1, unit.Get()).Good());
  CHECK_FALSE(backend->ForwardLayer(0, unit.Get()).Good());
  tokens[4] = 509;
  CHECK_FALSE(backend->Embed(unit.Get(), tokens.data()).Good());
  CHECK_FALSE(backend->PrepareModel(shape).Good());
}

TEST_CASE("a device that does not exist is refused, and a library that is missing is named") {
  DeviceStatus status;
  CHECK(OpenCudaTrainingBackend(4096, status) == nullptr);
  CHECK_FALSE(status.Good());
  CHECK_FALSE(status.name.empty());
  if (HasDevice()) {
    CHECK(OpenCudaTrainingBackend(0, status, {"/nowhere/libcublasLt.so.13"}) == nullptr);
    CHECK(status.name == "no libcublasLt");
    CHECK(status.text.find("/nowhere/libcublasLt.so.13") != std::string::npos);
  }
}

}  // namespace
}  // namespace dlc
