#include "probes/node/nccl/nccl_surroundings.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <fstream>
#include <string>
#include <vector>

#include "probes/observations/nccl_log.h"
#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

TEST_CASE("nccl settings: the environment before files, the first file before the second") {
  const TemporaryDirectory tree;
  const std::string first = tree.Write("first", "# NCCL_DEBUG=WARN\nNCCL_ALGO=Tree\n NCCL_X = 1\n");
  const std::string second = tree.Write("second", "NCCL_ALGO=Ring\nNCCL_Y=a=b\nnonsense\n");
  const char* environment[] = {
      "NCCL_ALGO=PAT", "HOME=/root", "FI_PROVIDER=efa", "NCCL_DEBUG=INFO", "OFI_NCCL_A=",
      "MY_NCCL_B=1",   nullptr};
  const auto settings = NcclSettings(environment, {first, tree / "absent", second});
  CHECK(settings == std::vector<NcclSetting>{{"FI_PROVIDER", "efa", "environment"},
                                             {"NCCL_ALGO", "PAT", "environment"},
                                             {"NCCL_DEBUG", "INFO", "environment"},
                                             {"NCCL_X", " 1", first},
                                             {"NCCL_Y", "a=b", second},
                                             {"OFI_NCCL_A", "", "environment"}});
  CHECK(SharedNcclSettings(settings) == "FI_PROVIDER=efa NCCL_ALGO=PAT");
  CHECK(NcclSettings(nullptr, {}).empty());
}

TEST_CASE("nccl maps: each library once, and no others") {
  const TemporaryDirectory tree;
  const std::string maps = tree.Write(
      "maps",
      "7f00-7f01 r--p 00000000 08:01 1 /venv/nvidia/nccl/lib/libnccl.so.2\n"
      "7f01-7f02 r-xp 00000000 08:01 1 /venv/nvidia/nccl/lib/libnccl.so.2\n"
      "7f02-7f03 r-xp 00000000 08:01 2 /opt/amazon/ofi-nccl/lib64/libnccl-net-ofi.so (deleted)\n"
      "7f03-7f04 r-xp 00000000 08:01 3 /usr/lib/libc.so.6\n"
      "7f04-7f05 rw-p 00000000 00:00 0 [heap]\n"
      "7f05-7f06 r-xp 00000000 08:01 4 /opt/amazon/efa/lib64/libfabric.so.1.26.0\n");
  CHECK(MappedNcclLibraries(maps) ==
        std::vector<std::string>{"/opt/amazon/efa/lib64/libfabric.so.1.26.0",
                                 "/opt/amazon/ofi-nccl/lib64/libnccl-net-ofi.so (deleted)",
                                 "/venv/nvidia/nccl/lib/libnccl.so.2"});
  CHECK(MappedNcclLibraries(tree / "absent").empty());
}

TEST_CASE("nccl log capture: what is written to the file that NCCL is told of is read") {
  auto capture = NcclLogCapture::Start();
  REQUIRE(capture.has_value());
  CHECK(capture->Read().log.failed());  // nothing written is no good log
  for (const NcclSetting& setting : capture->Settings()) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe)
    const char* value = getenv(setting.name.c_str());
    REQUIRE(value != nullptr);
    CHECK(value == setting.value);
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  const std::string path = getenv("NCCL_DEBUG_FILE");
  std::ofstream(path) << "h:1:1 [0] NCCL INFO Using network Socket\n";
  const auto seen = capture->Read();
  REQUIRE(seen.log.seen());
  CHECK(seen.log.value().networks == std::vector<std::string>{"Socket"});
  CHECK(seen.digest.hex.size() == 64);
}

TEST_CASE("nccl place: this process") {
  const FabricRank place = NcclPlace("pod-1", "boot");
  CHECK(place.host == "pod-1");
  CHECK(place.boot_id == "boot");
  CHECK(place.network_namespace.starts_with("net:["));
  CHECK(place.usable_cpus > 0);
}

}  // namespace
}  // namespace dlc
