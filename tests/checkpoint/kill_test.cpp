#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <random>

#include "probes/node/unique_fd.h"
#include "tests/checkpoint/file_faults.h"
#include "tests/checkpoint/saved_model.h"
#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

constexpr int kRanks = 3;

/// Short writes, so that a file is cut also in the middle of a block; before call `last` of this
/// process SIGKILL. 0: never.
FileFaultHook KillBefore(int last, int& calls) {
  return [last, &calls](const std::string&, const std::string&) {
    if (++calls == last) {
      raise(SIGKILL);
    }
    FileFault fault;
    fault.most_bytes = 1500;
    return fault;
  };
}

void SaveSteps(const std::string& root, const CheckpointStrategy& strategy, std::int64_t first,
               std::int64_t last) {
  const SavedModel model = SavedModel::Small(100);
  for (std::int64_t step = first; step <= last; ++step) {
    if (!SaveAll(model, root, {"run", step, kRanks}, SmallBlocks(strategy)) ||
        !RemoveOlderCheckpoints(root, step, strategy)) {
      _exit(1);
    }
  }
}

/// The last whole step, verified; 0 when there is none.
std::int64_t LatestWhole(const std::string& root) {
  const auto latest = FindLatestCheckpoint(root);
  REQUIRE_MESSAGE(latest.has_value(), latest.error().message);
  if (!latest->checkpoint) {
    return 0;
  }
  CHECK(DifferenceOf(SavedModel::Small(100), *latest->checkpoint) == "");
  for (const PassedOverCheckpoint& half : latest->passed_over) {
    CHECK(half.why.fault == CheckpointFault::kPartial);
  }
  return latest->checkpoint->manifest.identity.step;
}

int CallsOfOneStep(const CheckpointStrategy& strategy) {
  const TemporaryDirectory directory;
  int calls = 0;
  const PlantedFileFaults planted(KillBefore(0, calls));
  SaveSteps(directory.Path(), strategy, 1, 2);
  return calls;
}

TEST_CASE("checkpoint: killed at any call of a save, the last whole one loads") {
  for (const auto publish : {CheckpointPublish::kRename, CheckpointPublish::kInPlace}) {
    CheckpointStrategy strategy;
    strategy.publish = publish;
    const TemporaryDirectory directory;
    std::mt19937 random(20'260);
    std::uniform_int_distribution<int> moment(1, CallsOfOneStep(strategy));
    std::int64_t latest = 0;
    int killed = 0;
    for (int round = 0; round < 100; ++round) {
      CAPTURE(round);
      const int last = moment(random);
      const pid_t child = fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        int calls = 0;
        const PlantedFileFaults planted(KillBefore(last, calls));
        SaveSteps(directory.Path(), strategy, latest + 1, latest + 2);
        _exit(0);
      }
      int status = 0;
      REQUIRE(waitpid(child, &status, 0) == child);
      CHECK((WIFSIGNALED(status) || WEXITSTATUS(status) == 0));
      killed += WIFSIGNALED(status) ? 1 : 0;
      const std::int64_t now = LatestWhole(directory.Path());
      CHECK(now >= latest);
      latest = now;
    }
    CHECK(killed > 50);
    CHECK(latest > 20);
  }
}

TEST_CASE("checkpoint: a writer that removes the old one first is seen to lose it") {
  const TemporaryDirectory directory;
  const SavedModel model = SavedModel::Small(100);
  REQUIRE(SaveAll(model, directory.Path(), {"run", 1, kRanks}, SmallBlocks()).has_value());
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int calls = 0;
    const PlantedFileFaults planted(KillBefore(40, calls));
    if (RemoveCheckpoint(directory / "step-00000001", {})) {
      SaveSteps(directory.Path(), {}, 2, 2);
    }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(LatestWhole(directory.Path()) == 0);
}

/// A rank as a process: writes its file and sends what it has written.
pid_t StartRank(const std::string& directory, const CheckpointIdentity& identity, int rank,
                int last, int pipe_fd) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int calls = 0;
    const PlantedFileFaults planted(KillBefore(last, calls));
    const auto written = SaveRank(SavedModel::Small(100), directory, identity, rank, SmallBlocks());
    const std::string line =
        written ? std::to_string(written->file.bytes) + " " + written->file.sha256.hex : "";
    const ssize_t sent = write(pipe_fd, line.data(), line.size());
    _exit(sent == static_cast<ssize_t>(line.size()) ? 0 : 1);
  }
  return child;
}

/// What a rank sent before it ended; no file when it was killed.
std::optional<CheckpointFile> FileOf(int fd, pid_t child, int rank) {
  char line[256] = "";
  const ssize_t size = read(fd, line, sizeof line - 1);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  const std::string text(line, size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) {
    return std::nullopt;
  }
  return CheckpointFile{CheckpointShardName(rank, kRanks),
                        std::stoll(text.substr(0, space)),
                        {text.substr(space + 1)}};
}

/// One save by processes, `victim` of which dies before its call `last`. True: it was published.
bool SaveByProcesses(const std::string& root, std::int64_t step, int victim, int last) {
  const CheckpointIdentity identity{"run", step, kRanks};
  const auto directory = PrepareCheckpointStep(root, step, {});
  REQUIRE(directory.has_value());
  std::vector<UniqueFd> readers;
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; ++rank) {
    int ends[2] = {-1, -1};
    REQUIRE(pipe(ends) == 0);
    readers.emplace_back(ends[0]);
    const UniqueFd writer(ends[1]);
    children.push_back(StartRank(*directory, identity, rank, rank == victim ? last : 0, ends[1]));
  }
  CheckpointManifest manifest{identity, {}, {}};
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto place = static_cast<std::size_t>(rank);
    if (const auto file = FileOf(readers[place].get(), children[place], rank)) {
      manifest.shards.push_back(*file);
    }
  }
  const auto published = PublishCheckpoint(*directory, manifest, SmallBlocks());
  return published.has_value();
}

TEST_CASE("checkpoint: one of several ranks killed, the save before it stands") {
  const TemporaryDirectory directory;
  std::mt19937 random(8);
  std::uniform_int_distribution<int> moment(1, 40);
  std::uniform_int_distribution<int> rank(0, kRanks - 1);
  std::int64_t latest = 0;
  int unpublished = 0;
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    const int victim = round % 4 == 0 ? -1 : rank(random);
    const bool published = SaveByProcesses(directory.Path(), latest + 1, victim, moment(random));
    unpublished += published ? 0 : 1;
    latest += published ? 1 : 0;
    CHECK(LatestWhole(directory.Path()) == latest);
    if (published) {
      REQUIRE(RemoveOlderCheckpoints(directory.Path(), latest, {}).has_value());
    }
  }
  CHECK(unpublished > 20);
  CHECK(latest >= 25);
}

}  // namespace
}  // namespace dlc
