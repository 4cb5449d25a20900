#include "probes/node/storage/storage_speed.h"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>

#include "probes/node/storage/run_directory.h"
#include "probes/node/storage/storage_metadata.h"
#include "probes/node/storage/storage_transfer.h"
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

TEST_CASE("storage-speed: small files without time for them are refused") {
  const TemporaryDirectory directory;
  const NoProgress progress;
  ThreadExchange all(1);
  ThreadExchange::Rank alone(all, 0);
  StorageSpeedParameters parameters = {directory.Path(), kMiB, {kMiB}, false};
  parameters.metadata_files = 5;
  const auto refused = ObserveStorageSpeed(parameters, {"0123456789abcdef", "h", "n", false}, alone,
                                           Deadline::After(kPlenty), progress.get());
  CHECK(refused.error().message.find("go together") != std::string::npos);
}

TEST_CASE("storage-speed: mincore sees pages that were just read") {
  const TemporaryDirectory directory;
  directory.Write("file", std::string(64 * 4096, 'x'));
  const UniqueFd fd(open((directory / "file").c_str(), O_RDWR | O_CLOEXEC));
  CHECK(ResidentFraction(fd.get(), 64 * 4096) == 1.0);
  CHECK(ResidentFraction(fd.get(), 65 * 4096) == -1);
  CHECK(ResidentFraction(-1, 4096) == -1);
}

StorageSpeedParameters Everything(const std::string& path) {
  StorageSpeedParameters parameters{path, 4 * kMiB, {kMiB}, true};
  parameters.alone = true;
  parameters.metadata_files = 40;
  parameters.metadata_seconds = 20;
  return parameters;
}

std::vector<StorageTransfer> Alone(const StorageSpeed& seen) {
  std::vector<StorageTransfer> some;
  std::copy_if(seen.transfers.begin(), seen.transfers.end(), std::back_inserter(some),
               [](const StorageTransfer& transfer) { return transfer.alone; });
  return some;
}

TEST_CASE("storage-speed: rank 0 writes alone, and the first rank of another node reads it") {
  const TemporaryDirectory directory;
  const auto seen = Measure({"a", "a", "b"}, Everything(directory.Path()));
  REQUIRE(Alone(seen[0]).size() == 1);
  CHECK(Alone(seen[0])[0].direction == "write");
  CHECK(Alone(seen[1]).empty());
  REQUIRE(Alone(seen[2]).size() == 1);
  CHECK(Alone(seen[2])[0].direction == "read");
  CHECK(Alone(seen[2])[0].cold_because == "other-node");
  CHECK(Alone(seen[2])[0].error.empty());
  const auto one = Measure({"a"}, Everything(directory.Path()));
  CHECK(Alone(one[0]).size() == 2);
  CHECK(directory.Empty());
}

TEST_CASE("storage-speed: quarters of a pass, with fsync apart") {
  const TemporaryDirectory directory;
  const auto seen = Measure({"n"}, {directory.Path(), 5 * kMiB, {kMiB, 5 * kMiB}, false});
  const StorageTransfer& write = seen[0].transfers[0];
  REQUIRE(write.quarters.size() == 4);
  std::int64_t bytes = 0;
  double seconds = write.sync_seconds;
  for (const StorageQuarter& quarter : write.quarters) {
    bytes += quarter.bytes;
    seconds += quarter.seconds;
  }
  CHECK(bytes == 5 * kMiB);
  CHECK(seconds <= write.seconds);
  CHECK(write.sync_seconds > 0);
  CHECK(seen[0].transfers[2].quarters.empty());  // one block has no quarters
  CHECK(seen[0].mount.seen());
  CHECK(seen[0].space.seen());
}

TEST_CASE("storage-speed: small files are counted phase by phase, and all are gone") {
  const TemporaryDirectory directory;
  const auto seen = Measure({"a", "b"}, Everything(directory.Path()));
  for (const StorageSpeed& one : seen) {
    REQUIRE(one.metadata.size() == 4);
    const char* names[] = {"create", "create-write-fsync", "list", "delete"};
    const std::int64_t counts[] = {40, 40, 80, 80};
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(one.metadata[i].name == names[i]);
      CHECK(one.metadata[i].asked == counts[i]);
      CHECK(one.metadata[i].done == counts[i]);
      CHECK(one.metadata[i].seconds > 0);
      CHECK(one.metadata[i].error.empty());
    }
    CHECK(one.metadata[2].other_node);
  }
  CHECK(directory.Empty());
}

TEST_CASE("storage-speed: a phase whose time is over tells how many it did") {
  const TemporaryDirectory directory;
  StorageSpeedParameters parameters = Everything(directory.Path());
  parameters.metadata_files = 100'000;
  parameters.metadata_seconds = 0.01;
  const auto seen = Measure({"n"}, parameters);
  const StorageMetadataPhase& create = seen[0].metadata.at(0);
  CHECK(create.asked == 100'000);
  CHECK(create.done > 0);
  CHECK(create.done < create.asked);
  CHECK(create.error.empty());
  CHECK(directory.Empty());
}

TEST_CASE("storage-speed: what a file cannot hold or give is named, with the call") {
  const TemporaryDirectory directory;
  const auto now = Deadline::Clock::now();
  const Deadline plenty = Deadline::After(kPlenty);
  directory.Write("short", std::string(4096, 'x'));
  TransferBlocks blocks(4096);
  const auto read = [&](const std::string& path, std::int64_t bytes, Deadline deadline) {
    return TimeTransfer({path, false, false, bytes, 4096, 0}, blocks, now, deadline);
  };
  const StorageTransfer wrong = read(directory / "short", 4096, plenty);
  CHECK(wrong.error == "wrong-data");
  CHECK(wrong.bytes == 0);
  REQUIRE(TimeTransfer({directory / "good", true, false, 8192, 4096, 7}, blocks, now, plenty)
              .error.empty());
  CHECK(
      TimeTransfer({directory / "good", false, false, 8192, 4096, 7}, blocks, now, plenty).bytes ==
      8192);
  const StorageTransfer shorter =
      TimeTransfer({directory / "good", false, false, 12'288, 4096, 7}, blocks, now, plenty);
  CHECK(shorter.error == "short-read");
  CHECK(shorter.quarters.empty());
  // Any one bit, not only in a page's mark.
  std::fstream file(directory / "good", std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(5000);
  const int byte = file.get();
  file.seekp(5000).put(static_cast<char>(byte ^ 1));
  file.close();
  CHECK(
      TimeTransfer({directory / "good", false, false, 8192, 4096, 7}, blocks, now, plenty).detail ==
      "read: byte 5000 is another than was written");
  CHECK(read(directory / "absent", 4096, plenty).detail.starts_with("open: "));
  CHECK(read(directory / "short", 4096, Deadline::After(std::chrono::milliseconds(0))).error ==
        "ETIMEDOUT");
  // A limit that the kernel enforces as it does a quota: the second block is refused.
  rlimit old{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit low{4096, old.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &low) == 0);
  const StorageTransfer full =
      TimeTransfer({directory / "full", true, false, 8192, 4096, 0}, blocks, now, plenty);
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  CHECK(full.error == "EFBIG");
  CHECK(full.detail.starts_with("write: "));
  CHECK(full.bytes == 0);
}

TEST_CASE("storage-speed: a rank that cannot make its files says so and meets the others") {
  const TemporaryDirectory directory;
  directory.Write("meta-1", "a file where rank 1's directory should be");
  const auto seen = OnRanks<std::vector<StorageMetadataPhase>>(
      2, [&](Exchange& exchange, const Progress& progress) {
        const Deadline deadline = Deadline::After(kPlenty);
        return TimeMetadata({directory.Path(), 10, 20, 1 - exchange.rank(), true}, exchange,
                            deadline, deadline, progress);
      });
  REQUIRE(seen[1].size() == 1);
  CHECK(seen[1][0].error == "EEXIST");
  // Nobody can say what rank 0 should have found in rank 1's directory.
  REQUIRE(seen[0].size() == 3);
  CHECK(seen[0][2].name == "delete");
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
