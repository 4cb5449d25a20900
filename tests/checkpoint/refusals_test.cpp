#include <fstream>

#include "probes/node/checkpoint/checkpoint_controls.h"
#include "probes/node/sha256/sha256.h"
#include "tests/checkpoint/saved_model.h"
#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A saved set of two ranks, to be damaged.
struct Victim {
  TemporaryDirectory directory;
  SavedModel model = SavedModel::Small();
  CheckpointIdentity identity{"run", 5, 2};

  Victim() { REQUIRE(SaveAll(model, directory.Path(), identity, SmallBlocks()).has_value()); }
  std::string Step() const { return directory / "step-00000005"; }
  std::string File(int rank) const { return Step() + "/" + CheckpointShardName(rank, 2); }
  /// The first failure of opening and reading all of it.
  CheckpointFailure Failure() const {
    const auto checkpoint = OpenCheckpoint(Step());
    if (!checkpoint) {
      return checkpoint.error();
    }
    for (int rank = 0; rank < 2; ++rank) {
      const auto read = ReadCheckpointShard(*checkpoint, rank, {}, SmallReads(), Plenty());
      if (!read) {
        return read.error();
      }
    }
    const auto rows = CheckpointRows::Open(*checkpoint, SmallReads());
    if (!rows) {
      return rows.error();
    }
    return {CheckpointFault::kInvalid, "nothing is wrong", "", ""};
  }
  void Put(int rank, const std::string& bytes) const {
    std::ofstream(File(rank), std::ios::binary) << bytes;
  }
  /// A manifest that fits the files as they are.
  void Reseal() const {
    CheckpointManifest manifest{identity, {}, {}};
    for (int rank = 0; rank < 2; ++rank) {
      const std::string bytes = Content(File(rank));
      Sha256 hash;
      hash.Add(bytes);
      manifest.shards.push_back({CheckpointShardName(rank, 2),
                                 static_cast<std::int64_t>(bytes.size()), hash.FinishDigest()});
    }
    std::ofstream(Step() + "/checkpoint.json") << *WriteCheckpointManifest(manifest);
  }
};

TEST_CASE("checkpoint: an undamaged set is taken") {
  CHECK(Victim().Failure().message == "nothing is wrong");
}

TEST_CASE("checkpoint: partial sets") {
  {
    const Victim victim;
    std::filesystem::remove(victim.Step() + "/checkpoint.json");
    CHECK(victim.Failure().message == victim.Step() + "/checkpoint.json: no manifest");
    CHECK(victim.Failure().fault == CheckpointFault::kPartial);
  }
  const Victim victim;
  const std::string whole = Content(victim.File(1));
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    CAPTURE(size);
    victim.Put(1, whole.substr(0, size));
    const auto failure = victim.Failure();
    CHECK(failure.fault == CheckpointFault::kPartial);
    CHECK(failure.message == victim.File(1) + ": expected " + std::to_string(whole.size()) +
                                 " bytes, found " + std::to_string(size));
  }
}

TEST_CASE("checkpoint: any flipped bit of a file is refused, wherever it is") {
  const Victim victim;
  const std::string whole = Content(victim.File(1));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    CAPTURE(at);
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    victim.Put(1, changed);
    const auto failure = victim.Failure();
    CHECK(failure.fault != CheckpointFault::kInvalid);
    CHECK(failure.fault != CheckpointFault::kUnavailable);
    CHECK(failure.file == victim.File(1));
    if (at + 40 > whole.size()) {
      CHECK(failure.fault == CheckpointFault::kDamaged);
      CHECK(failure.message.find("expected sha256:") != std::string::npos);
    }
  }
  victim.Put(1, whole + "x");
  CHECK(victim.Failure().fault == CheckpointFault::kDamaged);
}

TEST_CASE(
    "checkpoint: swapped, stale and mixed-run are told apart, also under a fitting manifest") {
  for (const bool resealed : {false, true}) {
    CAPTURE(resealed);
    const auto failure_after = [&](const std::function<void(const Victim&)>& damage) {
      const Victim victim;
      damage(victim);
      if (resealed) {
        victim.Reseal();
      }
      const auto failure = victim.Failure();
      return std::string(CheckpointFaultName(failure.fault)) +
             failure.message.substr(failure.message.find(": "));
    };
    CHECK(failure_after([](const Victim& victim) {
            const std::string zero = Content(victim.File(0));
            victim.Put(0, Content(victim.File(1)));
            victim.Put(1, zero);
          }) == "swapped: expected rank 0 of 2, the file says rank 1 of 2");
    CHECK(failure_after([](const Victim& victim) {
            const auto older =
                SaveAll(victim.model, victim.directory.Path(), {"run", 4, 2}, SmallBlocks());
            victim.Put(1, Content(older->directory + "/" + CheckpointShardName(1, 2)));
          }) == "stale: expected step 5, the file says step 4");
    CHECK(
        failure_after([](const Victim& victim) {
          const TemporaryDirectory other;
          const auto foreign = SaveAll(victim.model, other.Path(), {"other", 5, 2}, SmallBlocks());
          victim.Put(1, Content(foreign->directory + "/" + CheckpointShardName(1, 2)));
        }) == "mixed-run: expected run 'run', the file says run 'other'");
    CHECK(failure_after([](const Victim& victim) {
            const TemporaryDirectory other;
            const auto more = SaveAll(victim.model, other.Path(), {"run", 5, 3}, SmallBlocks());
            victim.Put(1, Content(more->directory + "/" + CheckpointShardName(1, 3)));
          }) == "swapped: expected rank 1 of 2, the file says rank 1 of 3");
  }
}

TEST_CASE("checkpoint: a whole set under another step's name is stale") {
  const Victim victim;
  std::filesystem::rename(victim.Step(), victim.directory / "step-00000009");
  const auto failure = OpenCheckpoint(victim.directory / "step-00000009").error();
  CHECK(failure.fault == CheckpointFault::kStale);
  CHECK(failure.message.ends_with("expected step 9, the manifest says step 5"));
}

/// Saves two ranks with these rows of one tensor of 6 and opens it for reading by rows.
CheckpointFailure FailureOfRows(std::int64_t first0, std::int64_t rows0, std::int64_t first1,
                                std::int64_t rows1, std::int64_t all1 = 6) {
  const TemporaryDirectory directory;
  const CheckpointIdentity identity{"run", 1, 2};
  const auto step = PrepareCheckpointStep(directory.Path(), 1, {});
  CheckpointManifest manifest{identity, {}, {}};
  const std::vector<std::byte> zeros(64);
  const auto source = [&](std::size_t, std::int64_t, std::int64_t) -> Result<const std::byte*> {
    return zeros.data();
  };
  for (int rank = 0; rank < 2; ++rank) {
    const CheckpointTensor rows = rank == 0 ? CheckpointTensor{"t", {6}, first0, rows0}
                                            : CheckpointTensor{"t", {all1}, first1, rows1};
    const auto written =
        WriteCheckpointShard(*step, {identity, rank, {}, {rows}}, source, SmallBlocks(), Plenty());
    REQUIRE(written.has_value());
    manifest.shards.push_back(written->file);
  }
  REQUIRE(PublishCheckpoint(*step, manifest, SmallBlocks()).has_value());
  const auto rows = CheckpointRows::Open(*OpenCheckpoint(*step), SmallReads());
  return rows ? CheckpointFailure{CheckpointFault::kInvalid, "taken", "", ""} : rows.error();
}

TEST_CASE("checkpoint: rows that nobody holds, and rows that two hold") {
  CHECK(FailureOfRows(0, 3, 3, 3).message == "taken");
  CHECK(FailureOfRows(3, 3, 0, 3).message == "taken");
  CHECK(FailureOfRows(0, 0, 0, 6).message == "taken");
  const auto end = [](const CheckpointFailure& failure) {
    return std::string(CheckpointFaultName(failure.fault)) +
           failure.message.substr(failure.message.find(": "));
  };
  CHECK(end(FailureOfRows(0, 2, 3, 3)) == "partial: tensor 't': rows 2 to 2 are in no file");
  CHECK(end(FailureOfRows(1, 2, 3, 3)) == "partial: tensor 't': rows 0 to 0 are in no file");
  CHECK(end(FailureOfRows(0, 3, 3, 1)) == "partial: tensor 't': rows 4 to 5 are in no file");
  CHECK(end(FailureOfRows(0, 4, 3, 3)) ==
        "swapped: tensor 't': rows 3 to 3 are in the files of rank 0 and of rank 1");
  CHECK(FailureOfRows(0, 3, 3, 3, 7).fault == CheckpointFault::kDamaged);
}

TEST_CASE("checkpoint: each of five planted damages is refused for its own reason") {
  for (const auto publish : {CheckpointPublish::kRename, CheckpointPublish::kInPlace}) {
    const TemporaryDirectory directory;
    CheckpointStrategy strategy;
    strategy.publish = publish;
    const auto controls = PlantCheckpointDamages(directory.Path(), strategy, Plenty());
    REQUIRE(controls.has_value());
    REQUIRE(controls->size() == 5);
    for (const CheckpointRefusalControl& control : *controls) {
      CAPTURE(control.name);
      CAPTURE(control.found);
      CHECK(control.planted);
      CHECK(control.caught);
      CHECK(control.found.starts_with(control.name + ": "));
    }
    CHECK(directory.Empty());
  }
  CHECK_FALSE(PlantCheckpointDamages("/no/such", {}, Plenty()).has_value());
}

}  // namespace
}  // namespace dlc
