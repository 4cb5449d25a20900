#pragma once

#include "probes/observations/gpu.h"

namespace dlc {

/// What NVML shows this process, by the library that the loader finds.
NvmlView ObserveNvml();

}  // namespace dlc
