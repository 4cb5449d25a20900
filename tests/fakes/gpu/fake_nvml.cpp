// libnvidia-ml.so.1 for nodes that we do not have.
#include <cstdio>
#include <cstring>
#include <string>

#include "probes/node/gpu/nvml_abi.h"
#include "tests/fakes/gpu/fake_node.h"

namespace {

namespace nvml = dlc::nvml;

constexpr unsigned kSlice = 0x1000;  // added to the index of a GPU: the slice on it

/// Handles are the address of an element, so that a wrong one is seen.
char handles[2 * kSlice];

nvml::Device HandleOf(unsigned index) {
  return &handles[index];
}

int IndexOf(nvml::Device device) {
  return static_cast<int>((static_cast<char*>(device) - handles) % kSlice);
}

bool IsSlice(nvml::Device device) {
  return static_cast<char*>(device) - handles >= static_cast<long>(kSlice);
}

int Put(const std::string& text, char* out, unsigned size) {
  if (text.size() + 1 > size) {
    return nvml::kInsufficientSize;
  }
  std::memcpy(out, text.c_str(), text.size() + 1);
  return 0;
}

/// The lost GPU answers nothing but its name and uuid.
int Alive(nvml::Device device) {
  return fake::Is("lost", IndexOf(device)) ? nvml::kGpuIsLost : 0;
}

template <class T>
int Give(nvml::Device device, T* out, T value) {
  const int code = Alive(device);
  if (code == 0) {
    *out = value;
  }
  return code;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return fake::Number("init", 0);
}

const char* nvmlErrorString(int code) {
  switch (code) {
    case nvml::kGpuIsLost:
      return "GPU is lost";
    case nvml::kNoPermission:
      return "Insufficient Permissions";
    case nvml::kNotSupported:
      return "Not Supported";
    case nvml::kLibRmVersionMismatch:
      return "Driver/library version mismatch";
    default:
      return "Unknown Error";
  }
}

int nvmlSystemGetDriverVersion(char* out, unsigned size) {
  return Put(fake::Setting("driver", "580.95.05"), out, size);
}
int nvmlSystemGetNVMLVersion(char* out, unsigned size) {
  return Put("13.580.95.05", out, size);
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(fake::Number("gpus", 1));
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml::Device* device) {
  if (fake::Is("forbidden", static_cast<int>(index))) {
    return nvml::kNoPermission;
  }
  *device = HandleOf(index);
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, nvml::Device* device) {
  for (int i = 0; i < fake::Number("gpus", 1); ++i) {
    for (const bool slice : {false, true}) {
      if (fake::UuidText(i, slice) == uuid) {
        *device = HandleOf(static_cast<unsigned>(i) + (slice ? kSlice : 0));
        return 0;
      }
    }
  }
  return nvml::kNotFound;
}
int nvmlDeviceGetUUID(nvml::Device device, char* out, unsigned size) {
  return Put(fake::UuidText(IndexOf(device), IsSlice(device)), out, size);
}
int nvmlDeviceGetName(nvml::Device device, char* out, unsigned size) {
  return Put(fake::ModelOf(IndexOf(device)) + (IsSlice(device) ? " MIG 1g.5gb" : ""), out, size);
}
int nvmlDeviceGetPciInfo_v3(nvml::Device device, nvml::PciInfo* info) {
  *info = {};
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", 0x30 + IndexOf(device));
  return Alive(device);
}
int nvmlDeviceGetMinorNumber(nvml::Device device, unsigned* minor) {
  return Give(device, minor, static_cast<unsigned>(IndexOf(device)));
}
int nvmlDeviceGetCudaComputeCapability(nvml::Device device, int* major, int* minor) {
  *minor = 9;
  return Give(device, major, 8);
}
int nvmlDeviceGetMemoryInfo(nvml::Device device, nvml::Memory* memory) {
  const unsigned long long total = IsSlice(device) ? fake::kMemory / 8 : fake::kMemory;
  const unsigned long long used = fake::Is("busy", IndexOf(device)) ? total / 10 * 9 : total / 50;
  return Give(device, memory, {total, total - used, used});
}
int nvmlDeviceGetMigMode(nvml::Device device, unsigned* current, unsigned* pending) {
  if (fake::Number("mig", -1) < 0) {
    return nvml::kNotSupported;
  }
  *pending = *current = fake::Is("mig", IndexOf(device)) ? 1 : 0;
  return Alive(device);
}
int nvmlDeviceGetMaxMigDeviceCount(nvml::Device device, unsigned* count) {
  return Give(device, count, 7U);
}
int nvmlDeviceGetMigDeviceHandleByIndex(nvml::Device device, unsigned index, nvml::Device* slice) {
  if (index != 2) {
    return nvml::kNotFound;
  }
  *slice = HandleOf(static_cast<unsigned>(IndexOf(device)) + kSlice);
  return 0;
}
int nvmlDeviceGetComputeMode(nvml::Device device, int* mode) {
  return Give(device, mode, 0);
}
int nvmlDeviceGetPersistenceMode(nvml::Device device, int* mode) {
  return Give(device, mode, 1);
}
int nvmlDeviceGetEccMode(nvml::Device device, int* current, int* pending) {
  *pending = 1;
  return Give(device, current, 1);
}
int nvmlDeviceGetTotalEccErrors(nvml::Device device, int type, int since,
                                unsigned long long* count) {
  const bool bad = fake::Is("ecc", IndexOf(device)) && type == nvml::kEccUncorrected;
  return Give(device, count, bad ? 3ULL + static_cast<unsigned long long>(since) : 0ULL);
}
int nvmlDeviceGetRemappedRows(nvml::Device device, unsigned* correctable, unsigned* uncorrectable,
                              unsigned* pending, unsigned* failed) {
  *correctable = 0;
  *uncorrectable = *pending = fake::Is("pending", IndexOf(device)) ? 1 : 0;
  return Give(device, failed, 0U);
}
int nvmlDeviceGetRetiredPages(nvml::Device /*device*/, int /*cause*/, unsigned* /*count*/,
                              unsigned long long* /*addresses*/) {
  return nvml::kNotSupported;
}
int nvmlDeviceGetRetiredPagesPendingStatus(nvml::Device /*device*/, int* /*pending*/) {
  return nvml::kNotSupported;
}
int nvmlDeviceGetCurrentClocksEventReasons(nvml::Device device, unsigned long long* reasons) {
  return Give(device, reasons, 1ULL);
}
int nvmlDeviceGetTemperature(nvml::Device device, int sensor, unsigned* celsius) {
  return sensor == nvml::kTemperatureGpu ? Give(device, celsius, 31U) : 2;
}
int nvmlDeviceGetPowerUsage(nvml::Device device, unsigned* milliwatts) {
  return Give(device, milliwatts, 16'500U);
}
int nvmlDeviceGetEnforcedPowerLimit(nvml::Device device, unsigned* milliwatts) {
  return Give(device, milliwatts, 72'000U);
}
int nvmlDeviceGetClockInfo(nvml::Device device, int clock, unsigned* megahertz) {
  return Give(device, megahertz, clock == nvml::kClockSm ? 210U : 405U);
}
int nvmlDeviceGetMaxClockInfo(nvml::Device device, int clock, unsigned* megahertz) {
  return Give(device, megahertz, clock == nvml::kClockSm ? 2040U : 6251U);
}
int nvmlDeviceGetCurrPcieLinkGeneration(nvml::Device device, unsigned* generation) {
  return Give(device, generation, 4U);
}
int nvmlDeviceGetCurrPcieLinkWidth(nvml::Device device, unsigned* width) {
  return Give(device, width, fake::Is("narrow", IndexOf(device)) ? 8U : 16U);
}
int nvmlDeviceGetMaxPcieLinkGeneration(nvml::Device device, unsigned* generation) {
  return Give(device, generation, 4U);
}
int nvmlDeviceGetMaxPcieLinkWidth(nvml::Device device, unsigned* width) {
  return Give(device, width, 16U);
}
int nvmlDeviceGetUtilizationRates(nvml::Device device, nvml::Utilization* used) {
  return Give(device, used, {fake::Is("busy", IndexOf(device)) ? 97U : 0U, 0U});
}
int nvmlDeviceGetNvLinkState(nvml::Device device, unsigned link, int* active) {
  const unsigned links = static_cast<unsigned>(fake::Number("nvlinks", 0));
  if (links == 0) {
    return nvml::kNotSupported;
  }
  if (link >= links) {
    return nvml::kInvalidArgument;
  }
  if (fake::Is("linkloss", IndexOf(device)) && link == 2) {
    return nvml::kGpuIsLost;
  }
  return Give(device, active, fake::Is("linkdown", IndexOf(device)) && link == 1 ? 0 : 1);
}
int nvmlDeviceGetP2PStatus(nvml::Device a, nvml::Device b, int what, int* status) {
  const bool refused = fake::Is("nopeer", IndexOf(a)) || fake::Is("nopeer", IndexOf(b));
  if (what == nvml::kPeerNvLink) {
    *status = fake::Number("nvlinks", 0) > 0 ? 0 : 5;
  } else {
    *status = refused ? 4 : 0;
  }
  return 0;
}
int nvmlDeviceGetTopologyCommonAncestor(nvml::Device /*a*/, nvml::Device /*b*/, int* level) {
  *level = 40;
  return 0;
}
int nvmlDeviceGetGpuFabricInfoV(nvml::Device device, nvml::FabricInfo* info) {
  if (info->version != nvml::kFabricInfoVersion) {
    return 25;
  }
  info->state = 0;
  return Alive(device);
}
int nvmlDeviceGetComputeRunningProcesses_v3(nvml::Device device, unsigned* count,
                                            nvml::ProcessInfo* infos) {
  const bool busy = fake::Is("busy", IndexOf(device));
  if (busy) {
    infos[0] = {4242, fake::kMemory / 10 * 9, ~0U, ~0U};
  }
  return Give(device, count, busy ? 1U : 0U);
}

}  // extern "C"
