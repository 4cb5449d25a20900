#include "probes/node/storage/storage_shared.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/storage/ranks_in_threads.h"

namespace dlc {
namespace {

const std::string kRunId = "0123456789abcdef";

/// Rank r looks at paths[r].
std::vector<StorageShared> Look(const std::vector<std::string>& paths, int visible_ms = 300,
                                int flipping_rank = -1) {
  return OnRanks<StorageShared>(
      static_cast<int>(paths.size()), [&](Exchange& exchange, const Progress& progress) {
        const int rank = exchange.rank();
        const StorageViewer viewer{kRunId, "host-" + std::to_string(rank),
                                   "node-" + std::to_string(rank), rank == flipping_rank};
        return ObserveStorageShared({paths[static_cast<std::size_t>(rank)], visible_ms}, viewer,
                                    exchange, Deadline::After(kPlenty), progress);
      });
}

std::vector<std::string> States(const StorageShared& seen) {
  std::vector<std::string> states;
  for (const PeerFile& peer : seen.peers.value()) {
    states.push_back(peer.state);
  }
  return states;
}

using Texts = std::vector<std::string>;

TEST_CASE("storage-shared: one directory for all: every file is seen, nothing stays") {
  const TemporaryDirectory directory;
  const auto seen = Look({directory.Path(), directory.Path(), directory.Path()}, 5'000);
  for (const StorageShared& one : seen) {
    CHECK(one.operations.size() == 14);
    for (const FileOperation& operation : one.operations) {
      CAPTURE(operation.name);
      CHECK(operation.error.empty());
    }
    CHECK(States(one) == Texts{"same", "same"});
    CHECK(one.peers.value()[0].exclusive_create == "refused");
    CHECK(one.leftovers.empty());
    CHECK(one.mount.seen());
    CHECK(one.space.value().available_bytes > 0);
    CHECK(one.uid == one.file_uid);
  }
  CHECK(seen[1].peers.value()[1].host == "host-2");
  CHECK(seen[1].peers.value()[1].node == "node-2");
  CHECK(directory.Empty());
}

TEST_CASE("storage-shared: another directory at the same place is seen by all sides") {
  const TemporaryDirectory one;
  const TemporaryDirectory two;
  const auto seen = Look({one.Path(), one.Path(), two.Path()});
  CHECK(States(seen[0]) == Texts{"same", "absent"});
  CHECK(States(seen[1]) == Texts{"same", "absent"});
  CHECK(States(seen[2]) == Texts{"absent", "absent"});
  CHECK(seen[2].peers.value()[0].error == "ENOENT");
  CHECK(one.Empty());
  CHECK(two.Empty());
}

TEST_CASE("storage-shared: other bytes than were promised are told apart from none") {
  const TemporaryDirectory directory;
  const auto seen = Look({directory.Path(), directory.Path()}, 300, 0);
  CHECK(States(seen[0]) == Texts{"same"});
  CHECK(States(seen[1]) == Texts{"different"});
}

TEST_CASE("storage-shared: a path that is not there, and what the others make of it") {
  const TemporaryDirectory directory;
  const auto seen = Look({directory.Path(), directory / "missing"});
  REQUIRE(seen[1].operations.size() == 1);
  CHECK(seen[1].operations[0].name == "create-directory");
  CHECK(seen[1].operations[0].error == "ENOENT");
  CHECK(seen[1].mount.error().code == ErrorCode::kNotFound);
  CHECK(States(seen[0]) == Texts{"not-written"});
}

/// In a process of its own, for it changes rights and mounts: what is wrong with `path`, by the
/// name of the first operation that failed, e.g. "write ENOSPC".
std::string FirstFailure(const std::string& path, const std::function<bool()>& prepare) {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    std::string text = "not run";
    if (prepare()) {
      ThreadExchange all(1);
      ThreadExchange::Rank alone(all, 0);
      const NoProgress progress;
      const auto seen = ObserveStorageShared({path, 100}, {kRunId, "h", "n", false}, alone,
                                             Deadline::After(kPlenty), progress.get());
      text = "nothing";
      if (seen && !seen->operations.back().error.empty()) {
        text = seen->operations.back().name + " " + seen->operations.back().error;
      }
    }
    _exit(write(ends[1], text.data(), text.size()) > 0 ? 0 : 1);
  }
  close(ends[1]);
  char text[200];
  const ssize_t count = read(ends[0], text, sizeof text);
  close(ends[0]);
  CHECK(waitpid(pid, nullptr, 0) == pid);
  return {text, static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

bool PrivateMounts() {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

TEST_CASE("storage-shared: each way to be unusable has its own name") {
  const TemporaryDirectory directory;
  const char* path = directory.Path().c_str();
  struct Row {
    const char* expected;
    std::function<bool()> prepare;
  };
  const Row rows[] = {
      {"create-directory EROFS",
       [&] { return PrivateMounts() && mount("t", path, "tmpfs", MS_RDONLY, nullptr) == 0; }},
      {"write ENOSPC",
       [&] {
         // Room for the directories, not for 64 KiB of data.
         return PrivateMounts() && mount("t", path, "tmpfs", 0, "size=8k") == 0;
       }},
      {"create-directory ENOSPC",
       [&] { return PrivateMounts() && mount("t", path, "tmpfs", 0, "nr_inodes=1") == 0; }},
      {"create-directory EACCES", [&] { return chmod(path, 0755) == 0 && setuid(65'534) == 0; }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.expected);
    const std::string failure = FirstFailure(path, row.prepare);
    if (failure == "not run") {
      MESSAGE("not run: no right to mount or to become another user");
      continue;
    }
    CHECK(failure == row.expected);
  }
  CHECK(FirstFailure(path, [] { return true; }) == "nothing");
}

TEST_CASE("storage-shared: a lost rank costs the others' files, not the rest") {
  const TemporaryDirectory directory;
  ThreadExchange exchange(2);
  ThreadExchange::Rank only(exchange, 0);
  const NoProgress progress;
  const auto seen =
      ObserveStorageShared({directory.Path(), 300}, {kRunId, "h", "n", false}, only,
                           Deadline::After(std::chrono::milliseconds(300)), progress.get());
  REQUIRE(seen.has_value());
  CHECK(seen->peers.error().message == "a rank was lost");
  CHECK(seen->operations.size() == 14);
  CHECK(directory.Empty());
}

}  // namespace
}  // namespace dlc
