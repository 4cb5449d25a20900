#include "probes/node/fabric/node_facts.h"

#include <doctest/doctest.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

namespace fs = std::filesystem;

void Link(const TemporaryDirectory& root, const std::string& path, const std::string& target) {
  const fs::path link = root / path;
  fs::create_directories(link.parent_path());
  fs::create_symlink(target, link);
}

/// One EFA device as a p4d pod sees it.
void AddEfaDevice(const TemporaryDirectory& root) {
  root.Write("sys/bus/pci/devices/0000:10:1b.0/vendor", "0x1d0f\n");
  root.Write("sys/bus/pci/devices/0000:10:1b.0/device", "0xefa1\n");
  Link(root, "sys/bus/pci/devices/0000:10:1b.0/driver", "../../../../bus/pci/drivers/efa");
  root.Write("sys/bus/pci/devices/0000:00:05.0/vendor", "0x1d0f\n");
  root.Write("sys/bus/pci/devices/0000:00:05.0/device", "0xec20\n");  // ENA
  Link(root, "sys/class/infiniband/rdmap16s27/device", "../../../bus/pci/devices/0000:10:1b.0");
  root.Write("sys/class/infiniband/rdmap16s27/hw_counters/lifespan", "10\n");
  root.Write("sys/class/infiniband_verbs/uverbs0/ibdev", "rdmap16s27\n");
  root.Write("dev/infiniband/uverbs0", "");
}

FabricOptions NoLibrary() {
  FabricOptions options;
  options.library_path = "/nowhere/libfabric.so.1";
  return options;
}

}  // namespace

TEST_CASE("an EFA device is told with its PCI ids and its uverbs node") {
  const TemporaryDirectory root;
  AddEfaDevice(root);
  const NodeFabric node = ObserveFabric(NoLibrary(), root.Path());
  REQUIRE(node.rdma_devices.size() == 1);
  const RdmaDevice& device = node.rdma_devices.front();
  CHECK(device.name == "rdmap16s27");
  CHECK(device.pci_address == "0000:10:1b.0");
  CHECK(device.pci_vendor == "1d0f");
  CHECK(device.pci_device == "efa1");
  CHECK(device.uverbs == "uverbs0");
  CHECK(device.uverbs_usable);
  REQUIRE(node.efa_functions.seen());
  CHECK(node.efa_functions.value() == std::vector<EfaFunction>{{"0000:10:1b.0", "efa1", "efa"}});
}

TEST_CASE("a device whose uverbs node is not in the pod is seen and not usable") {
  const TemporaryDirectory root;
  AddEfaDevice(root);
  fs::remove(root / "dev/infiniband/uverbs0");
  const NodeFabric node = ObserveFabric(NoLibrary(), root.Path());
  REQUIRE(node.rdma_devices.size() == 1);
  CHECK_FALSE(node.rdma_devices.front().uverbs_usable);
  CHECK(node.rdma_devices.front().uverbs_error.find("No such file") != std::string::npos);
}

TEST_CASE("device-level hw_counters are neither opened nor listed") {
  const TemporaryDirectory root;
  AddEfaDevice(root);
  const fs::path counters = root / "sys/class/infiniband/rdmap16s27/hw_counters";
  const int watch = inotify_init1(IN_NONBLOCK);
  REQUIRE(watch >= 0);
  REQUIRE(inotify_add_watch(watch, counters.c_str(), IN_OPEN | IN_ACCESS) >= 0);
  std::array<char, 4096> events{};
  (void)ObserveFabric(NoLibrary(), root.Path());
  CHECK(read(watch, events.data(), events.size()) < 0);
  // The watch does see an open.
  std::ifstream(counters / "lifespan").peek();
  CHECK(read(watch, events.data(), events.size()) > 0);
  close(watch);
}

TEST_CASE("huge pages and the EFA installer's version are read") {
  const TemporaryDirectory root;
  root.Write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "5128\n");
  root.Write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "5000\n");
  root.Write("opt/amazon/efa_installed_packages",
             "# EFA installer version: 1.47.0\n# Debug packages installed: no\nefa-config-1.18\n");
  const NodeFabric node = ObserveFabric(NoLibrary(), root.Path());
  CHECK(node.huge_pages == std::vector<HugePagePool>{{2'097'152, 5128, 5000}});
  REQUIRE(node.efa_installer_version.seen());
  CHECK(node.efa_installer_version.value() == "1.47.0");
}

TEST_CASE("what is not there is an error or an empty list, never a made-up value") {
  const TemporaryDirectory root;
  NodeFabric node = ObserveFabric(NoLibrary(), root.Path());
  CHECK(node.rdma_devices.empty());
  CHECK(node.efa_functions.failed());
  CHECK(node.efa_installer_version.failed());
  CHECK(node.libfabric.failed());
  CHECK(node.providers.not_looked_at());
  root.Write("opt/amazon/efa_installed_packages", "something else\n");
  node = ObserveFabric(NoLibrary(), root.Path());
  REQUIRE(node.efa_installer_version.failed());
  CHECK(node.efa_installer_version.error().code == ErrorCode::kUnsupported);
}

TEST_CASE("an EFA device of ours is not passed over for TCP, and what is asked for goes first") {
  const TemporaryDirectory root;
  unsetenv("FI_PROVIDER");
  CHECK(ChooseFabric("", root.Path()).provider.empty());
  AddEfaDevice(root);
  CHECK(ChooseFabric("", root.Path()).provider == "efa");
  CHECK(ChooseFabric("net", root.Path()).provider == "net");
  setenv("FI_PROVIDER", "tcp", 1);
  CHECK(ChooseFabric("", root.Path()).provider.empty());
  unsetenv("FI_PROVIDER");
  // Of the node, and not handed to this pod.
  fs::remove(root / "dev/infiniband/uverbs0");
  CHECK(ChooseFabric("", root.Path()).provider.empty());
}

TEST_CASE("a limit of locked memory that could not be read is not unlimited") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_MEMLOCK, &before) == 0);
  const rlimit lower{0, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_MEMLOCK, &lower) == 0);
  const auto limited = ObserveMemlock(RLIMIT_MEMLOCK);
  REQUIRE(setrlimit(RLIMIT_MEMLOCK, &before) == 0);
  REQUIRE(limited.seen());
  CHECK(limited.value().soft_bytes == 0);
  CHECK(ObserveMemlock(-1).failed());
}

}  // namespace dlc
