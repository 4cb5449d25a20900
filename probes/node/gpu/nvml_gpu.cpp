#include "probes/node/gpu/nvml_gpu.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "probes/observations/digest.h"

namespace dlc {
namespace {

/// nvmlDeviceGet...(device, unsigned*) and its like.
template <class Raw>
Result<Raw> ReadOne(const Nvml& nvml, const char* name, nvml::Device device) {
  Raw value{};
  const auto read = nvml.Call(name, device, &value);
  return read ? Result<Raw>(value) : Result<Raw>(read.error());
}

template <class T, class Raw>
Observed<T> As(const Result<Raw>& raw) {
  return raw ? Observed<T>(static_cast<T>(*raw)) : Observed<T>(raw.error());
}

Observed<int> ReadInt(const Nvml& nvml, const char* name, nvml::Device device) {
  return As<int>(ReadOne<unsigned>(nvml, name, device));
}

Observed<std::string> ReadText(const Nvml& nvml, const char* name, nvml::Device device) {
  std::array<char, nvml::kTextBytes> text{};
  const auto read = nvml.Call(name, device, text.data(), nvml::kTextBytes);
  text.back() = '\0';
  return read ? Observed<std::string>(std::string(text.data()))
              : Observed<std::string>(read.error());
}

Observed<std::string> ReadPciAddress(const Nvml& nvml, nvml::Device device) {
  auto info = ReadOne<nvml::PciInfo>(nvml, "nvmlDeviceGetPciInfo_v3", device);
  if (!info) {
    return info.error();
  }
  info->bus_id[sizeof info->bus_id - 1] = '\0';
  return std::string(static_cast<const char*>(info->bus_id));
}

Observed<std::string> ReadCapability(const Nvml& nvml, nvml::Device device) {
  int major = 0;
  int minor = 0;
  const auto read = nvml.Call("nvmlDeviceGetCudaComputeCapability", device, &major, &minor);
  if (!read) {
    return read.error();
  }
  return std::to_string(major) + "." + std::to_string(minor);
}

Observed<GpuMemory> ReadMemory(const Nvml& nvml, nvml::Device device) {
  const auto memory = ReadOne<nvml::Memory>(nvml, "nvmlDeviceGetMemoryInfo", device);
  if (!memory) {
    return memory.error();
  }
  return GpuMemory{static_cast<std::int64_t>(memory->total),
                   static_cast<std::int64_t>(memory->used)};
}

Observed<GpuMigMode> ReadMigMode(const Nvml& nvml, nvml::Device device) {
  unsigned current = 0;
  unsigned pending = 0;
  const auto read = nvml.Call("nvmlDeviceGetMigMode", device, &current, &pending);
  return read ? Observed<GpuMigMode>(GpuMigMode{current == 1, pending == 1})
              : Observed<GpuMigMode>(read.error());
}

Observed<std::vector<GpuMigDevice>> ReadMigDevices(const Nvml& nvml, nvml::Device device) {
  const auto most = ReadOne<unsigned>(nvml, "nvmlDeviceGetMaxMigDeviceCount", device);
  if (!most) {
    return most.error();
  }
  std::vector<GpuMigDevice> found;
  for (unsigned i = 0; i < *most; ++i) {
    nvml::Device slice = nullptr;
    if (nvml.Call("nvmlDeviceGetMigDeviceHandleByIndex", device, i, &slice)) {
      const auto uuid = ReadText(nvml, "nvmlDeviceGetUUID", slice);
      found.push_back({uuid.seen() ? uuid.value() : "", ReadText(nvml, "nvmlDeviceGetName", slice),
                       ReadMemory(nvml, slice)});
    }
  }
  return found;
}

Observed<std::string> ReadComputeMode(const Nvml& nvml, nvml::Device device) {
  const auto mode = ReadOne<int>(nvml, "nvmlDeviceGetComputeMode", device);
  if (!mode) {
    return mode.error();
  }
  constexpr std::array<const char*, 4> kNames = {"default", "exclusive-thread", "prohibited",
                                                 "exclusive-process"};
  return *mode >= 0 && *mode < 4 ? std::string(kNames[static_cast<std::size_t>(*mode)])
                                 : "mode " + std::to_string(*mode);
}

Observed<GpuEcc> ReadEcc(const Nvml& nvml, nvml::Device device) {
  int current = 0;
  int pending = 0;
  if (const auto read = nvml.Call("nvmlDeviceGetEccMode", device, &current, &pending); !read) {
    return read.error();
  }
  GpuEcc ecc;
  ecc.enabled = current == 1;
  if (!ecc.enabled) {
    return ecc;  // no counters then
  }
  const auto count = [&](int type, int since, std::int64_t& out) -> Result<void> {
    unsigned long long value = 0;
    auto read = nvml.Call("nvmlDeviceGetTotalEccErrors", device, type, since, &value);
    out = static_cast<std::int64_t>(value);
    return read;
  };
  for (const auto& read :
       {count(nvml::kEccCorrected, nvml::kEccVolatile, ecc.volatile_corrected),
        count(nvml::kEccUncorrected, nvml::kEccVolatile, ecc.volatile_uncorrected),
        count(nvml::kEccCorrected, nvml::kEccAggregate, ecc.aggregate_corrected),
        count(nvml::kEccUncorrected, nvml::kEccAggregate, ecc.aggregate_uncorrected)}) {
    if (!read) {
      return read.error();
    }
  }
  return ecc;
}

Observed<GpuRemappedRows> ReadRemappedRows(const Nvml& nvml, nvml::Device device) {
  unsigned correctable = 0;
  unsigned uncorrectable = 0;
  unsigned pending = 0;
  unsigned failed = 0;
  const auto read = nvml.Call("nvmlDeviceGetRemappedRows", device, &correctable, &uncorrectable,
                              &pending, &failed);
  if (!read) {
    return read.error();
  }
  return GpuRemappedRows{static_cast<int>(correctable), static_cast<int>(uncorrectable),
                         pending != 0, failed != 0};
}

Observed<GpuRetiredPages> ReadRetiredPages(const Nvml& nvml, nvml::Device device) {
  GpuRetiredPages pages;
  const auto count = [&](int cause, int& out) -> Result<void> {
    unsigned number = 0;
    unsigned long long* addresses = nullptr;
    auto read = nvml.Call("nvmlDeviceGetRetiredPages", device, cause, &number, addresses);
    out = static_cast<int>(number);
    return read;
  };
  int pending = 0;
  for (const auto& read : {count(nvml::kRetiredSingleBit, pages.single_bit),
                           count(nvml::kRetiredDoubleBit, pages.double_bit),
                           nvml.Call("nvmlDeviceGetRetiredPagesPendingStatus", device, &pending)}) {
    if (!read) {
      return read.error();
    }
  }
  pages.pending = pending == 1;
  return pages;
}

Observed<std::vector<GpuNvLink>> ReadNvLinks(const Nvml& nvml, nvml::Device device) {
  std::vector<GpuNvLink> links;
  constexpr const char* kCall = "nvmlDeviceGetNvLinkState";
  for (unsigned link = 0; link < nvml::kMaxNvLinks; ++link) {
    int active = 0;
    if (const auto read = nvml.Call(kCall, device, link, &active); !read) {
      const int code = nvml.Code(kCall, device, link, &active);  // which the error does not keep
      if (code == nvml::kInvalidArgument || (code == nvml::kNotSupported && link > 0)) {
        break;  // this GPU has fewer
      }
      return read.error();
    }
    links.push_back({static_cast<int>(link), active == 1});
  }
  return links;
}

Observed<GpuFabricState> ReadFabric(const Nvml& nvml, nvml::Device device) {
  nvml::FabricInfo info{};
  info.version = nvml::kFabricInfoVersion;
  if (const auto read = nvml.Call("nvmlDeviceGetGpuFabricInfoV", device, &info); !read) {
    return read.error();
  }
  constexpr std::array<const char*, 4> kStates = {"not-supported", "not-started", "in-progress",
                                                  "completed"};
  return GpuFabricState{
      info.state < 4 ? kStates[info.state] : "state " + std::to_string(int{info.state}),
      info.status, std::int64_t{info.health_mask}, HexText(info.cluster_uuid),
      std::int64_t{info.clique}};
}

Observed<std::int64_t> ReadClockHz(const Nvml& nvml, const char* name, nvml::Device device,
                                   int clock) {
  unsigned megahertz = 0;
  const auto read = nvml.Call(name, device, clock, &megahertz);
  return read ? Observed<std::int64_t>(std::int64_t{megahertz} * 1'000'000)
              : Observed<std::int64_t>(read.error());
}

Observed<double> ReadWatts(const Nvml& nvml, const char* name, nvml::Device device) {
  const auto milliwatts = ReadOne<unsigned>(nvml, name, device);
  return milliwatts ? Observed<double>(*milliwatts / 1e3) : Observed<double>(milliwatts.error());
}

Observed<std::int64_t> ReadEventReasons(const Nvml& nvml, nvml::Device device) {
  auto reasons =
      ReadOne<unsigned long long>(nvml, "nvmlDeviceGetCurrentClocksEventReasons", device);
  if (!reasons && reasons.error().code == ErrorCode::kNotFound) {  // its name before R535
    reasons =
        ReadOne<unsigned long long>(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", device);
  }
  return As<std::int64_t>(reasons);
}

Observed<std::string> ReadPeerStatus(const Nvml& nvml, nvml::Device a, nvml::Device b, int what) {
  int status = 0;
  if (const auto read = nvml.Call("nvmlDeviceGetP2PStatus", a, b, what, &status); !read) {
    return read.error();
  }
  constexpr std::array<const char*, 7> kNames = {"ok",
                                                 "chipset-not-supported",
                                                 "gpu-not-supported",
                                                 "topology-not-supported",
                                                 "disabled",
                                                 "not-supported",
                                                 "unknown"};
  return status >= 0 && status < 7 ? std::string(kNames[static_cast<std::size_t>(status)])
                                   : "status " + std::to_string(status);
}

Observed<std::string> ReadPath(const Nvml& nvml, nvml::Device a, nvml::Device b) {
  int level = 0;
  if (const auto read = nvml.Call("nvmlDeviceGetTopologyCommonAncestor", a, b, &level); !read) {
    return read.error();
  }
  switch (level) {
    case 0:
      return std::string("internal");
    case 10:
      return std::string("single-switch");
    case 20:
      return std::string("multiple-switches");
    case 30:
      return std::string("host-bridge");
    case 40:
      return std::string("node");
    case 50:
      return std::string("system");
    default:
      return "level " + std::to_string(level);
  }
}

}  // namespace

GpuState ReadGpuState(const Nvml& nvml, nvml::Device device) {
  GpuState state;
  state.pcie_generation = ReadInt(nvml, "nvmlDeviceGetCurrPcieLinkGeneration", device);
  state.pcie_width = ReadInt(nvml, "nvmlDeviceGetCurrPcieLinkWidth", device);
  state.clocks_event_reasons = ReadEventReasons(nvml, device);
  unsigned celsius = 0;
  const auto read = nvml.Call("nvmlDeviceGetTemperature", device, nvml::kTemperatureGpu, &celsius);
  state.temperature_celsius =
      read ? Observed<int>(static_cast<int>(celsius)) : Observed<int>(read.error());
  state.power_watts = ReadWatts(nvml, "nvmlDeviceGetPowerUsage", device);
  state.sm_clock_hz = ReadClockHz(nvml, "nvmlDeviceGetClockInfo", device, nvml::kClockSm);
  state.memory_clock_hz = ReadClockHz(nvml, "nvmlDeviceGetClockInfo", device, nvml::kClockMemory);
  return state;
}

Observed<std::vector<GpuProcess>> ReadGpuProcesses(const Nvml& nvml, nvml::Device device) {
  constexpr unsigned kMost = 256;
  // Twice the room: some R530 drivers write longer entries.
  std::vector<nvml::ProcessInfo> infos(2 * std::size_t{kMost});
  unsigned count = kMost;
  const auto read =
      nvml.Call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, infos.data());
  if (!read) {
    return read.error();
  }
  std::vector<GpuProcess> processes;
  for (unsigned i = 0; i < std::min(count, kMost); ++i) {
    GpuProcess process{std::int64_t{infos[i].pid}, {}};
    if (infos[i].used_memory != ~0ULL) {
      process.used_bytes = static_cast<std::int64_t>(infos[i].used_memory);
    }
    processes.push_back(process);
  }
  return processes;
}

GpuPeer ReadGpuPeer(const Nvml& nvml, nvml::Device a, nvml::Device b) {
  GpuPeer peer;
  peer.read = ReadPeerStatus(nvml, a, b, nvml::kPeerRead);
  peer.write = ReadPeerStatus(nvml, a, b, nvml::kPeerWrite);
  peer.nvlink = ReadPeerStatus(nvml, a, b, nvml::kPeerNvLink);
  peer.path = ReadPath(nvml, a, b);
  return peer;
}

NvmlGpu ReadNvmlGpu(const Nvml& nvml, unsigned index, nvml::Device device) {
  NvmlGpu gpu;
  gpu.index = static_cast<int>(index);
  gpu.uuid = ReadText(nvml, "nvmlDeviceGetUUID", device);
  gpu.name = ReadText(nvml, "nvmlDeviceGetName", device);
  gpu.pci_address = ReadPciAddress(nvml, device);
  gpu.minor_number = ReadInt(nvml, "nvmlDeviceGetMinorNumber", device);
  gpu.compute_capability = ReadCapability(nvml, device);
  gpu.memory = ReadMemory(nvml, device);
  gpu.mig = ReadMigMode(nvml, device);
  gpu.mig_devices = gpu.mig.seen() && gpu.mig.value().enabled
                        ? ReadMigDevices(nvml, device)
                        : Observed<std::vector<GpuMigDevice>>(NotLookedAt{"MIG is not on", ""});
  gpu.compute_mode = ReadComputeMode(nvml, device);
  gpu.persistence = As<bool>(ReadOne<int>(nvml, "nvmlDeviceGetPersistenceMode", device));
  gpu.ecc = ReadEcc(nvml, device);
  gpu.remapped_rows = ReadRemappedRows(nvml, device);
  gpu.retired_pages = ReadRetiredPages(nvml, device);
  gpu.power_limit_watts = ReadWatts(nvml, "nvmlDeviceGetEnforcedPowerLimit", device);
  gpu.max_sm_clock_hz = ReadClockHz(nvml, "nvmlDeviceGetMaxClockInfo", device, nvml::kClockSm);
  gpu.max_pcie_generation = ReadInt(nvml, "nvmlDeviceGetMaxPcieLinkGeneration", device);
  gpu.max_pcie_width = ReadInt(nvml, "nvmlDeviceGetMaxPcieLinkWidth", device);
  gpu.state = ReadGpuState(nvml, device);
  const auto used = ReadOne<nvml::Utilization>(nvml, "nvmlDeviceGetUtilizationRates", device);
  gpu.utilization_percent =
      used ? Observed<int>(static_cast<int>(used->gpu)) : Observed<int>(used.error());
  gpu.nvlinks = ReadNvLinks(nvml, device);
  gpu.fabric = ReadFabric(nvml, device);
  gpu.processes = ReadGpuProcesses(nvml, device);
  return gpu;
}

Result<nvml::Device> FindNvmlDevice(const Nvml& nvml, const std::string& uuid) {
  nvml::Device device = nullptr;
  const auto found = nvml.Call("nvmlDeviceGetHandleByUUID", uuid.c_str(), &device);
  return found ? Result<nvml::Device>(device) : Result<nvml::Device>(found.error());
}

}  // namespace dlc
