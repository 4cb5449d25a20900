#include "probes/node/storage/storage_speed.h"

#include "probes/node/storage/run_directory.h"
#include "probes/node/unique_fd.h"
#include "tests/storage/ranks_in_threads.h"

namespace dlc {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

std::vector<StorageSpeed> Measure(const std::vector<std::string>& nodes,
                                  const StorageSpeedParameters& parameters) {
  return OnRanks<StorageSpeed>(static_cast<int>(nodes.size()), [&](Exchange& exchange,
                                                                   const Progress& progress) {
    const StorageViewer viewer{"0123456789abcdef", "host",
                               nodes[static_cast<std::size_t>(exchange.rank())], false};
    return ObserveStorageSpeed(parameters, viewer, exchange, Deadline::After(kPlenty), progress);
  });
}

TEST_CASE("storage-speed: one write and one read per block size, in bytes and seconds") {
  const TemporaryDirectory directory;
  const auto seen = Measure({"n", "n"}, {directory.Path(), 4 * kMiB, {kMiB, 4 * kMiB}, false});
  for (const StorageSpeed& one : seen) {
    REQUIRE(one.transfers.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      const StorageTransfer& transfer = one.transfers[i];
      CHECK(transfer.direction == (i % 2 == 0 ? "write" : "read"));
      CHECK(transfer.block_bytes == (i < 2 ? kMiB : 4 * kMiB));
      CHECK(transfer.bytes == 4 * kMiB);
      CHECK(transfer.seconds > 0);
      CHECK(transfer.error.empty());
    }
    CHECK(one.leftovers.empty());
  }
  CHECK(directory.Empty());
}

TEST_CASE("storage-speed: a read is cold by another node or by pages that are gone, else not") {
  const TemporaryDirectory directory;
  const auto two_nodes = Measure({"a", "b"}, {directory.Path(), kMiB, {kMiB}, false});
  CHECK(two_nodes[0].transfers[1].cold_because == "other-node");
  const auto one_node = Measure({"a"}, {directory.Path(), kMiB, {kMiB}, false});
  const StorageTransfer& read = one_node[0].transfers[1];
  CHECK((read.cold_because == "evicted") == (read.resident_fraction == 0));
  // tmpfs lives in the page cache: nothing can be dropped, and nothing may be called cold.
  const auto memory = Measure({"a"}, {"/dev/shm", kMiB, {kMiB}, false});
  CHECK(memory[0].transfers[1].cold_because.empty());
  CHECK(memory[0].transfers[1].resident_fraction == 1.0);
}

TEST_CASE("storage-speed: direct I/O is measured or refused by name") {
  const TemporaryDirectory directory;
  const auto seen = Measure({"n"}, {directory.Path(), kMiB, {kMiB}, true});
  REQUIRE(seen[0].transfers.size() == 4);
  for (const std::size_t i : {2U, 3U}) {
    CHECK(seen[0].transfers[i].direct);
    CHECK((seen[0].transfers[i].bytes == kMiB) == seen[0].transfers[i].error.empty());
  }
}

TEST_CASE("storage-speed: what cannot be measured is an error that says why") {
  const TemporaryDirectory directory;
  const NoProgress progress;
  const auto error = [&](const StorageSpeedParameters& parameters) {
    ThreadExchange all(1);
    ThreadExchange::Rank alone(all, 0);
    return ObserveStorageSpeed(parameters, {"0123456789abcdef", "h", "n", false}, alone,
                               Deadline::After(kPlenty), progress.get())
        .error()
        .message;
  };
  CHECK(error({directory.Path(), kMiB, {}, false}).find("are needed") != std::string::npos);
  CHECK(error({directory.Path(), kMiB, {1000}, false}).find("no multiple of 4096") !=
        std::string::npos);
  CHECK(error({directory.Path(), std::int64_t{1} << 60, {kMiB}, false}).find("bytes free") !=
        std::string::npos);
  CHECK(error({directory / "missing", kMiB, {kMiB}, false}).find("ENOENT") != std::string::npos);
}

TEST_CASE("storage-speed: mincore sees pages that were just read") {
  const TemporaryDirectory directory;
  directory.Write("file", std::string(64 * 4096, 'x'));
  const UniqueFd fd(open((directory / "file").c_str(), O_RDWR | O_CLOEXEC));
  CHECK(ResidentFraction(fd.get(), 64 * 4096) == 1.0);
  CHECK(ResidentFraction(fd.get(), 65 * 4096) == -1);
  CHECK(ResidentFraction(-1, 4096) == -1);
}

TEST_CASE("run directory: removed with all that is in it, following no link") {
  const TemporaryDirectory directory;
  const TemporaryDirectory outside;
  outside.Write("precious", "x");
  const std::string run = RunDirectory(directory.Path(), "0123456789abcdef");
  CHECK(run == directory / ".dlc-check-0123456789abcdef");
  std::filesystem::create_directories(run + "/deep/er");
  std::filesystem::create_directory_symlink(outside.Path(), run + "/link");
  CHECK(RemoveRunDirectory(run).empty());
  CHECK(directory.Empty());
  CHECK_FALSE(outside.Empty());
  CHECK(RemoveRunDirectory(run).empty());
  const auto refused = RemoveRunDirectory("/proc/self/task");
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].starts_with("/proc/self/task: E"));
}

}  // namespace
}  // namespace dlc
