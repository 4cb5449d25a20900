#pragma once

#include <cstdint>
#include <string>

namespace dlc {

struct CpuMemory {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;
};

/// What this process may still take before the kernel starts to kill: the least of MemAvailable of
/// /proc/meminfo and, for each control group that it is in (versions 1 and 2), the limit less what
/// is in use and cannot be given back. Both 0 where /proc/meminfo cannot be read. `root` is put
/// before every path, for tests.
CpuMemory ReadCpuMemory(const std::string& root = "");

/// Left alone by the backend, for the rest of the process and its neighbours.
inline constexpr std::uint64_t kCpuMemoryReserve = std::uint64_t{64} << 20;

}  // namespace dlc
