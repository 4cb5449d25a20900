#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "checks/check.h"
#include "checks/policy.h"
#include "tests/checks/rank_run.h"

namespace dlc::testing {

inline std::string GpuUuid(int number) {
  return "GPU-0000000" + std::to_string(number);
}

/// GPU `index` of a node, healthy and idle.
inline NvmlGpu GoodNvmlGpu(int index, int number) {
  const Error none{ErrorCode::kUnsupported, "Not Supported (3)", ""};
  NvmlGpu gpu;
  gpu.index = index;
  gpu.uuid = GpuUuid(number);
  gpu.name = std::string("NVIDIA L4");
  gpu.minor_number = index;
  gpu.memory = GpuMemory{24'000, 500};
  gpu.mig = none;
  gpu.ecc = GpuEcc{true, 0, 0, 0, 0};
  gpu.remapped_rows = GpuRemappedRows{};
  gpu.retired_pages = none;
  gpu.max_pcie_generation = 4;
  gpu.max_pcie_width = 16;
  gpu.utilization_percent = 0;
  gpu.fabric = GpuFabricState{"not-supported", 0, 0, "", 0};
  gpu.processes = std::vector<GpuProcess>{};
  return gpu;
}

inline CudaGpu GoodCudaGpu(int ordinal, int number) {
  return {ordinal, GpuUuid(number), "NVIDIA L4", "0000:30:00.0", "8.9", 23'000};
}

inline GpuWork GoodWork(int ordinal, int number) {
  GpuWork work;
  work.ordinal = ordinal;
  work.uuid = GpuUuid(number);
  work.name = "NVIDIA L4";
  work.total_bytes = 23'000;
  work.free_bytes = 22'000;
  for (const char* test : {"memory", "transfer", "host-to-device", "device-to-host", "product"}) {
    work.self_tests.push_back({test, true});
  }
  for (const char* pattern : {"address", "walking-one", "walking-zero", "random"}) {
    work.memory.push_back({pattern, 5'000, 0, 0, "", "", "", 0.1, 0.1});
  }
  for (const char* operation :
       {"read", "write", "copy", "memcpy", "host-to-device", "device-to-host"}) {
    work.transfers.push_back({operation, 1'000, 10, 100, 110, 0});
  }
  GpuProduct product;
  product.size = 4096;
  product.type = "bfloat16";
  product.products = 10;
  product.operations_per_second = 1'000;
  product.checked_elements = 160;
  product.host_checked_elements = 64;
  work.product = product;
  GpuState state;
  state.pcie_generation = 4;
  state.pcie_width = 16;
  state.clocks_event_reasons = 4;  // the power cap: usual under load
  state.temperature_celsius = 60;
  state.power_watts = 70;
  work.during_copies = state;
  work.during_products = state;
  work.seconds = 10;
  return work;
}

/// Every rank on a host of its own with `gpus` of them, all good.
inline Observations GoodGpuRun(int ranks, int gpus = 1) {
  RankRun run;
  run.size = ranks;
  run.launcher = "local";
  for (int rank = 0; rank < ranks; ++rank) {
    GpuNode node;
    std::vector<GpuDeviceFile> files = {{"/dev/nvidiactl", std::nullopt, true, ""}};
    std::vector<NvmlGpu> nvml;
    std::vector<CudaGpu> cuda;
    GpuCompute compute;
    compute.visible = gpus;
    for (int i = 0; i < gpus; ++i) {
      const int number = rank * gpus + i;
      files.push_back({"/dev/nvidia" + std::to_string(i), i, true, ""});
      nvml.push_back(GoodNvmlGpu(i, number));
      cuda.push_back(GoodCudaGpu(i, number));
      compute.gpus.push_back(GoodWork(i, number));
    }
    node.device_files = files;
    node.cuda_visible_devices.expected = gpus;
    node.kernel_module = std::string("580.95.05");
    node.nvml.library = LoadedLibrary{"/usr/lib/libnvidia-ml.so.580.95.05", "13.580.95.05", ""};
    node.nvml.driver_version = std::string("580.95.05");
    node.nvml.counted = gpus;
    node.nvml.gpus = nvml;
    node.cuda.library = LoadedLibrary{"/usr/lib/libcuda.so.580.95.05", "580.95.05", ""};
    node.cuda.mapped = {"/usr/lib/libcuda.so.580.95.05"};
    node.cuda.driver_version = 13'000;
    node.cuda.gpus = cuda;
    node.cuda.image_runtime = LoadedLibrary{"/opt/venv/libcudart.so.13", "13000", ""};
    RankObservations seen;
    seen.facts.rank = rank;
    seen.facts.host = "pod-" + std::to_string(rank);
    seen.gpu_node = {{"gpu-node", {}, node}, {"gpu-after", {}, node}};
    seen.gpu_compute = {{"gpu-compute", {}, compute}};
    run.ranks.push_back({rank, seen});
  }
  Observations o;
  o.run.stages = {Stage::kGpu};
  o.gpu_ranks = std::move(run);
  return o;
}

inline RankObservations& GpuRankAt(Observations& o, int rank) {
  return o.gpu_ranks.value().ranks[static_cast<std::size_t>(rank)].seen.value();
}
inline GpuNode& GpuNodeAt(Observations& o, int rank) {
  return GpuRankAt(o, rank).gpu_node[0].seen.value();
}
inline GpuNode& GpuAfterAt(Observations& o, int rank) {
  return GpuRankAt(o, rank).gpu_node[1].seen.value();
}
inline NvmlGpu& NvmlAt(Observations& o, int rank, int index = 0) {
  return GpuNodeAt(o, rank).nvml.gpus.value()[static_cast<std::size_t>(index)];
}
inline NvmlGpu& NvmlAfterAt(Observations& o, int rank, int index = 0) {
  return GpuAfterAt(o, rank).nvml.gpus.value()[static_cast<std::size_t>(index)];
}
inline CudaGpu& CudaAt(Observations& o, int rank, int index = 0) {
  return GpuNodeAt(o, rank).cuda.gpus.value()[static_cast<std::size_t>(index)];
}
inline GpuWork& WorkAt(Observations& o, int rank, int index = 0) {
  return GpuRankAt(o, rank).gpu_compute[0].seen.value().gpus[static_cast<std::size_t>(index)];
}

/// Of one check, by id.
inline std::vector<Finding> JudgeGpu(const char* check, const Observations& o,
                                     const Policy& policy = {}) {
  const Check* found = FindCheck(check);
  REQUIRE(found != nullptr);
  return found->judge(o, policy);
}

inline bool Mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Every required finding that is neither pass nor not applicable.
inline std::string Trouble(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    if (finding.verdict == Verdict::kFail || finding.verdict == Verdict::kUnknown) {
      text += finding.rule + ": " + finding.reason.message + "\n";
    }
  }
  return text;
}

/// CUDA lists nothing, and says `code`.
inline void BreakCuda(GpuNode& node, int code, const std::string& name = "CUDA_ERROR") {
  node.cuda.failure = {code, name, "cuInit", "text", "what it means"};
  node.cuda.gpus = Error{ErrorCode::kUnavailable, "cuInit: " + name, ""};
}

}  // namespace dlc::testing
