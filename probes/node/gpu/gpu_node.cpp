#include "probes/node/gpu/gpu_node.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "probes/node/gpu/cuda_view.h"
#include "probes/node/gpu/nvml_view.h"
#include "probes/node/gpu/visible_devices.h"
#include "probes/node/unique_fd.h"

namespace dlc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "nvidia";

EnvironmentText ReadVariable(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody here changes the environment while threads run
  const char* value = std::getenv(name);
  return value == nullptr ? EnvironmentText{} : EnvironmentText{true, value};
}

std::optional<int> NumberAfterPrefix(const std::string& name) {
  const std::string digits = name.substr(kPrefix.size());
  const bool number = !digits.empty() && digits.size() < 6 &&
                      digits.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::optional<int>(std::stoi(digits)) : std::nullopt;
}

bool IsControlFile(const std::string& name) {
  return name == "nvidiactl" || name == "nvidia-uvm";
}

Observed<std::vector<GpuDeviceFile>> ReadDeviceFiles(const fs::path& root) {
  std::error_code failed;
  std::vector<GpuDeviceFile> files;
  fs::directory_iterator at(root / "dev", failed);
  for (const fs::directory_iterator end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (name.compare(0, kPrefix.size(), kPrefix) != 0 ||
        !(NumberAfterPrefix(name) || IsControlFile(name))) {
      continue;
    }
    GpuDeviceFile file{"/dev/" + name, NumberAfterPrefix(name), false, ""};
    // The device cgroup of a container refuses at open.
    const UniqueFd opened(open(at->path().c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    file.usable = static_cast<bool>(opened);
    if (!file.usable) {
      const char* error = strerrorname_np(errno);
      file.error = error == nullptr ? "unknown" : error;
    }
    files.push_back(std::move(file));
  }
  if (failed) {
    return Error{ErrorCode::kUnavailable,
                 "cannot list " + (root / "dev").string() + ": " + failed.message(), ""};
  }
  std::sort(files.begin(), files.end(), [](const GpuDeviceFile& a, const GpuDeviceFile& b) {
    return a.path.size() != b.path.size() ? a.path.size() < b.path.size() : a.path < b.path;
  });
  return files;
}

bool IsVersion(const std::string& word) {
  return word.find('.') != std::string::npos &&
         word.find_first_not_of("0123456789.") == std::string::npos;
}

Observed<std::string> ReadKernelModule(const fs::path& root) {
  const fs::path path = root / "proc/driver/nvidia/version";
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) {
    return Error{ErrorCode::kNotFound, "cannot read " + path.string(),
                 "no NVIDIA kernel module is loaded on this node"};
  }
  // "NVRM version: NVIDIA UNIX [Open] [x86_64] Kernel Module [for x86_64]  580.95.05  ..."
  std::size_t from = 0;
  while (from < line.size()) {
    const std::size_t end = std::min(line.find_first_of(" \t", from), line.size());
    if (std::string word = line.substr(from, end - from); IsVersion(word)) {
      return word;
    }
    from = end + 1;
  }
  return Error{ErrorCode::kUnsupported, path.string() + " names no version: " + line, ""};
}

/// Of the GPUs that CUDA may pick from; nullopt when they are not known one by one, as with MIG.
std::optional<std::vector<std::string>> PermittedUuids(const NvmlView& nvml) {
  const auto* gpus = nvml.gpus.get();
  if (gpus == nullptr) {
    return std::nullopt;
  }
  std::vector<std::string> uuids;
  for (const NvmlGpu& gpu : *gpus) {
    if (gpu.mig.seen() && gpu.mig.value().enabled) {
      return std::nullopt;
    }
    if (gpu.uuid.seen()) {
      uuids.push_back(gpu.uuid.value());
    }
  }
  return uuids;
}

/// CUDA tells the bytes of a slice's uuid, and not that it is one.
void NameMigSlices(const NvmlView& nvml, CudaView& cuda) {
  if (!nvml.gpus.seen() || !cuda.gpus.seen()) {
    return;
  }
  for (CudaGpu& seen : cuda.gpus.value()) {
    const std::string slice = "MIG-" + seen.uuid.substr(4);
    for (const NvmlGpu& gpu : nvml.gpus.value()) {
      const auto* slices = gpu.mig_devices.get();
      const auto is_it = [&](const GpuMigDevice& device) { return device.uuid == slice; };
      if (slices != nullptr && std::any_of(slices->begin(), slices->end(), is_it)) {
        seen.uuid = slice;
      }
    }
  }
}

}  // namespace

GpuNode ObserveGpuNode(const std::string& root) {
  GpuNode node;
  node.device_files = ReadDeviceFiles(root);
  node.nvidia_visible_devices = ReadVariable("NVIDIA_VISIBLE_DEVICES");
  node.cuda_device_order = ReadVariable("CUDA_DEVICE_ORDER");
  node.ld_library_path = ReadVariable("LD_LIBRARY_PATH");
  node.kernel_module = ReadKernelModule(root);
  node.nvml = ObserveNvml();
  node.cuda_visible_devices =
      ParseCudaVisibleDevices(ReadVariable("CUDA_VISIBLE_DEVICES"), PermittedUuids(node.nvml));
  node.cuda = ObserveCudaView(root);
  NameMigSlices(node.nvml, node.cuda);
  return node;
}

}  // namespace dlc
