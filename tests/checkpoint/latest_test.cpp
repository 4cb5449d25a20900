#include "tests/checkpoint/saved_model.h"
#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

CheckpointResult<Checkpoint> Save(const TemporaryDirectory& directory, std::int64_t step,
                                  int ranks = 2) {
  return SaveAll(SavedModel::Small(), directory.Path(), {"run", step, ranks}, SmallBlocks());
}

TEST_CASE("checkpoint: the latest is the newest whole one, the others are told with their reason") {
  const TemporaryDirectory directory;
  CHECK_FALSE(FindLatestCheckpoint(directory.Path())->checkpoint.has_value());
  REQUIRE(Save(directory, 1).has_value());
  REQUIRE(Save(directory, 2).has_value());
  REQUIRE(Save(directory, 3).has_value());
  REQUIRE(Save(directory, 4).has_value());
  std::filesystem::remove(directory / "step-00000003/rank-00001-of-00002.safetensors");
  std::filesystem::remove(directory / "step-00000004/checkpoint.json");
  directory.Write("step-9/checkpoint.json", "none of ours");
  const auto latest = FindLatestCheckpoint(directory.Path());
  REQUIRE(latest.has_value());
  REQUIRE(latest->checkpoint.has_value());
  CHECK(latest->checkpoint->manifest.identity.step == 2);
  REQUIRE(latest->passed_over.size() == 2);
  CHECK(latest->passed_over[0].step == 4);
  CHECK(latest->passed_over[0].why.message ==
        directory / "step-00000004/checkpoint.json: no manifest");
  CHECK(latest->passed_over[1].why.message ==
        directory / "step-00000003/rank-00001-of-00002.safetensors: absent");
  const auto nowhere = FindLatestCheckpoint(directory / "missing");
  CHECK(nowhere.error().errno_name == "ENOENT");
}

TEST_CASE("checkpoint: what cannot be looked at is not passed over") {
  const TemporaryDirectory directory;
  REQUIRE(Save(directory, 1).has_value());
  std::filesystem::create_directories(directory / "step-00000002/checkpoint.json");
  const auto latest = FindLatestCheckpoint(directory.Path());
  REQUIRE_FALSE(latest.has_value());
  CHECK(latest.error().fault == CheckpointFault::kUnavailable);
  CHECK(latest.error().errno_name == "EISDIR");
}

TEST_CASE("checkpoint: a half step is made anew, a whole one is kept") {
  const TemporaryDirectory directory;
  directory.Write("step-00000001/.rank-00000-of-00002.safetensors.tmp", "half");
  directory.Write("step-00000001/rank-00001-of-00004.safetensors", "of other ranks");
  REQUIRE(Save(directory, 1).has_value());
  CHECK(std::distance(std::filesystem::directory_iterator(directory / "step-00000001"), {}) == 3);
  const auto again = Save(directory, 1);
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().fault == CheckpointFault::kInvalid);
  CHECK(OpenCheckpoint(directory / "step-00000001").has_value());
}

TEST_CASE("checkpoint: older ones go only when the new one is whole") {
  const TemporaryDirectory directory;
  REQUIRE(Save(directory, 1).has_value());
  REQUIRE(Save(directory, 2).has_value());
  REQUIRE(Save(directory, 7).has_value());
  directory.Write("notes", "not ours");
  REQUIRE(PrepareCheckpointStep(directory.Path(), 5, {}).has_value());
  const auto refused = RemoveOlderCheckpoints(directory.Path(), 5, {});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().fault == CheckpointFault::kPartial);
  CHECK(OpenCheckpoint(directory / "step-00000001").has_value());
  CheckpointStrategy keeps;
  keeps.removes = false;
  CHECK(RemoveOlderCheckpoints(directory.Path(), 2, keeps)->empty());
  CHECK(*RemoveOlderCheckpoints(directory.Path(), 2, {}) ==
        std::vector<std::string>{"step-00000001"});
  CHECK(directory.Count() == 4);
  CHECK(RemoveCheckpoint(directory / "step-00000007", {}).has_value());
  CHECK(RemoveCheckpoint(directory / "step-00000007", {}).has_value());
  CHECK(directory.Count() == 3);
}

TEST_CASE("checkpoint: waiting ends at the deadline, and at once for what is not partial") {
  const TemporaryDirectory directory;
  const auto soon = [] { return Deadline::After(std::chrono::milliseconds(30)); };
  const auto missing = AwaitCheckpoint(directory / "step-00000001", soon());
  CHECK(missing.error().fault == CheckpointFault::kPartial);
  REQUIRE(Save(directory, 1).has_value());
  CHECK(AwaitCheckpoint(directory / "step-00000001", soon()).has_value());
  directory.Write("step-00000001/checkpoint.json", "{\"}\n");
  CHECK(AwaitCheckpoint(directory / "step-00000001", Plenty()).error().fault ==
        CheckpointFault::kDamaged);
}

}  // namespace
}  // namespace dlc
