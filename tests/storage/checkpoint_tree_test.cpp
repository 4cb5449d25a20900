#include "probes/node/storage/checkpoint_tree.h"

#include "probes/node/storage/checkpoint_names.h"
#include "tests/storage/ranks_in_threads.h"

namespace dlc {
namespace {

Result<CheckpointTree> Look(const TemporaryDirectory& directory, std::int64_t hashed_bytes = 16) {
  return ObserveCheckpointTree({directory.Path(), hashed_bytes}, Deadline::After(kPlenty));
}

TEST_CASE("checkpoint-tree: shards by rank, metadata, and nothing else") {
  const TemporaryDirectory directory;
  for (const char* name : {"__10_0.distcp", "__2_1.distcp", "__2_0.distcp", ".metadata",
                           ".metadata.tmp", "__x_0.distcp", "__3_.distcp", "__3.distcp",
                           "__-1_0.distcp", "_1_0.distcp", "model.safetensors"}) {
    directory.Write(name, std::string("content of ") + name);
  }
  const auto tree = Look(directory);
  REQUIRE(tree.has_value());
  CHECK(tree->has_metadata);
  CHECK(tree->metadata_bytes == 20);
  REQUIRE(tree->shards.size() == 3);
  CHECK(tree->shards[0].name == "__2_0.distcp");
  CHECK(tree->shards[1].name == "__2_1.distcp");
  CHECK(tree->shards[2].rank == 10);
  CHECK(tree->shards[2].size_bytes == 24);
  CHECK(tree->kind == "dcp");
  CHECK(tree->unfinished == std::vector<std::string>{".metadata.tmp"});
  CHECK(tree->other_files == 6);
}

TEST_CASE("checkpoint-tree: the digest sees both ends and the whole of small files") {
  const TemporaryDirectory directory;
  const auto digest = [&](const std::string& content, std::int64_t part) {
    directory.Write("__0_0.distcp", content);
    return Look(directory, part)->shards.at(0).digest.hex;
  };
  CHECK(digest("abc", 16) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(digest("abc", 0).empty());
  const std::string base(100, 'a');
  const auto changed = [&](std::size_t at) {
    std::string other = base;
    other[at] = 'b';
    return digest(other, 16) != digest(base, 16);
  };
  CHECK(changed(0));
  CHECK(changed(15));
  CHECK_FALSE(changed(50));  // says so: hashed_bytes_per_file
  CHECK(changed(84));
  CHECK(changed(99));
}

TEST_CASE("checkpoint-tree: a directory that cannot be read is an error with its reason") {
  CHECK(ObserveCheckpointTree({"/no/such", 0}, Deadline::After(kPlenty)).error().message ==
        "cannot read /no/such: ENOENT");
}

TEST_CASE("checkpoint names: rank and world size of each writer's") {
  const auto name = ParseCheckpointName("rank-00003-of-00004.safetensors");
  REQUIRE(name.has_value());
  CHECK(name->kind == "dlc-check");
  CHECK(name->rank == 3);
  CHECK(name->stated_ranks == 4);
  CHECK(ParseCheckpointName("zero_pp_rank_2_mp_rank_01_optim_states.pt")->part ==
        "optim_states of mp_rank 1");
  CHECK(ParseCheckpointName("model_world_size_8_rank_7.pt")->rank == 7);
  for (const char* other : {"", "__", "__1", "__1_", "__1_0.distcp2", "__99999999999_0.distcp",
                            "rank-1-of-.safetensors", "_world_size_8_rank_7.pt",
                            "zero_pp_rank_2_mp_rank_01_other_states.pt", "model.pt",
                            "__+1_0.distcp", "..", "mp_rank_-1_model_states.pt"}) {
    CAPTURE(other);
    CHECK_FALSE(ParseCheckpointName(other).has_value());
  }
}

TEST_CASE("checkpoint names: directories of Ray Train") {
  CHECK(RayDirectoryVersion("checkpoint_2026-01-02_03-04-05.678901") == "v2");
  CHECK(RayDirectoryVersion("checkpoint_2026-01-02_03-04-05") == "v2");
  CHECK(RayDirectoryVersion("checkpoint_000012") == "v1");
  for (const char* other : {"checkpoint_", "checkpoint_best", "checkpoint_2026-01-02_03-04-05.",
                            "checkpoint_2026-01-02_03-04-05x1", "my_checkpoint_000001"}) {
    CAPTURE(other);
    CHECK(RayDirectoryVersion(other).empty());
  }
}

}  // namespace
}  // namespace dlc
