#include <cerrno>
#include <cstring>

#include "probes/node/checkpoint/checkpoint_controls.h"
#include "tests/checkpoint/file_faults.h"
#include "tests/checkpoint/saved_model.h"
#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

FileFaultHook FailingOn(const std::string& call, const std::string& part, int failure) {
  return [=](const std::string& now, const std::string& path) {
    FileFault fault;
    fault.failure = now == call && path.find(part) != std::string::npos ? failure : 0;
    return fault;
  };
}

CheckpointResult<CheckpointStrategy> Try(const TemporaryDirectory& directory,
                                         const FileFaultHook& hook) {
  const PlantedFileFaults planted(hook);
  return TryCheckpointStrategy(directory.Path(), "0");
}

TEST_CASE("checkpoint strategy: rename where it works, and nothing stays") {
  const TemporaryDirectory directory;
  const auto strategy = TryCheckpointStrategy(directory.Path(), "0");
  REQUIRE(strategy.has_value());
  CHECK(*strategy == CheckpointStrategy{});
  CHECK(directory.Empty());
}

TEST_CASE("checkpoint strategy: a refused rename is in-place, by each errno that says so") {
  for (const int failure : {ENOSYS, EPERM, EOPNOTSUPP, EXDEV, EINVAL}) {
    const TemporaryDirectory directory;
    const auto strategy = Try(directory, FailingOn("rename", "", failure));
    REQUIRE(strategy.has_value());
    CHECK(strategy->publish == CheckpointPublish::kInPlace);
    CHECK(strategy->notes ==
          std::vector<std::string>{std::string("rename refused: ") + strerrorname_np(failure)});
    CHECK(directory.Empty());
  }
}

TEST_CASE("checkpoint strategy: what failed is not what lacks") {
  const TemporaryDirectory directory;
  struct Row {
    const char* call;
    const char* part;
    int failure;
    const char* message;
  };
  const Row rows[] = {{"rename", "", EIO, "cannot rename "},
                      {"fsync", ".dlc-try", EIO, "cannot fsync "},
                      {"fsync", "", ENOSPC, "cannot fsync "},
                      {"write", ".dlc-try", EDQUOT, "cannot write "},
                      {"open", ".dlc-try", EACCES, "cannot create "},
                      {"close", ".tmp", EIO, "cannot close "}};
  for (const Row& row : rows) {
    CAPTURE(row.call);
    const auto strategy = Try(directory, FailingOn(row.call, row.part, row.failure));
    REQUIRE_FALSE(strategy.has_value());
    CHECK(strategy.error().fault == CheckpointFault::kUnavailable);
    CHECK(strategy.error().message.starts_with(row.message));
    CHECK(strategy.error().errno_name == strerrorname_np(row.failure));
    CHECK(directory.Empty());
  }
}

TEST_CASE("checkpoint strategy: a directory that cannot be synced, and names that stay") {
  const TemporaryDirectory directory;
  const auto unsynced = Try(directory, [&](const std::string& call, const std::string& path) {
    FileFault fault;
    fault.failure = call == "fsync" && path == directory.Path() ? EINVAL : 0;
    return fault;
  });
  REQUIRE(unsynced.has_value());
  CHECK_FALSE(unsynced->directory_fsync);
  CHECK(unsynced->notes == std::vector<std::string>{"directory fsync refused: EINVAL"});
  const auto kept = Try(directory, FailingOn("unlink", "", EPERM));
  REQUIRE(kept.has_value());
  CHECK_FALSE(kept->removes);
  CHECK(kept->notes.back() == "unlink refused: EPERM");
}

TEST_CASE("checkpoint: saved in place where nothing can be renamed and no directory synced") {
  const TemporaryDirectory directory;
  const PlantedFileFaults planted([](const std::string& call, const std::string& path) {
    FileFault fault;
    const bool of_directory = path.find(".dlc-try") == std::string::npos &&
                              path.find("rank-") == std::string::npos &&
                              path.find("checkpoint.json") == std::string::npos;
    fault.failure = call == "rename" ? ENOSYS : call == "fsync" && of_directory ? EINVAL : 0;
    return fault;
  });
  const auto strategy = TryCheckpointStrategy(directory.Path(), "0");
  REQUIRE(strategy.has_value());
  const SavedModel model = SavedModel::Small(300);
  const auto saved = SaveAll(model, directory.Path(), {"run", 1, 3}, SmallBlocks(*strategy));
  REQUIRE(saved.has_value());
  CHECK(DifferenceOf(model, *saved) == "");
  const auto controls = PlantCheckpointDamages(directory.Path(), *strategy, Plenty());
  REQUIRE(controls.has_value());
  for (const CheckpointRefusalControl& control : *controls) {
    CHECK((control.planted && control.caught));
  }
}

TEST_CASE("checkpoint controls: where nothing can be removed nothing is planted, and it says so") {
  const TemporaryDirectory directory;
  CheckpointStrategy strategy;
  strategy.removes = false;
  const PlantedFileFaults planted(FailingOn("unlink", "", EPERM));
  const auto controls = PlantCheckpointDamages(directory.Path(), strategy, Plenty());
  REQUIRE(controls.has_value());
  for (const CheckpointRefusalControl& control : *controls) {
    CHECK_FALSE(control.planted);
    CHECK_FALSE(control.caught);
    CHECK(control.found.ends_with("EPERM"));
  }
}

TEST_CASE("checkpoint: short writes and short reads lose nothing") {
  const TemporaryDirectory directory;
  const PlantedFileFaults planted([](const std::string&, const std::string&) {
    FileFault fault;
    fault.most_bytes = 1001;
    return fault;
  });
  const SavedModel model = SavedModel::Small(300);
  CheckpointWriteOptions options = SmallBlocks();
  options.direct = true;
  const auto saved = SaveAll(model, directory.Path(), {"run", 1, 2}, options);
  REQUIRE(saved.has_value());
  CHECK(DifferenceOf(model, *saved) == "");
  CHECK(DifferenceForRanks(model, *saved, 3, SmallReads(true)) == "");
}

TEST_CASE("checkpoint: a save that the file system refuses is unavailable, by errno and call") {
  struct Row {
    const char* call;
    const char* path;
    int failure;
    const char* verb;
  };
  const Row rows[] = {{"write", "rank-", ENOSPC, "write"},
                      {"write", "rank-", EDQUOT, "write"},
                      {"fsync", "rank-", EIO, "fsync"},
                      {"fsync", "rank-", ENOSPC, "fsync"},
                      {"close", "rank-", EDQUOT, "close"},
                      {"rename", "rank-", EIO, "rename"},
                      {"open", "rank-", ESTALE, "create"},
                      {"fsync", "checkpoint.json", EIO, "fsync"},
                      {"write", "checkpoint.json", ENOSPC, "write"},
                      {"mkdir", "step-", EROFS, "make"}};
  for (const Row& row : rows) {
    CAPTURE(row.call);
    CAPTURE(row.failure);
    const TemporaryDirectory directory;
    const SavedModel model = SavedModel::Small();
    REQUIRE(SaveAll(model, directory.Path(), {"run", 1, 2}, SmallBlocks()).has_value());
    {
      const PlantedFileFaults planted(FailingOn(row.call, row.path, row.failure));
      const auto saved = SaveAll(model, directory.Path(), {"run", 2, 2}, SmallBlocks());
      REQUIRE_FALSE(saved.has_value());
      CHECK(saved.error().fault == CheckpointFault::kUnavailable);
      CHECK(saved.error().errno_name == strerrorname_np(row.failure));
      CHECK(saved.error().message.starts_with(std::string("cannot ") + row.verb + " "));
    }
    const auto latest = FindLatestCheckpoint(directory.Path());
    REQUIRE(latest.has_value());
    CHECK(latest->checkpoint->manifest.identity.step == 1);
    CHECK(DifferenceOf(model, *latest->checkpoint) == "");
  }
}

TEST_CASE("checkpoint: a read that fails or lies is named for what it is") {
  const TemporaryDirectory directory;
  const SavedModel model = SavedModel::Small(300);
  const auto saved = SaveAll(model, directory.Path(), {"run", 1, 2}, SmallBlocks());
  REQUIRE(saved.has_value());
  for (const int failure : {EIO, ESTALE}) {
    const PlantedFileFaults planted(FailingOn("pread", "rank-00001", failure));
    const auto read = ReadCheckpointShard(*saved, 1, {}, SmallReads(), Plenty());
    CHECK(read.error().fault == CheckpointFault::kUnavailable);
    CHECK(read.error().errno_name == strerrorname_np(failure));
  }
  int reads = 0;
  const PlantedFileFaults planted([&](const std::string& call, const std::string&) {
    FileFault fault;
    fault.flip_bit = call == "pread" && ++reads == 5;
    return fault;
  });
  const auto read = ReadCheckpointShard(*saved, 1, {}, SmallReads(), Plenty());
  CHECK(reads > 5);
  CHECK(read.error().fault == CheckpointFault::kDamaged);
}

TEST_CASE("checkpoint: files that appear late are waited for") {
  const TemporaryDirectory directory;
  const SavedModel model = SavedModel::Small();
  REQUIRE(SaveAll(model, directory.Path(), {"run", 1, 2}, SmallBlocks()).has_value());
  int hidden = 3;
  const PlantedFileFaults planted([&](const std::string& call, const std::string& path) {
    FileFault fault;
    if (call == "open" && path.find("checkpoint.json") != std::string::npos && hidden > 0) {
      --hidden;
      fault.failure = ENOENT;
    }
    return fault;
  });
  CHECK(AwaitCheckpoint(directory / "step-00000001", Plenty()).has_value());
  CHECK(hidden == 0);
}

TEST_CASE("checkpoint: where direct I/O is refused the bytes come another way, and it is told") {
  const TemporaryDirectory directory;
  const SavedModel model = SavedModel::Small(300);
  const auto saved = SaveAll(model, directory.Path(), {"run", 1, 1}, SmallBlocks());
  REQUIRE(saved.has_value());
  // The header takes two; the next one is the first after O_DIRECT was set.
  int reads = 0;
  const PlantedFileFaults planted([&](const std::string& call, const std::string&) {
    FileFault fault;
    fault.failure = call == "pread" && ++reads == 3 ? EINVAL : 0;
    return fault;
  });
  const auto read = ReadCheckpointShard(*saved, 0, {}, SmallReads(true), Plenty());
  if (read) {
    CHECK_FALSE(read->facts.direct);
    CHECK(read->facts.direct_refused == "EINVAL");
    CHECK(read->facts.cold_because != "direct");
  } else {
    // O_DIRECT was not to be had: the refusal met an ordinary read.
    CHECK(read.error().errno_name == "EINVAL");
  }
}

}  // namespace
}  // namespace dlc
