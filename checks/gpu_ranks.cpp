#include "checks/gpu_ranks.h"

#include <algorithm>
#include <utility>

#include "checks/claimed_devices.h"
#include "checks/pod_resources.h"
#include "checks/ray_cluster_view.h"
#include "probes/observations/why_unseen.h"

namespace dlc {
namespace {

constexpr int kCudaNoDevice = 100;
constexpr int kCudaInvalidDevice = 101;

/// The last step of the kind, if the plan had several.
Observed<GpuNode> LastLook(const RankReport& report) {
  const RankObservations* seen = report.seen.get();
  if (seen == nullptr || seen->gpu_node.size() < 2) {
    return NotLookedAt{
        seen != nullptr && seen->interrupted ? "the run was interrupted" : "nobody looked again",
        ""};
  }
  return seen->gpu_node.back().seen;
}

/// Anything that the container runtime puts into a container with GPUs.
bool HasSignOfGpu(const GpuNode& node) {
  const auto* files = node.device_files.get();
  const bool file =
      files != nullptr && std::any_of(files->begin(), files->end(),
                                      [](const GpuDeviceFile& f) { return f.number.has_value(); });
  return file || (node.nvml.counted.seen() && node.nvml.counted.value() > 0);
}

void AddReason(std::string& text, const std::string& reason) {
  text += (text.empty() ? "" : "; ") + reason;
}

void AddDeviceFiles(const GpuNode& node, std::string& text) {
  if (!node.device_files.seen()) {
    AddReason(text, WhyUnseen(node.device_files));
    return;
  }
  bool numbered = false;
  for (const GpuDeviceFile& file : node.device_files.value()) {
    numbered = numbered || file.number.has_value();
    if (file.number && !file.usable) {
      AddReason(text, file.path + " does not open: " + file.error);
    }
  }
  if (!numbered) {
    AddReason(text, "there is no /dev/nvidia0 nor any other GPU's device file");
  }
}

std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ' ' || c == '-' || c == '_') {
      words.emplace_back();
    } else {
      words.back() += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
  }
  return words;
}

bool IsSliceOf(const std::string& slice, const std::string& cuda_uuid) {
  return slice == cuda_uuid || (cuda_uuid.starts_with("GPU-") && slice.starts_with("MIG-") &&
                                slice.substr(4) == cuda_uuid.substr(4));
}

bool DemandsGpuRanks(const GpuPolicy& gpu) {
  return gpu.devices == "required" || !gpu.model.empty() || gpu.min_memory_bytes > 0 ||
         !gpu.min_driver.empty() || gpu.min_copy_bytes_per_second > 0 ||
         gpu.min_host_copy_bytes_per_second > 0 || gpu.min_product_operations_per_second > 0 ||
         gpu.peer_access == "required" || gpu.min_nvlinks > 0;
}

}  // namespace

std::vector<GpuRankView> GpuRanksOf(const Observations& observations, const Policy& policy) {
  std::vector<GpuRankView> views;
  const RankRun* run = observations.gpu_ranks.get();
  if (run == nullptr) {
    return views;
  }
  const ClaimedCluster claimed(observations.cluster, policy);
  const auto clusters = claimed.Views();
  auto nodes = ResultsOf(*run, &RankObservations::gpu_node);
  auto computes = ResultsOf(*run, &RankObservations::gpu_compute);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const RankReport& report = run->ranks[i];
    GpuRankView view;
    view.rank = nodes[i].rank;
    view.name = std::move(nodes[i].name);
    view.host = report.seen.seen() ? report.seen.value().facts.host : "";
    view.node = std::move(nodes[i].seen);
    view.after = LastLook(report);
    view.compute = std::move(computes[i].seen);
    if (const RayUnit* unit = UnitOfHost(clusters, view.host);
        unit != nullptr && !IsLimitUnknown(*unit, policy.gpu.resource)) {
      view.allotted = AllottedGpuCount(*unit->spec, policy.gpu.resource);
    }
    views.push_back(std::move(view));
  }
  return views;
}

CudaUse CudaUseOf(const GpuNode& node) {
  if (node.cuda.gpus.seen()) {
    return node.cuda.gpus.value().empty() ? CudaUse::kNone : CudaUse::kShows;
  }
  const int code = node.cuda.failure.code;
  const bool hidden = code == kCudaInvalidDevice && !node.cuda_visible_devices.problem.empty();
  if (code == kCudaNoDevice || hidden) {
    return CudaUse::kNone;
  }
  return node.cuda.library.failed() && !HasSignOfGpu(node) ? CudaUse::kNone : CudaUse::kBroken;
}

std::vector<CudaGpu> ShownGpus(const GpuNode& node) {
  return node.cuda.gpus.seen() ? node.cuda.gpus.value() : std::vector<CudaGpu>();
}

std::vector<std::string> PermittedGpuUuids(const GpuNode& node) {
  std::vector<std::string> uuids;
  for (const NvmlGpu& gpu : node.nvml.gpus.value()) {
    if (const auto* slices = gpu.mig_devices.get()) {
      for (const GpuMigDevice& slice : *slices) {
        uuids.push_back(slice.uuid);
      }
    } else if (gpu.uuid.seen()) {
      uuids.push_back(gpu.uuid.value());
    }
  }
  return uuids;
}

const GpuMigDevice* FindMigDevice(const NvmlGpu& gpu, const std::string& cuda_uuid) {
  const auto* slices = gpu.mig_devices.get();
  if (slices == nullptr) {
    return nullptr;
  }
  const auto it = std::find_if(slices->begin(), slices->end(), [&](const GpuMigDevice& slice) {
    return IsSliceOf(slice.uuid, cuda_uuid);
  });
  return it == slices->end() ? nullptr : &*it;
}

const NvmlGpu* FindNvmlGpu(const GpuNode& node, const std::string& cuda_uuid) {
  const auto* gpus = node.nvml.gpus.get();
  if (gpus == nullptr) {
    return nullptr;
  }
  const auto it = std::find_if(gpus->begin(), gpus->end(), [&](const NvmlGpu& gpu) {
    return (gpu.uuid.seen() && gpu.uuid.value() == cuda_uuid) ||
           FindMigDevice(gpu, cuda_uuid) != nullptr;
  });
  return it == gpus->end() ? nullptr : &*it;
}

Subject GpuSubject(const GpuRankView& rank, const std::string& uuid) {
  return {"gpu", (uuid.empty() ? "a GPU" : uuid) + " of " + rank.name};
}

std::string FailureText(const CudaFailure& failure) {
  return failure.call + ": " + failure.name + " (" + std::to_string(failure.code) + ")" +
         (failure.text.empty() ? "" : ": " + failure.text);
}

std::string WhyNoGpu(const GpuNode& node) {
  std::string text;
  AddDeviceFiles(node, text);
  if (node.cuda.library.failed()) {
    AddReason(text, node.cuda.library.error().message);
  } else if (node.cuda.failure.code != 0) {
    AddReason(text, FailureText(node.cuda.failure));
  }
  if (node.nvml.library.failed()) {
    AddReason(text, node.nvml.library.error().message);
  } else if (node.nvml.gpus.seen()) {
    AddReason(text, "NVML lets this process use " + std::to_string(PermittedGpuUuids(node).size()));
  }
  const CudaVisibleDevices& visible = node.cuda_visible_devices;
  if (!visible.problem.empty()) {
    AddReason(text, "CUDA_VISIBLE_DEVICES='" + visible.variable.value + "': " + visible.problem);
  }
  if (node.nvidia_visible_devices.set) {
    AddReason(text, "NVIDIA_VISIBLE_DEVICES='" + node.nvidia_visible_devices.value + "'");
  }
  return text;
}

bool IsOfModel(std::string_view gpu_name, std::string_view model) {
  const auto name = Words(gpu_name);
  const auto wanted = Words(model);
  return std::search(name.begin(), name.end(), wanted.begin(), wanted.end()) != name.end();
}

bool JudgeWithoutGpu(const GpuRankView& rank, std::string_view rule, std::string_view what,
                     Judge& judge) {
  if (!rank.node.seen()) {
    judge.Unseen(rule, rank.RankSubject(), std::string(what), rank.node);
    return true;
  }
  if (rank.allotted == 0 && CudaUseOf(rank.node.value()) == CudaUse::kNone) {
    judge.NotApplicable(rule, rank.RankSubject(), "its pod asks for no GPU and is shown none");
    return true;
  }
  return false;
}

bool JudgeWithoutGpuRanks(const Observations& observations, const Policy& policy,
                          std::string_view rule, std::string_view what, Judge& judge) {
  const Observed<RankRun>& ranks = observations.gpu_ranks;
  if (policy.gpu.devices == "no") {
    judge.NotApplicable(rule, {"run", "ranks"}, "the policy asks for no GPU (gpu.devices: no)");
    return true;
  }
  return JudgeWithoutRanks(observations, ranks, rule, what,
                           DemandsGpuRanks(policy.gpu) ? "" : kNothingDemanded, judge);
}

}  // namespace dlc
