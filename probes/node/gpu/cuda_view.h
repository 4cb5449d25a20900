#pragma once

#include <string>

#include "probes/observations/gpu.h"

namespace dlc {

/// What libcuda shows this process. Calls cuInit, which opens the devices: for a process of its
/// own. `root` is "/" outside tests.
CudaView ObserveCudaView(const std::string& root = "/");

}  // namespace dlc
