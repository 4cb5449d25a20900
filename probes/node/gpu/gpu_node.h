#pragma once

#include <string>

#include "probes/observations/gpu.h"

namespace dlc {

/// What this process is given and sees of GPUs. Loads the driver's libraries and calls them, so in
/// a process of its own: a broken driver may hang. Files are looked up below `root` ("/" outside
/// tests).
GpuNode ObserveGpuNode(const std::string& root = "/");

}  // namespace dlc
