#pragma once

#include <memory>

#include "kernels/compute_device.h"

namespace dlc {

/// The twin: the same data, work and comparisons, in plain C++. For tests of what uses a device.
std::unique_ptr<ComputeDevice> OpenCpuDevice();

}  // namespace dlc
