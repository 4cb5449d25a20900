#pragma once

#include <string>
#include <vector>

#include "probes/node/fabric/options.h"
#include "probes/observations/fabric.h"

namespace dlc {

/// What this process sees of EFA and libfabric on its node. Files are looked up below `root` ("/"
/// outside tests). Never reads below /sys/class/infiniband/<device>/hw_counters: on kernels before
/// 6.15 that can crash the node from inside a pod (mainline fix a1ecb30f9085).
NodeFabric ObserveFabric(const FabricOptions& options, const std::string& root = "/");

/// RLIMIT_MEMLOCK; `resource` is another one in tests.
Observed<MemlockLimit> ObserveMemlock(int resource);

/// The way that an experiment takes: `provider` if it is not empty; else "efa" where one of its
/// devices is this process's to use, which then must not be passed over in silence for TCP; else
/// what libfabric and FI_PROVIDER offer.
FabricOptions ChooseFabric(const std::string& provider, const std::string& root = "/");

}  // namespace dlc
