#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checks/check.h"
#include "checks/rank_results.h"
#include "probes/observations/gpu.h"

namespace dlc {

/// What a rank's process can do with CUDA.
enum class CudaUse : std::uint8_t {
  kShows,   ///< it starts, and shows at least one GPU
  kNone,    ///< this process is given no GPU, or CUDA_VISIBLE_DEVICES hides all
  kBroken,  ///< there are GPUs, or a driver, and CUDA does not start or does not list them
};

/// One rank as the GPU checks look at it.
struct GpuRankView {
  int rank = 0;
  std::string name;  ///< "rank 2 on gpu-worker-1"
  std::string host;  ///< a pod's name; empty when the rank was lost
  Observed<GpuNode> node;
  Observed<GpuNode> after;  ///< the same once more, at the end
  Observed<GpuCompute> compute;
  std::optional<std::int64_t> allotted;  ///< limit of the pod of that name, where it was seen

  Subject RankSubject() const { return {"rank", name}; }
};

/// By rank. Empty when no rank was seen.
std::vector<GpuRankView> GpuRanksOf(const Observations& observations, const Policy& policy);

CudaUse CudaUseOf(const GpuNode& node);
/// CUDA's GPUs; empty unless it shows some.
std::vector<CudaGpu> ShownGpus(const GpuNode& node);
/// UUIDs of what NVML lets this process use: whole GPUs, or the slices of those in MIG mode.
/// Precondition: node.nvml.gpus.seen().
std::vector<std::string> PermittedGpuUuids(const GpuNode& node);
/// NVML's entry of a GPU, or of the GPU that the slice is on; nullptr when there is none. CUDA does
/// not tell the uuid of a slice from that of a GPU.
const NvmlGpu* FindNvmlGpu(const GpuNode& node, const std::string& cuda_uuid);
/// NVML's entry of the slice; nullptr for a whole GPU.
const GpuMigDevice* FindMigDevice(const NvmlGpu& gpu, const std::string& cuda_uuid);

/// "GPU-... of rank 2 on gpu-worker-1".
Subject GpuSubject(const GpuRankView& rank, const std::string& uuid);
/// "cuInit: CUDA_ERROR_SYSTEM_NOT_READY (802): text".
std::string FailureText(const CudaFailure& failure);
/// All that could have shown a GPU and did not: device files, libcuda, NVML, variables.
std::string WhyNoGpu(const GpuNode& node);
/// "NVIDIA H200" has the model "H200", and "NVIDIA L40S" has not "L4": whole words, in order.
bool IsOfModel(std::string_view gpu_name, std::string_view model);

/// Where a rank was not seen (`what` of it), or asks for no GPU and is shown none: one finding that
/// says so. True then, and nothing else of it is to be judged.
bool JudgeWithoutGpu(const GpuRankView& rank, std::string_view rule, std::string_view what,
                     Judge& judge);

/// The GPU, or its driver, has no such thing: an answer, and nothing missed.
template <class T>
bool HasNoSuch(const Observed<T>& observed) {
  return observed.failed() && (observed.error().code == ErrorCode::kUnsupported ||
                               observed.error().code == ErrorCode::kNotFound);
}

/// Where no ranks can speak: one finding that says why. True then, and nothing else is to be
/// judged.
bool JudgeWithoutGpuRanks(const Observations& observations, const Policy& policy,
                          std::string_view rule, std::string_view what, Judge& judge);

}  // namespace dlc
