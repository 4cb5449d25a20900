#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "probes/observations/nccl.h"
#include "probes/observations/observed.h"

namespace dlc {

/// Counters of port 1 of every EFA device below `root` ("/" outside tests), by device. Not looked
/// at where there is no such device. An error where one's cannot be read, which is so in a pod with
/// a network namespace of its own: the kernel shows them in the device's. Never reads below
/// /sys/class/infiniband/<device>/hw_counters: on kernels before 6.15 that can crash the node.
Observed<std::vector<EfaPortCounters>> ReadEfaCounters(const std::string& root = "/");

/// How long after the last byte the counters may still be old: the driver keeps what it read for
/// the "lifespan" that it tells.
std::chrono::milliseconds EfaCountersSettle(const Observed<std::vector<EfaPortCounters>>& before);

}  // namespace dlc
