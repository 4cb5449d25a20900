#pragma once

#include <string>
#include <vector>

#include "probes/observations/fabric.h"
#include "probes/observations/result.h"

namespace dlc {

/// Bytes of every interface of this process's network namespace, sorted by name: in a pod of its
/// own the pod's, under hostNetwork the whole node's. /sys/class/net would tell of the namespace of
/// whoever mounted /sys.
Result<std::vector<InterfaceBytes>> ReadNetDev(const std::string& file = "/proc/self/net/dev");

}  // namespace dlc
