#pragma once

#include <string>
#include <vector>

#include "probes/node/gpu/nvml.h"
#include "probes/observations/gpu.h"

namespace dlc {

/// All of one GPU, each fact with its own reason where it could not be read.
NvmlGpu ReadNvmlGpu(const Nvml& nvml, unsigned index, nvml::Device device);

/// What changes with load, now.
GpuState ReadGpuState(const Nvml& nvml, nvml::Device device);
Observed<std::vector<GpuProcess>> ReadGpuProcesses(const Nvml& nvml, nvml::Device device);
GpuPeer ReadGpuPeer(const Nvml& nvml, nvml::Device a, nvml::Device b);

/// By "GPU-..." or "MIG-...".
Result<nvml::Device> FindNvmlDevice(const Nvml& nvml, const std::string& uuid);

}  // namespace dlc
