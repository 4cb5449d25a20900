#pragma once

#include <optional>
#include <string>
#include <vector>

#include "probes/observations/gpu.h"

namespace dlc {

/// Reads CUDA_VISIBLE_DEVICES as CUDA does. The first entry decides: a list that starts with GPU-
/// or MIG- is a list of uuids, which may be cut short and in either case of letters; any other is a
/// list of numbers, of which CUDA takes the leading digits. The first entry that names no device
/// hides all after it. One that repeats another leaves no device: older drivers show none
/// (torch/cuda/__init__.py, _parse_visible_devices, repeats their rules), 580.159.04 refuses to
/// start (cuInit: CUDA_ERROR_INVALID_DEVICE, 101). A slice where no GPU is in MIG mode hides all.
/// All but the older drivers' part was seen on an H200 with driver 580.159.04. `uuids`: of the GPUs
/// that this process may use, none in MIG mode; nullopt when not known.
CudaVisibleDevices ParseCudaVisibleDevices(const EnvironmentText& variable,
                                           const std::optional<std::vector<std::string>>& uuids);

}  // namespace dlc
