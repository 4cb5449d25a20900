#include "probes/node/fabric/node_facts.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "probes/node/fabric/provider.h"

namespace dlc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPoolPrefix = "hugepages-";
constexpr std::string_view kAmazon = "1d0f";
/// PCI device ids 0xefa0 to 0xefa3.
constexpr std::string_view kEfaDevices = "efa";
constexpr std::string_view kInstallerPrefix = "# EFA installer version: ";

std::optional<std::string> FirstLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) {
    return std::nullopt;
  }
  return line;
}

std::int64_t NumberIn(const fs::path& path) {
  const std::string line = FirstLine(path).value_or("");
  std::int64_t number = 0;
  std::from_chars(line.data(), line.data() + line.size(), number);
  return number;
}

/// "0x1d0f" in a file, without the prefix; "" when unreadable.
std::string HexIn(const fs::path& path) {
  const std::string line = FirstLine(path).value_or("");
  return line.substr(0, 2) == "0x" ? line.substr(2) : line;
}

/// Names in a directory, sorted.
Result<std::vector<std::string>> Names(const fs::path& directory) {
  std::error_code failed;
  std::vector<std::string> names;
  for (fs::directory_iterator at(directory, failed), end; !failed && at != end;
       at.increment(failed)) {
    names.push_back(at->path().filename().string());
  }
  if (failed) {
    const bool missing = failed == std::errc::no_such_file_or_directory;
    return Error{missing ? ErrorCode::kNotFound : ErrorCode::kPermissionDenied,
                 "cannot list " + directory.string() + ": " + failed.message(), ""};
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Last component of what a link points to; "" when it is none.
std::string LinkName(const fs::path& link) {
  std::error_code failed;
  return fs::read_symlink(link, failed).filename().string();
}

/// The character device that gives access to an RDMA device, tried the way libibverbs opens it.
void TryUverbs(const fs::path& root, RdmaDevice& device) {
  const fs::path verbs = root / "sys/class/infiniband_verbs";
  const auto names = Names(verbs);
  if (names) {
    for (const std::string& name : *names) {
      if (FirstLine(verbs / name / "ibdev") == device.name) {
        device.uverbs = name;
      }
    }
  }
  if (device.uverbs.empty()) {
    device.uverbs_error = "no entry of " + verbs.string() + " belongs to it";
    return;
  }
  const fs::path node = root / "dev/infiniband" / device.uverbs;
  const int fd = open(node.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    device.uverbs_error =
        node.string() + ": " + std::error_code(errno, std::generic_category()).message();
    return;
  }
  close(fd);
  device.uverbs_usable = true;
}

std::vector<RdmaDevice> ObserveRdmaDevices(const fs::path& root) {
  std::vector<RdmaDevice> devices;
  const fs::path infiniband = root / "sys/class/infiniband";
  const auto names = Names(infiniband);
  if (!names) {
    return devices;
  }
  for (const std::string& name : *names) {
    RdmaDevice device;
    device.name = name;
    const fs::path parent = infiniband / name / "device";
    device.pci_address = LinkName(parent);
    device.pci_vendor = HexIn(parent / "vendor");
    device.pci_device = HexIn(parent / "device");
    TryUverbs(root, device);
    devices.push_back(std::move(device));
  }
  return devices;
}

Result<std::vector<EfaFunction>> ObserveEfaFunctions(const fs::path& root) {
  const fs::path pci = root / "sys/bus/pci/devices";
  auto names = Names(pci);
  if (!names) {
    return std::move(names).error();
  }
  std::vector<EfaFunction> functions;
  for (const std::string& name : *names) {
    const std::string device = HexIn(pci / name / "device");
    if (HexIn(pci / name / "vendor") == kAmazon && device.starts_with(kEfaDevices)) {
      functions.push_back({name, device, LinkName(pci / name / "driver")});
    }
  }
  return functions;
}

std::vector<HugePagePool> ObserveHugePages(const fs::path& root) {
  std::vector<HugePagePool> pools;
  const fs::path directory = root / "sys/kernel/mm/hugepages";
  const auto names = Names(directory);
  if (!names) {
    return pools;
  }
  for (const std::string& name : *names) {
    std::int64_t kilobytes = 0;
    const char* end = name.data() + name.size();
    if (name.compare(0, kPoolPrefix.size(), kPoolPrefix) == 0 &&
        std::from_chars(name.data() + kPoolPrefix.size(), end, kilobytes).ec == std::errc()) {
      pools.push_back({kilobytes * 1024, NumberIn(directory / name / "nr_hugepages"),
                       NumberIn(directory / name / "free_hugepages")});
    }
  }
  return pools;
}

Result<std::string> ObserveEfaInstaller(const fs::path& root) {
  const fs::path path = root / "opt/amazon/efa_installed_packages";
  const auto line = FirstLine(path);
  if (!line) {
    return Error{ErrorCode::kNotFound, "cannot read " + path.string(), ""};
  }
  if (line->compare(0, kInstallerPrefix.size(), kInstallerPrefix) != 0) {
    return Error{ErrorCode::kUnsupported,
                 path.string() + " does not start with '" + std::string(kInstallerPrefix) + "'",
                 ""};
  }
  return line->substr(kInstallerPrefix.size());
}

/// "" when unset, which libfabric takes alike.
std::string ProviderFilter() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody here changes the environment while threads run
  const char* filter = std::getenv("FI_PROVIDER");
  return filter == nullptr ? "" : filter;
}

bool IsUsableEfa(const RdmaDevice& device) {
  return device.pci_vendor == kAmazon && device.pci_device.starts_with(kEfaDevices) &&
         device.uverbs_usable;
}

std::optional<std::int64_t> Limit(rlim_t limit) {
  if (limit == RLIM_INFINITY) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(limit);
}

void ObserveLibfabric(const FabricOptions& options, NodeFabric& to) {
  auto libfabric = Libfabric::Load(options.library_path);
  if (!libfabric) {
    to.libfabric = libfabric.error();
    to.providers = NotLookedAt{"libfabric was not loaded", ""};
    return;
  }
  to.libfabric = (*libfabric)->Describe();
  auto list = QueryProviders(**libfabric, options);
  if (list) {
    to.providers = DescribeProviders(**libfabric, list->get());
  } else {
    to.providers = std::move(list).error();
  }
}

}  // namespace

NodeFabric ObserveFabric(const FabricOptions& options, const std::string& root) {
  NodeFabric node;
  node.rdma_devices = ObserveRdmaDevices(root);
  node.efa_functions = ObserveEfaFunctions(root);
  node.memlock = ObserveMemlock(RLIMIT_MEMLOCK);
  node.huge_pages = ObserveHugePages(root);
  node.efa_installer_version = ObserveEfaInstaller(root);
  node.fi_provider = ProviderFilter();
  ObserveLibfabric(options, node);
  return node;
}

Observed<MemlockLimit> ObserveMemlock(int resource) {
  rlimit limit{};
  // The kernel's own call: glibc's takes an enum.
  if (prlimit(0, static_cast<__rlimit_resource>(resource), nullptr, &limit) != 0) {
    return Error{ErrorCode::kUnavailable,
                 "getrlimit: " + std::error_code(errno, std::generic_category()).message(), ""};
  }
  return MemlockLimit{Limit(limit.rlim_cur), Limit(limit.rlim_max)};
}

FabricOptions ChooseFabric(const std::string& provider, const std::string& root) {
  FabricOptions options;
  options.provider = provider;
  if (provider.empty() && ProviderFilter().empty()) {
    const auto devices = ObserveRdmaDevices(root);
    if (std::any_of(devices.begin(), devices.end(), IsUsableEfa)) {
      options.provider = "efa";
    }
  }
  return options;
}

}  // namespace dlc
