#include "checks/policy_gpu.h"

#include <algorithm>
#include <utility>

#include "checks/driver_version.h"
#include "probes/documents/strict_map.h"

namespace dlc {
namespace {

constexpr int kMostGpusPerPod = 1'000;
constexpr int kMostPods = 100'000;
constexpr int kMostGpus = kMostGpusPerPod * kMostPods;
constexpr int kMostNvLinks = 1'000;
constexpr double kMostRate = 1e18;
constexpr std::int64_t kMostAmount = 1'000'000'000'000'000'000;  // a double holds it exactly

Error NotInGpu(std::string message, std::string hint = "") {
  return Error{ErrorCode::kInvalidInput, std::move(message), std::move(hint)};
}

void ReadCounts(StrictMap& map, GpuPolicy& gpu) {
  map.Int("perWorkerPod", gpu.per_worker_pod, 1, kMostGpusPerPod);
  map.Int("workerPods", gpu.worker_pods, 1, kMostPods);
  map.Int("total", gpu.total, 1, kMostGpus);
  map.Each("total", [&gpu](const DocNode& total) -> Result<void> {
    const int product = gpu.per_worker_pod * gpu.worker_pods;
    if (product != 0 && product != gpu.total) {
      return NotInGpu("is " + total.text + ", but perWorkerPod x workerPods is " +
                      std::to_string(product));
    }
    return {};
  });
  map.Demand("resource", gpu.resource);
}

/// What contradicts `devices: no`.
void ReadDevices(StrictMap& map, GpuPolicy& gpu) {
  map.Choice("devices", gpu.devices, {"required", "with-ranks", "no"});
  map.Each("devices", [&](const DocNode&) -> Result<void> {
    const bool counted = gpu.per_worker_pod > 0 || gpu.total > 0;
    return gpu.devices == "no" && counted
               ? NotInGpu("cannot be 'no' beside a number of GPUs", "remove one of them")
               : Result<void>();
  });
}

}  // namespace

Result<void> ReadGpuPolicy(const std::string& file, const DocNode& node, const std::string& where,
                           GpuPolicy& gpu) {
  StrictMap map(file, node, where);
  ReadCounts(map, gpu);
  ReadDevices(map, gpu);
  map.Demand("model", gpu.model);
  map.Whole("minMemoryBytes", gpu.min_memory_bytes, 0, kMostAmount);
  map.Demand("minDriver", gpu.min_driver);
  map.Each("minDriver", [](const DocNode& text) -> Result<void> {
    return IsDriverVersion(text.text) ? Result<void>()
                                      : NotInGpu("must be a driver version, not " + text.Describe(),
                                                 "numbers with dots between them: 580.65.06");
  });
  map.Double("maxUsedMemoryShare", gpu.max_used_memory_share, 0, 1);
  map.Double("minCopyBytesPerSecond", gpu.min_copy_bytes_per_second, 0, kMostRate);
  map.Double("minHostCopyBytesPerSecond", gpu.min_host_copy_bytes_per_second, 0, kMostRate);
  map.Double("minProductOperationsPerSecond", gpu.min_product_operations_per_second, 0, kMostRate);
  map.Double("minShareOfMedian", gpu.min_share_of_median, 0, 1);
  map.Choice("peerAccess", gpu.peer_access, {"required", "with-nvlink"});
  map.Int("minNvLinks", gpu.min_nvlinks, 0, kMostNvLinks);
  return map.Finish();
}

}  // namespace dlc
