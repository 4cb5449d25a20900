#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/compute_device.h"
#include "probes/observations/gpu.h"
#include "probes/observations/plan.h"
#include "probes/observations/result.h"

namespace dlc {

/// Whether a plan may ask for this; names what is out of range.
Result<void> CheckGpuComputeParameters(const GpuComputeParameters& parameters);

/// Which GPUs are this rank's: of one rank all of them, else the one of its local rank, or the only
/// one that it is shown (as Ray does for each worker). An error when it has none.
Result<std::vector<int>> OwnGpus(int visible, int ranks, int local_rank);

/// Where GpuCompute gets devices from. Tests give the CPU twin.
struct ComputeSource {
  std::function<DeviceStatus(int& count)> count;
  std::function<std::unique_ptr<ComputeDevice>(int index, DeviceStatus& status)> open;
};
ComputeSource CudaSource();

/// Puts this rank's GPUs to work, one after the other, each for about parameters.seconds. Errors of
/// CUDA are part of what is seen. For a process of its own: after an error CUDA may be of no more
/// use to it, and a hang is ended from outside.
GpuCompute ObserveGpuCompute(const GpuComputeParameters& parameters, int ranks, int local_rank,
                             const ComputeSource& source,
                             const std::function<void(std::string_view)>& say);

}  // namespace dlc
