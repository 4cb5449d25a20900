#include "probes/node/nccl/efa_counters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace dlc {
namespace {

namespace fs = std::filesystem;

/// By name, and never a listing of the directory: drivers before 1.14 kept other things there.
constexpr std::array<std::string_view, 22> kCounters = {"tx_bytes",
                                                        "tx_pkts",
                                                        "rx_bytes",
                                                        "rx_pkts",
                                                        "rx_drops",
                                                        "send_bytes",
                                                        "send_wrs",
                                                        "recv_bytes",
                                                        "recv_wrs",
                                                        "rdma_read_wrs",
                                                        "rdma_read_bytes",
                                                        "rdma_read_wr_err",
                                                        "rdma_read_resp_bytes",
                                                        "rdma_write_wrs",
                                                        "rdma_write_bytes",
                                                        "rdma_write_wr_err",
                                                        "rdma_write_recv_bytes",
                                                        "retrans_bytes",
                                                        "retrans_pkts",
                                                        "retrans_timeout_events",
                                                        "unresponsive_remote_events",
                                                        "impaired_remote_conn_events"};
constexpr const char* kLifespan = "lifespan";

std::string FirstLineOf(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool IsEfa(const fs::path& device) {
  return FirstLineOf(device / "device/vendor") == "0x1d0f" &&
         FirstLineOf(device / "device/device").starts_with("0xefa");
}

Error Unreadable(const fs::path& path, const std::string& why) {
  return {ErrorCode::kUnavailable, path.string() + ": " + why,
          "the kernel shows port counters in the network namespace of the device alone: a pod with "
          "hostNetwork sees them"};
}

/// nullopt: the device or its driver has none of that name.
Result<std::optional<std::int64_t>> ReadCounter(const fs::path& path) {
  std::error_code failed;
  if (!fs::exists(path, failed)) {
    return failed ? Result<std::optional<std::int64_t>>(Unreadable(path, failed.message()))
                  : Result<std::optional<std::int64_t>>(std::nullopt);
  }
  const std::string line = FirstLineOf(path);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc() || end != line.data() + line.size()) {
    return Unreadable(path, line.empty() ? "cannot be read" : "'" + line + "' is no number");
  }
  return std::optional(number);
}

std::int64_t SumOf(const EfaPortCounters& port, std::initializer_list<const char*> names) {
  std::int64_t sum = 0;
  for (const char* name : names) {
    const auto it = port.counters.find(name);
    sum += it == port.counters.end() ? 0 : it->second;
  }
  return sum;
}

Result<EfaPortCounters> ReadPort(const fs::path& device) {
  EfaPortCounters port;
  port.device = device.filename().string();
  const fs::path counters = device / "ports/1/hw_counters";
  std::error_code failed;
  if (!fs::is_directory(counters, failed)) {
    return Unreadable(counters, failed ? failed.message() : "is not there");
  }
  const auto read = [&](const std::string& name) -> Result<void> {
    const auto number = ReadCounter(counters / name);
    if (!number) {
      return number.error();
    }
    if (*number) {
      port.counters[name] = **number;
    }
    return {};
  };
  for (const std::string_view name : kCounters) {
    if (const auto done = read(std::string(name)); !done) {
      return done.error();
    }
  }
  if (const auto done = read(kLifespan); !done) {
    return done.error();
  }
  // Each EFA device sends and receives; the sums without these would say too little.
  for (const char* name : {"send_bytes", "recv_bytes"}) {
    if (!port.counters.contains(name)) {
      return Unreadable(counters / name, "is not there");
    }
  }
  port.sent_bytes = SumOf(port, {"send_bytes", "rdma_write_bytes", "rdma_read_resp_bytes"});
  port.received_bytes = SumOf(port, {"recv_bytes", "rdma_write_recv_bytes", "rdma_read_bytes"});
  return port;
}

}  // namespace

Observed<std::vector<EfaPortCounters>> ReadEfaCounters(const std::string& root) {
  const fs::path infiniband = fs::path(root) / "sys/class/infiniband";
  std::vector<fs::path> devices;
  std::error_code failed;
  for (fs::directory_iterator it(infiniband, failed), end; !failed && it != end;
       it.increment(failed)) {
    if (IsEfa(it->path())) {
      devices.push_back(it->path());
    }
  }
  if (failed && failed != std::errc::no_such_file_or_directory) {
    return Error{ErrorCode::kUnavailable,
                 "cannot list " + infiniband.string() + ": " + failed.message(), ""};
  }
  if (devices.empty()) {
    return NotLookedAt{"there is no EFA device in " + infiniband.string(), ""};
  }
  std::sort(devices.begin(), devices.end());
  std::vector<EfaPortCounters> ports;
  for (const fs::path& device : devices) {
    auto port = ReadPort(device);
    if (!port) {
      return std::move(port).error();
    }
    ports.push_back(std::move(port).value());
  }
  return ports;
}

std::chrono::milliseconds EfaCountersSettle(const Observed<std::vector<EfaPortCounters>>& before) {
  constexpr std::int64_t kUsual = 10;
  constexpr std::int64_t kMost = 1'000;
  std::int64_t longest = 0;
  for (const EfaPortCounters& port :
       before.seen() ? before.value() : std::vector<EfaPortCounters>()) {
    const auto it = port.counters.find(kLifespan);
    longest = std::max(longest, it == port.counters.end() ? kUsual : it->second);
  }
  // Twice: somebody else's read may have begun a life just before the last byte.
  return std::chrono::milliseconds(2 * std::min(longest, kMost));
}

}  // namespace dlc
