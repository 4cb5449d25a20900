#include "probes/node/nccl/efa_counters.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <string>

#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

using Counters = std::map<std::string, std::int64_t>;

constexpr const char* kDevices = "sys/class/infiniband/";

/// An RDMA device as /sys shows it.
void Plant(const TemporaryDirectory& root, const std::string& name, const std::string& vendor,
           const std::string& device, const Counters& counters) {
  root.Write(kDevices + name + "/device/vendor", vendor + "\n");
  root.Write(kDevices + name + "/device/device", device + "\n");
  std::filesystem::create_directories(root / (kDevices + name + "/ports/1"));
  for (const auto& [counter, value] : counters) {
    root.Write(kDevices + name + "/ports/1/hw_counters/" + counter, std::to_string(value) + "\n");
  }
}

TEST_CASE("efa counters: no EFA device is not looked at") {
  const TemporaryDirectory root;
  CHECK(ReadEfaCounters(root.Path()).not_looked_at());
  Plant(root, "mlx5_0", "0x15b3", "0x101d", {{"send_bytes", 1}, {"recv_bytes", 1}});
  root.Write(std::string(kDevices) + "rxe0/node_guid");  // no PCI device
  const auto seen = ReadEfaCounters(root.Path());
  REQUIRE(seen.not_looked_at());
  CHECK(seen.why_not().reason == "there is no EFA device in " + root / "sys/class/infiniband");
  CHECK(EfaCountersSettle(seen).count() == 0);
}

TEST_CASE("efa counters: payload either way, whichever operations carried it") {
  const TemporaryDirectory root;
  const Counters all = {{"tx_bytes", 1'000'000},  {"send_bytes", 9'007'199'254'740'993},
                        {"rdma_write_bytes", 20}, {"rdma_read_resp_bytes", 300},
                        {"recv_bytes", 1},        {"rdma_write_recv_bytes", 10},
                        {"rdma_read_bytes", 100}, {"retrans_bytes", 7},
                        {"lifespan", 50}};
  Plant(root, "rdmap16s27", "0x1d0f", "0xefa2", all);
  Plant(root, "rdmap0s6", "0x1d0f", "0xefa0", {{"send_bytes", 5}, {"recv_bytes", 6}});
  root.Write(std::string(kDevices) + "rdmap0s6/ports/1/hw_counters/other", "no number");
  // Reading these can crash a node: they must not matter, whatever they are.
  root.Write(std::string(kDevices) + "rdmap0s6/hw_counters/send_bytes", "77");
  const auto seen = ReadEfaCounters(root.Path());
  REQUIRE(seen.seen());
  CHECK(seen.value() ==
        std::vector<EfaPortCounters>{{"rdmap0s6", 5, 6, {{"send_bytes", 5}, {"recv_bytes", 6}}},
                                     {"rdmap16s27", 9'007'199'254'741'313, 111, all}});
  CHECK(EfaCountersSettle(seen).count() == 100);
}

TEST_CASE("efa counters: what cannot be read is an error that names it") {
  const TemporaryDirectory root;
  const auto message = [&] {
    const auto seen = ReadEfaCounters(root.Path());
    return seen.failed() ? seen.error().message : "no error";
  };
  Plant(root, "a", "0x1d0f", "0xefa1", {{"send_bytes", 1}, {"recv_bytes", 2}});
  CHECK(ReadEfaCounters(root.Path()).seen());
  // As in a pod with a network namespace of its own.
  Plant(root, "b", "0x1d0f", "0xefa1", {});
  const std::string counters = root / (std::string(kDevices) + "b/ports/1/hw_counters");
  CHECK(message().starts_with(counters + ": "));
  CHECK(ReadEfaCounters(root.Path()).error().hint.find("hostNetwork") != std::string::npos);
  Plant(root, "b", "0x1d0f", "0xefa1", {{"recv_bytes", 2}});
  CHECK(message() == counters + "/send_bytes: is not there");
  root.Write(std::string(kDevices) + "b/ports/1/hw_counters/send_bytes", "12 apples\n");
  CHECK(message() == counters + "/send_bytes: '12 apples' is no number");
  root.Write(std::string(kDevices) + "b/ports/1/hw_counters/send_bytes", "");
  CHECK(message() == counters + "/send_bytes: cannot be read");
  root.Write(std::string(kDevices) + "b/ports/1/hw_counters/send_bytes", "1\n");
  CHECK(ReadEfaCounters(root.Path()).seen());
}

TEST_CASE("efa counters: a list that cannot be had is no empty list") {
  const TemporaryDirectory root;
  root.Write("sys/class/infiniband", "a file");
  CHECK(ReadEfaCounters(root.Path()).failed());
}

}  // namespace
}  // namespace dlc
