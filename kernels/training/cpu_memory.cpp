#include "kernels/training/cpu_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

namespace dlc {
namespace {

/// The number behind `label` at the start of a line.
std::optional<std::uint64_t> NumberBehind(const std::string& path, const std::string& label) {
  std::ifstream file(path);
  std::string word;
  std::uint64_t value = 0;
  while (file >> word) {
    if (word == label && file >> value) {
      return value;
    }
    std::getline(file, word);
  }
  return std::nullopt;
}

/// nullopt for "max" too.
std::optional<std::uint64_t> OnlyNumber(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) {
    return value;
  }
  return std::nullopt;
}

struct ControlGroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  ///< in memory.stat: page cache that nobody has used for long
};

/// Narrows `memory` to what the group in `folder` leaves.
void Narrow(const std::string& folder, const ControlGroupFiles& files, CpuMemory& memory) {
  const auto limit = OnlyNumber(folder + files.limit);
  const auto usage = OnlyNumber(folder + files.usage);
  if (!limit || !usage) {
    return;
  }
  const std::uint64_t cache = NumberBehind(folder + "/memory.stat", files.reclaimable).value_or(0);
  const std::uint64_t used = *usage > cache ? *usage - cache : 0;
  memory.total_bytes = std::min(memory.total_bytes, *limit);
  memory.available_bytes = std::min(memory.available_bytes, *limit > used ? *limit - used : 0);
}

/// The group at `path` and those around it: each has a limit of its own.
void NarrowUpwards(const std::string& mount, std::string path, const ControlGroupFiles& files,
                   CpuMemory& memory) {
  while (!path.empty() && path != "/") {
    Narrow(mount + path, files, memory);
    path.resize(path.rfind('/'));
  }
  Narrow(mount, files, memory);
}

}  // namespace

CpuMemory ReadCpuMemory(const std::string& root) {
  const std::string meminfo = root + "/proc/meminfo";
  CpuMemory memory;
  memory.total_bytes = NumberBehind(meminfo, "MemTotal:").value_or(0) * 1024;
  memory.available_bytes = NumberBehind(meminfo, "MemAvailable:").value_or(0) * 1024;
  // https://docs.kernel.org/admin-guide/cgroup-v2.html and cgroup-v1/memory.html; the lines are
  // hierarchy:controllers:path.
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    std::istringstream fields(line);
    std::string hierarchy;
    std::string controllers;
    std::string path;
    std::getline(fields, hierarchy, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, path);
    // A path that starts elsewhere than at '/' is outside of the namespace of control groups.
    path = path.starts_with("/..") || !path.starts_with("/") ? "" : path;
    if (controllers.empty()) {
      NarrowUpwards(root + "/sys/fs/cgroup", path,
                    {"/memory.max", "/memory.current", "inactive_file"}, memory);
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      NarrowUpwards(root + "/sys/fs/cgroup/memory", path,
                    {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"},
                    memory);
    }
  }
  return memory;
}

}  // namespace dlc
