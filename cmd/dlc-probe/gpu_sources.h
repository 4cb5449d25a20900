#pragma once

#include <string>

#include "probes/node/gpu/gpu_compute.h"

namespace dlc {

/// What the GPU steps look at. A program of the tests links others in their place.
std::string GpuNodeRoot();  ///< of /dev and /proc: "/"
ComputeSource GpuComputeSource();

}  // namespace dlc
