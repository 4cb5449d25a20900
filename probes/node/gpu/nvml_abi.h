#pragma once

#include <cstdint>

/// The part of NVML's binary interface that we use, written down anew: the toolkit's nvml.h is not
/// in every build, and the interface is stable. Layouts: nvml.h of CUDA 12 and 13
/// (github.com/NVIDIA/go-nvml, gen/nvml/nvml.h).
namespace dlc::nvml {

/// Return codes that we tell apart.
inline constexpr int kSuccess = 0;
inline constexpr int kInvalidArgument = 2;
inline constexpr int kNotSupported = 3;
inline constexpr int kNoPermission = 4;
inline constexpr int kNotFound = 6;
inline constexpr int kInsufficientSize = 7;
inline constexpr int kDriverNotLoaded = 9;
inline constexpr int kTimeout = 10;
inline constexpr int kFunctionNotFound = 13;
inline constexpr int kGpuIsLost = 15;
inline constexpr int kResetRequired = 16;
inline constexpr int kLibRmVersionMismatch = 18;
inline constexpr int kUnknown = 999;

using Device = void*;

inline constexpr unsigned kTextBytes = 96;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct Utilization {
  unsigned gpu;
  unsigned memory;
};

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24);

struct FabricInfo {
  unsigned version;
  unsigned char cluster_uuid[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health_mask;
};
static_assert(sizeof(FabricInfo) == 36);
inline constexpr unsigned kFabricInfoVersion = sizeof(FabricInfo) | (2U << 24U);

inline constexpr int kTemperatureGpu = 0;
inline constexpr int kClockSm = 1;
inline constexpr int kClockMemory = 2;
inline constexpr int kEccCorrected = 0;
inline constexpr int kEccUncorrected = 1;
inline constexpr int kEccVolatile = 0;
inline constexpr int kEccAggregate = 1;
inline constexpr int kRetiredSingleBit = 0;
inline constexpr int kRetiredDoubleBit = 1;
inline constexpr int kPeerRead = 0;
inline constexpr int kPeerWrite = 1;
inline constexpr int kPeerNvLink = 2;
inline constexpr unsigned kMaxNvLinks = 18;

}  // namespace dlc::nvml
