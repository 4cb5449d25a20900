#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "probes/observations/fabric.h"
#include "probes/observations/observed.h"

namespace dlc {

/// An environment variable: unset and empty are two things to CUDA and to the container runtime.
struct EnvironmentText {
  bool set = false;
  std::string value;

  bool operator==(const EnvironmentText&) const = default;
};

/// A device file of the driver: "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm".
struct GpuDeviceFile {
  std::string path;
  std::optional<int> number;  ///< of /dev/nvidia<number>; none for the control files
  bool usable = false;        ///< opens for reading and writing
  std::string error;          ///< errno name when not

  bool operator==(const GpuDeviceFile&) const = default;
};

/// One entry of CUDA_VISIBLE_DEVICES, read as CUDA reads it.
struct VisibleEntry {
  std::string text;
  std::string problem;  ///< empty: it names a device; else why not, and it hides what follows

  bool operator==(const VisibleEntry&) const = default;
};

struct CudaVisibleDevices {
  EnvironmentText variable;
  std::vector<VisibleEntry> entries;
  /// How many devices CUDA shows by it; none: cannot be told, as the devices that it picks from are
  /// not known, or are MIG instances.
  std::optional<int> expected;
  std::string problem;  ///< of the list as a whole; empty: every entry names a device

  bool operator==(const CudaVisibleDevices&) const = default;
};

struct GpuMemory {
  std::int64_t total_bytes = 0;
  std::int64_t used_bytes = 0;  ///< the driver's own share included

  bool operator==(const GpuMemory&) const = default;
};

struct GpuMigMode {
  bool enabled = false;
  bool enabled_after_reset = false;

  bool operator==(const GpuMigMode&) const = default;
};

struct GpuMigDevice {
  std::string uuid;  ///< "MIG-..."
  Observed<std::string> name;
  Observed<GpuMemory> memory;

  bool operator==(const GpuMigDevice&) const = default;
};

struct GpuEcc {
  bool enabled = false;
  std::int64_t volatile_corrected = 0;  ///< since the driver was loaded
  std::int64_t volatile_uncorrected = 0;
  std::int64_t aggregate_corrected = 0;  ///< over the life of the board
  std::int64_t aggregate_uncorrected = 0;

  bool operator==(const GpuEcc&) const = default;
};

/// Rows of memory that spare ones stand in for (Ampere and later).
struct GpuRemappedRows {
  int correctable = 0;
  int uncorrectable = 0;
  bool pending = false;  ///< waits for a reset
  bool failed = false;   ///< a remapping failed: the board is to be replaced

  bool operator==(const GpuRemappedRows&) const = default;
};

/// Pages taken out of use (before Ampere).
struct GpuRetiredPages {
  int single_bit = 0;
  int double_bit = 0;
  bool pending = false;

  bool operator==(const GpuRetiredPages&) const = default;
};

struct GpuNvLink {
  int link = 0;
  bool active = false;

  bool operator==(const GpuNvLink&) const = default;
};

/// How far an NVSwitch system has come with this GPU.
struct GpuFabricState {
  std::string state;        ///< "not-supported", "not-started", "in-progress", "completed"
  int status = 0;           ///< NVML's; counts once completed
  std::int64_t health = 0;  ///< NVML's health mask
  std::string cluster;      ///< uuid in hex; all zero outside multi-node NVLink
  std::int64_t clique = 0;

  bool operator==(const GpuFabricState&) const = default;
};

/// A process that computes on the GPU. Inside a container NVML may list none, or host pids.
struct GpuProcess {
  std::int64_t pid = 0;
  std::optional<std::int64_t> used_bytes;  ///< none: NVML does not say

  bool operator==(const GpuProcess&) const = default;
};

/// What changes with load.
struct GpuState {
  Observed<int> pcie_generation;  ///< drops when idle
  Observed<int> pcie_width;
  Observed<std::int64_t> clocks_event_reasons;  ///< NVML's bits; several samples: all seen
  Observed<int> temperature_celsius;            ///< several samples: the highest
  Observed<double> power_watts;                 ///< several samples: the highest
  Observed<std::int64_t> sm_clock_hz;           ///< several samples: the lowest
  Observed<std::int64_t> memory_clock_hz;

  bool operator==(const GpuState&) const = default;
};

/// One GPU as NVML tells it. An error of kind kUnsupported means that this GPU has no such thing.
struct NvmlGpu {
  int index = 0;               ///< NVML's: in PCI bus order, whatever CUDA's order is
  Observed<std::string> uuid;  ///< permission denied: counted, but not for this container
  Observed<std::string> name;
  Observed<std::string> pci_address;  ///< "00000000:53:00.0"
  Observed<int> minor_number;         ///< of /dev/nvidia<minor>
  Observed<std::string> compute_capability;
  Observed<GpuMemory> memory;
  Observed<GpuMigMode> mig;
  Observed<std::vector<GpuMigDevice>> mig_devices;
  Observed<std::string> compute_mode;  ///< "default", "exclusive-process", "prohibited"
  Observed<bool> persistence;
  Observed<GpuEcc> ecc;
  Observed<GpuRemappedRows> remapped_rows;
  Observed<GpuRetiredPages> retired_pages;
  Observed<double> power_limit_watts;  ///< enforced
  Observed<std::int64_t> max_sm_clock_hz;
  Observed<int> max_pcie_generation;
  Observed<int> max_pcie_width;
  GpuState state;  ///< as found, before any load of ours
  Observed<int> utilization_percent;
  Observed<std::vector<GpuNvLink>> nvlinks;
  Observed<GpuFabricState> fabric;
  Observed<std::vector<GpuProcess>> processes;

  bool operator==(const NvmlGpu&) const = default;
};

/// Two GPUs of one node, by NVML index, a < b. Texts as NVML means them: "ok", "not-supported", ...
struct GpuPeer {
  int a = 0;
  int b = 0;
  Observed<std::string> read;
  Observed<std::string> write;
  Observed<std::string> nvlink;
  Observed<std::string> path;  ///< "internal", "single-switch", "multiple-switches",
                               ///< "host-bridge", "node", "system"

  bool operator==(const GpuPeer&) const = default;
};

/// A failed call of CUDA; code 0: none.
struct CudaFailure {
  int code = 0;
  std::string name;     ///< "CUDA_ERROR_SYSTEM_NOT_READY", "cudaErrorNoDevice"
  std::string call;     ///< "cuInit"
  std::string text;     ///< CUDA's
  std::string meaning;  ///< what it usually comes from; empty for codes that we do not know

  bool operator==(const CudaFailure&) const = default;
};

/// A GPU as CUDA shows it to this process.
struct CudaGpu {
  int ordinal = 0;
  std::string uuid;  ///< joins it to NVML's
  std::string name;
  std::string pci_address;
  std::string compute_capability;
  std::int64_t total_bytes = 0;

  bool operator==(const CudaGpu&) const = default;
};

struct CudaView {
  Observed<LoadedLibrary> library;    ///< libcuda.so.1 as mapped; version: of its file name
  std::vector<std::string> mapped;    ///< every libcuda that /proc/self/maps names
  bool compat = false;                ///< the mapped one is a forward-compatibility copy
  Observed<std::string> compat_file;  ///< version of the image's forward-compatibility copy
  CudaFailure failure;
  Observed<int> driver_version;  ///< of CUDA that libcuda serves: 13000
  Observed<std::vector<CudaGpu>> gpus;
  /// The CUDA runtime that the image's programs load; version as 13000.
  Observed<LoadedLibrary> image_runtime;
  int probe_runtime_version = 0;  ///< of dlc-probe's own; 0: built without CUDA
  std::string probe_architectures;

  bool operator==(const CudaView&) const = default;
};

struct NvmlView {
  Observed<LoadedLibrary> library;
  int failure_code = 0;  ///< of nvmlInit; 0: it worked. 18: another version than the kernel module
  Observed<std::string> driver_version;
  Observed<int> cuda_version;  ///< 13000
  /// GPUs of the node, also those that this container may not use.
  Observed<int> counted;
  Observed<std::vector<NvmlGpu>> gpus;
  Observed<std::vector<GpuPeer>> peers;

  bool operator==(const NvmlView&) const = default;
};

/// `gpu-node`: what one process is given and sees, before anything computes.
struct GpuNode {
  Observed<std::vector<GpuDeviceFile>> device_files;
  EnvironmentText nvidia_visible_devices;  ///< read by the container runtime, not by CUDA
  CudaVisibleDevices cuda_visible_devices;
  EnvironmentText cuda_device_order;
  EnvironmentText ld_library_path;
  Observed<std::string> kernel_module;  ///< version, of /proc/driver/nvidia/version
  NvmlView nvml;
  CudaView cuda;

  bool operator==(const GpuNode&) const = default;
};

/// One pattern written over the tested share, then read back.
struct GpuMemoryPass {
  std::string pattern;  ///< "address", "walking-one", "walking-zero", "random"
  std::int64_t bytes = 0;
  std::int64_t wrong_words = 0;         ///< of 8 bytes
  std::int64_t first_wrong_offset = 0;  ///< in bytes; this and the next three if wrong_words > 0
  std::string expected;                 ///< "0x0123456789abcdef"
  std::string reread;                   ///< the same word, read once more
  std::string flipped_bits;             ///< of all wrong words together
  double write_seconds = 0;
  double read_seconds = 0;

  bool operator==(const GpuMemoryPass&) const = default;
};

/// A repeated transfer. Bytes are those read plus those written, on the device's side.
struct GpuTransfer {
  std::string operation;   ///< "read", "write", "copy", "memcpy", "host-to-device",
                           ///< "device-to-host" (pinned)
  std::int64_t bytes = 0;  ///< of one repetition
  std::int64_t repetitions = 0;
  double bytes_per_second = 0;       ///< mean
  double best_bytes_per_second = 0;  ///< in the fastest batch
  std::int64_t wrong_words = 0;      ///< of 8 bytes, in what arrived

  bool operator==(const GpuTransfer&) const = default;
};

/// Square matrices of small whole numbers by the tensor cores, each product compared whole.
struct GpuProduct {
  int size = 0;
  std::string type;  ///< of the factors: "bfloat16"; "float16" where there is no bfloat16
  std::int64_t products = 0;
  double operations_per_second = 0;  ///< mean; of a plain kernel, no measure of the GPU's best
  double best_operations_per_second = 0;
  std::int64_t checked_elements = 0;
  std::int64_t wrong_elements = 0;
  int wrong_row = 0;  ///< of the first one; this and the next three if wrong_elements > 0
  int wrong_column = 0;
  double expected = 0;
  double found = 0;  ///< in the last product: right when the fault did not last
  std::int64_t host_checked_elements = 0;  ///< of the reference, by the CPU
  std::int64_t host_wrong_elements = 0;

  bool operator==(const GpuProduct&) const = default;
};

/// A bit flipped on purpose in a small run of the same experiment: whether it was found.
struct GpuSelfTest {
  std::string experiment;  ///< "memory", "transfer", "host-to-device", "device-to-host", "product"
  bool caught = false;

  bool operator==(const GpuSelfTest&) const = default;
};

/// One GPU put to work. A failure ends it; what came before stands.
struct GpuWork {
  int ordinal = 0;
  std::string uuid;
  std::string name;
  std::string pci_address;
  std::string compute_capability;
  std::int64_t total_bytes = 0;
  std::int64_t free_bytes = 0;   ///< before we took any
  std::int64_t cache_bytes = 0;  ///< second level: less memory than that tests the cache
  std::vector<GpuSelfTest> self_tests;
  std::vector<GpuMemoryPass> memory;
  std::vector<GpuTransfer> transfers;
  Observed<GpuProduct> product;
  Observed<GpuState> during_copies;  ///< host link busy
  Observed<GpuState> during_products;
  CudaFailure failure;
  double seconds = 0;  ///< that we held this GPU

  bool operator==(const GpuWork&) const = default;
};

/// `gpu-compute` on one rank.
struct GpuCompute {
  double budget_seconds = 0;  ///< per GPU
  double memory_share = 0;    ///< of the free memory, tested
  std::string planted;        ///< "": nothing; "memory", "transfer", "host-copy", "product"
  int visible = 0;            ///< GPUs that CUDA shows; of these, `gpus` were this rank's to test
  CudaFailure failure;        ///< no GPU could be listed
  std::vector<GpuWork> gpus;
  double gpu_seconds = 0;  ///< over all GPUs: what the experiment cost

  bool operator==(const GpuCompute&) const = default;
};

}  // namespace dlc
