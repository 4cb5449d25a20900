#include "probes/node/gpu/nvml_view.h"

#include <array>
#include <utility>
#include <vector>

#include "probes/node/gpu/nvml_gpu.h"

namespace dlc {
namespace {

/// `why` for all that needs a library that works.
void NothingSeen(const Error& why, NvmlView& to) {
  to.driver_version = why;
  to.cuda_version = why;
  to.counted = why;
  to.gpus = why;
  to.peers = NotLookedAt{"NVML did not work", ""};
}

void ReadVersions(const Nvml& nvml, NvmlView& to) {
  std::array<char, nvml::kTextBytes> text{};
  const auto driver =
      nvml.Call("nvmlSystemGetDriverVersion", text.data(), static_cast<unsigned>(text.size()));
  text.back() = '\0';
  to.driver_version = driver ? Observed<std::string>(std::string(text.data()))
                             : Observed<std::string>(driver.error());
  int cuda = 0;
  const auto read = nvml.Call("nvmlSystemGetCudaDriverVersion_v2", &cuda);
  to.cuda_version = read ? Observed<int>(cuda) : Observed<int>(read.error());
}

void ReadGpus(const Nvml& nvml, unsigned count, NvmlView& to) {
  std::vector<NvmlGpu> gpus;
  std::vector<std::pair<int, nvml::Device>> usable;
  for (unsigned i = 0; i < count; ++i) {
    nvml::Device device = nullptr;
    if (const auto handle = nvml.Call("nvmlDeviceGetHandleByIndex_v2", i, &device); !handle) {
      NvmlGpu gpu;
      gpu.index = static_cast<int>(i);
      gpu.uuid = handle.error();  // says why; the rest was not looked at
      gpus.push_back(std::move(gpu));
      continue;
    }
    gpus.push_back(ReadNvmlGpu(nvml, i, device));
    usable.emplace_back(static_cast<int>(i), device);
  }
  to.gpus = std::move(gpus);
  std::vector<GpuPeer> peers;
  for (std::size_t i = 0; i < usable.size(); ++i) {
    for (std::size_t j = i + 1; j < usable.size(); ++j) {
      GpuPeer peer = ReadGpuPeer(nvml, usable[i].second, usable[j].second);
      peer.a = usable[i].first;
      peer.b = usable[j].first;
      peers.push_back(std::move(peer));
    }
  }
  to.peers = std::move(peers);
}

}  // namespace

NvmlView ObserveNvml() {
  NvmlView view;
  const auto nvml = Nvml::Open();
  if (!nvml) {
    view.library = nvml.error();
    NothingSeen(nvml.error(), view);
    return view;
  }
  const auto ready = nvml->Initialize(view.failure_code);
  view.library = nvml->Describe();
  if (!ready) {
    NothingSeen(ready.error(), view);
    return view;
  }
  ReadVersions(*nvml, view);
  unsigned count = 0;
  if (const auto counted = nvml->Call("nvmlDeviceGetCount_v2", &count); !counted) {
    view.counted = counted.error();
    view.gpus = counted.error();
    view.peers = NotLookedAt{"NVML did not count GPUs", ""};
    return view;
  }
  view.counted = static_cast<int>(count);
  ReadGpus(*nvml, count, view);
  return view;
}

}  // namespace dlc
