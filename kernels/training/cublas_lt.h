#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// What is needed of cublasLt.h, 12 and 13: numbers and layouts that its ABI keeps.
namespace dlc::cublas_abi {

inline constexpr int kSuccess = 0;
inline constexpr int kReal32F = 0;     // CUDA_R_32F
inline constexpr int kReal16BF = 14;   // CUDA_R_16BF
inline constexpr int kCompute32F = 68;  // CUBLAS_COMPUTE_32F
inline constexpr std::int32_t kTransposed = 1;

inline constexpr int kDescriptionTransposeA = 3;
inline constexpr int kDescriptionTransposeB = 4;
inline constexpr int kDescriptionEpilogue = 7;
inline constexpr int kDescriptionBiasPointer = 8;
inline constexpr std::uint32_t kEpilogueBias = 4;

inline constexpr int kPreferenceWorkspaceBytes = 1;
inline constexpr int kPreferenceReductionSchemes = 3;
inline constexpr int kPreferenceAlignmentA = 5;  // B, C and D follow
inline constexpr std::uint32_t kReductionComputeType = 2;

struct Algorithm {
  std::uint64_t data[8];
};

struct Heuristic {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Heuristic) == 96);

using Handle = void*;
using Description = void*;
using Layout = void*;
using Preference = void*;

}  // namespace dlc::cublas_abi

namespace dlc {

/// libcublasLt's functions, by the names after "cublasLt".
struct CublasLt {
  int (*create)(cublas_abi::Handle*) = nullptr;
  int (*destroy)(cublas_abi::Handle) = nullptr;
  const char* (*status_name)(int) = nullptr;
  std::size_t (*version)() = nullptr;
  int (*description_create)(cublas_abi::Description*, int compute, int scale) = nullptr;
  int (*description_destroy)(cublas_abi::Description) = nullptr;
  int (*description_set)(cublas_abi::Description, int, const void*, std::size_t) = nullptr;
  int (*layout_create)(cublas_abi::Layout*, int type, std::uint64_t rows, std::uint64_t columns,
                       std::int64_t step) = nullptr;
  int (*layout_destroy)(cublas_abi::Layout) = nullptr;
  int (*preference_create)(cublas_abi::Preference*) = nullptr;
  int (*preference_destroy)(cublas_abi::Preference) = nullptr;
  int (*preference_set)(cublas_abi::Preference, int, const void*, std::size_t) = nullptr;
  int (*heuristic)(cublas_abi::Handle, cublas_abi::Description, cublas_abi::Layout a,
                   cublas_abi::Layout b, cublas_abi::Layout c, cublas_abi::Layout d,
                   cublas_abi::Preference, int wanted, cublas_abi::Heuristic*,
                   int* found) = nullptr;
  int (*matmul)(cublas_abi::Handle, cublas_abi::Description, const void* alpha, const void* a,
                cublas_abi::Layout, const void* b, cublas_abi::Layout, const void* beta,
                const void* c, cublas_abi::Layout, void* d, cublas_abi::Layout,
                const cublas_abi::Algorithm*, void* workspace, std::size_t workspace_bytes,
                void* stream) = nullptr;
  std::string path;  ///< as it was asked for
};

/// Where libcublasLt may lie, best first; a name without a slash goes through the loader's own
/// search. `path`, if not empty, alone. The arguments are environment variables.
std::vector<std::string> CublasLtCandidates(const std::string& path, const std::string& search_path,
                                            const std::string& virtual_env,
                                            const std::string& python_path);

/// Loads the first candidate that has every function, and never unloads it. False with `reasons`:
/// each candidate with the loader's words.
bool LoadCublasLt(const std::vector<std::string>& candidates, CublasLt& library,
                  std::string& reasons);

}  // namespace dlc
