#include <span>

#include "tests/checkpoint/saved_model.h"
#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

TEST_CASE("checkpoint: what ranks saved comes back, from small and from large files") {
  for (const std::int64_t scale : {1, 1000}) {
    for (const int ranks : {1, 2, 4, 7}) {
      CAPTURE(scale);
      CAPTURE(ranks);
      const TemporaryDirectory directory;
      const SavedModel model = SavedModel::Small(scale);
      const auto saved = SaveAll(model, directory.Path(), {"run", 5, ranks}, SmallBlocks());
      REQUIRE(saved.has_value());
      CHECK(saved->directory == directory / "step-00000005");
      CHECK(saved->manifest.extra.at("data_position") == "42");
      CHECK(DifferenceOf(model, *saved) == "");
      const auto header = ReadCheckpointShardHeader(*saved, ranks - 1);
      REQUIRE(header.has_value());
      CHECK(header->rank == ranks - 1);
      CHECK(header->extra.at("seed") == "7");
    }
  }
}

TEST_CASE("checkpoint: other numbers of ranks read their own rows") {
  struct Row {
    int saved;
    int read;
  };
  const SavedModel model = SavedModel::Small(300);
  for (const Row row : {Row{4, 2}, Row{4, 3}, Row{2, 5}, Row{1, 7}, Row{7, 1}}) {
    CAPTURE(row.saved);
    CAPTURE(row.read);
    const TemporaryDirectory directory;
    const auto saved = SaveAll(model, directory.Path(), {"run", 1, row.saved}, SmallBlocks());
    REQUIRE(saved.has_value());
    CHECK(DifferenceForRanks(model, *saved, row.read, SmallReads(false)) == "");
    CHECK(DifferenceForRanks(model, *saved, row.read, SmallReads(true)) == "");
  }
}

TEST_CASE("checkpoint: O_DIRECT writes and reads the same bytes, or says why not") {
  const TemporaryDirectory directory;
  const SavedModel model = SavedModel::Small(500);
  CheckpointWriteOptions options = SmallBlocks();
  options.direct = true;
  const auto step = PrepareCheckpointStep(directory.Path(), 3, {});
  REQUIRE(step.has_value());
  const CheckpointIdentity identity{"run", 3, 1};
  const auto direct = SaveRank(model, *step, identity, 0, options);
  REQUIRE(direct.has_value());
  CHECK(direct->direct == direct->direct_refused.empty());
  REQUIRE(PublishCheckpoint(*step, {identity, {}, {direct->file}}, options).has_value());
  const auto saved = OpenCheckpoint(*step);
  REQUIRE(saved.has_value());
  CHECK(DifferenceOf(model, *saved) == "");
  const auto read = ReadCheckpointShard(*saved, 0, {}, SmallReads(true), Plenty());
  REQUIRE(read.has_value());
  CHECK(read->facts.bytes == direct->file.bytes);
  CHECK(read->facts.direct == read->facts.direct_refused.empty());
  CHECK(read->facts.resident_fraction >= 0);
}

TEST_CASE("checkpoint: nothing in memory is called cold") {
  const std::string root = "/dev/shm";
  const TemporaryDirectory other;
  const SavedModel model = SavedModel::Small(100);
  const auto kept = SaveAll(model, other.Path(), {"run", 1, 1}, SmallBlocks());
  REQUIRE(kept.has_value());
  const auto warm = ReadCheckpointShard(*kept, 0, {}, SmallReads(false), Plenty());
  REQUIRE(warm.has_value());
  CHECK(warm->facts.cold_because == "");
  CHECK(warm->facts.resident_fraction == -1);
  std::string memory = root + "/dlc-test-XXXXXX";
  REQUIRE(mkdtemp(memory.data()) != nullptr);
  const auto saved = SaveAll(model, memory, {"run", 1, 1}, SmallBlocks());
  REQUIRE(saved.has_value());
  const auto read = ReadCheckpointShard(*saved, 0, {}, SmallReads(true), Plenty());
  std::filesystem::remove_all(memory);
  REQUIRE(read.has_value());
  CHECK(read->facts.resident_fraction == 1);
  CHECK(read->facts.cold_because == "");
}

TEST_CASE("checkpoint: a request that cannot be met touches nothing") {
  const TemporaryDirectory directory;
  const CheckpointSource none = [](std::size_t, std::int64_t,
                                   std::int64_t) -> Result<const std::byte*> {
    return Error{ErrorCode::kInternal, "not asked", ""};
  };
  const auto fault = [&](std::vector<CheckpointTensor> tensors, CheckpointExtra extra = {},
                         std::int64_t block = 4096) {
    const CheckpointShard shard{{"run", 1, 1}, 0, std::move(extra), std::move(tensors)};
    const auto written =
        WriteCheckpointShard(directory.Path(), shard, none, {{}, block, false}, Plenty());
    REQUIRE_FALSE(written.has_value());
    CHECK(written.error().fault == CheckpointFault::kInvalid);
    CHECK(directory.Empty());
    return written.error().message;
  };
  CHECK(fault({{"a", {}, 0, 1}}) == "rank 0: tensor 'a': a scalar has no rows");
  CHECK(fault({{"a", {2}, 1, 2}}) == "rank 0: tensor 'a': rows 1 and 2 more of 2");
  CHECK(fault({{"a", {2}, 0, 1}, {"a", {2}, 1, 1}}) == "rank 0: tensor 'a': is there twice");
  CHECK(fault({{"a", {2}, 0, 1, "F31"}}) == "rank 0: tensor 'a': unknown type 'F31'");
  CHECK(fault({}, {{"dlc.x", ""}}) == "rank 0: key 'dlc.x' begins with 'dlc.'");
  CHECK(fault({}, {}, 1000).find("no multiple of 4096") != std::string::npos);
}

TEST_CASE("checkpoint: the caller's own error is the caller's, and nothing half-written stays") {
  const TemporaryDirectory directory;
  const CheckpointSource gives_up = [](std::size_t, std::int64_t,
                                       std::int64_t) -> Result<const std::byte*> {
    return Error{ErrorCode::kUnavailable, "the GPU is gone", ""};
  };
  const CheckpointShard shard{{"run", 1, 1}, 0, {}, {{"a", {2}, 0, 2}}};
  const auto written =
      WriteCheckpointShard(directory.Path(), shard, gives_up, SmallBlocks(), Plenty());
  REQUIRE_FALSE(written.has_value());
  CHECK(written.error().fault == CheckpointFault::kCaller);
  CHECK(written.error().message.find("the GPU is gone") != std::string::npos);
  CHECK(directory.Empty());
  const auto late = WriteCheckpointShard(directory.Path(), shard, gives_up, SmallBlocks(),
                                         Deadline::After(std::chrono::milliseconds(0)));
  CHECK(late.error().fault == CheckpointFault::kTimedOut);
  CHECK(directory.Empty());
}

TEST_CASE("checkpoint: rows that are not there cannot be read") {
  const TemporaryDirectory directory;
  const SavedModel model = SavedModel::Small();
  const auto saved = SaveAll(model, directory.Path(), {"run", 1, 2}, SmallBlocks());
  auto rows = CheckpointRows::Open(*saved, SmallReads());
  REQUIRE(rows.has_value());
  CHECK(rows->Tensors().size() == model.tensors.size());
  std::vector<std::byte> space(3 * sizeof(float));
  const auto fault = [&](const std::string& tensor, std::int64_t first, std::int64_t count) {
    const auto read = rows->Read(tensor, first, count, space, Plenty());
    return read ? std::string("read") : CheckpointFaultName(read.error().fault);
  };
  CHECK(fault("norm.weight", 0, 3) == "read");
  CHECK(fault("norm.weight", 1, 3) == "invalid");
  CHECK(fault("norm.weight", 0, 2) == "invalid");  // into three rows' space
  CHECK(fault("norm.bias", 0, 3) == "invalid");
}

}  // namespace
}  // namespace dlc
