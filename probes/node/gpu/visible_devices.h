#pragma once

#include <optional>
#include <string>
#include <vector>

#include "probes/observations/gpu.h"

namespace dlc {

/// Reads CUDA_VISIBLE_DEVICES as CUDA does. The first entry decides: a list that starts with GPU-
/// or MIG- is a list of uuids, which may be cut short; any other is a list of numbers, of which
/// CUDA takes the leading digits. The first entry that names no device hides all after it, and one
/// that repeats another hides every device. (torch/cuda/__init__.py, _parse_visible_devices,
/// repeats the driver's rules.) `uuids`: of the GPUs that this process may use; nullopt when not
/// known.
CudaVisibleDevices ParseCudaVisibleDevices(const EnvironmentText& variable,
                                           const std::optional<std::vector<std::string>>& uuids);

}  // namespace dlc
