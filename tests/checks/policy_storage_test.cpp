#include <doctest/doctest.h>

#include <string>

#include "checks/policy_yaml.h"

namespace dlc {
namespace {

Result<Policy> ReadStorage(const std::string& storage) {
  return ParsePolicy("apiVersion: dlc-check/v1\nkind: Policy\nstorage:\n" + storage, "p.yaml");
}

TEST_CASE("policy storage: every key is read") {
  const auto policy = ReadStorage(
      "  filesystems: [lustre]\n"
      "  minFreeBytes: 10\n"
      "  minFreeInodes: 11\n"
      "  visibleWithinSeconds: 12\n"
      "  minWriteBytesPerSecond: 13\n"
      "  minColdReadBytesPerSecond: 14\n"
      "  parameters: 7.0e+9\n"
      "  predict: [qwen2.5-0.5b]\n"
      "  maxBytesPerRank: 8388608\n"
      "  maxSaveSeconds: 15\n"
      "  maxRestoreSeconds: 16\n"
      "  minShareOfFirstHalf: 0.25\n"
      "  burstBytes: 0\n"
      "  metadataFiles: 17\n"
      "  minMetadataOperationsPerSecond: 18\n");
  REQUIRE_MESSAGE(policy.has_value(), policy.error().message);
  const StoragePolicy& storage = policy->storage;
  CHECK(storage.filesystems == std::vector<std::string>{"lustre"});
  CHECK(storage.min_free_bytes == 10);
  CHECK(storage.min_free_inodes == 11);
  CHECK(storage.visible_within_seconds == 12);
  CHECK(storage.min_write_bytes_per_second == 13);
  CHECK(storage.min_cold_read_bytes_per_second == 14);
  CHECK(storage.parameters == 7'000'000'000);
  CHECK(storage.predict == std::vector<std::string>{"qwen2.5-0.5b"});
  CHECK(storage.max_bytes_per_rank == 8'388'608);
  CHECK(storage.max_save_seconds == 15);
  CHECK(storage.max_restore_seconds == 16);
  CHECK(storage.min_share_of_first_half == 0.25);
  CHECK(storage.burst_bytes == 0);
  CHECK(storage.metadata_files == 17);
  CHECK(storage.min_metadata_operations_per_second == 18);
}

TEST_CASE("policy storage: without it a short measurement, and nothing is demanded of its rates") {
  const auto policy = ReadStorage("  {}\n");
  REQUIRE(policy.has_value());
  CHECK(policy->storage.max_bytes_per_rank == 32 << 20);
  CHECK(policy->storage.predict == std::vector<std::string>{"qwen2.5-1.5b"});
  CHECK_FALSE(policy->storage.burst_bytes.has_value());
  CHECK(policy->storage.metadata_files == 1000);
  CHECK(policy->storage.max_save_seconds == 0);
}

TEST_CASE("policy storage: what cannot be meant is refused, with line and remedy") {
  struct Row {
    std::string text;
    std::string problem;
  };
  const Row rows[] = {
      {"  parameters: 0\n",
       "p.yaml: line 4: 'storage.parameters' must be a number from 1 to 1e+13, not '0'"},
      {"  parameters: 7B\n", "p.yaml: line 4: 'storage.parameters' must be a number, not '7B'"},
      {"  predict: [llama]\n",
       "p.yaml: line 4: 'storage.predict' must be of qwen2-tiny, qwen2.5-0.5b, qwen2.5-1.5b, "
       "not 'llama'"},
      {"  maxBytesPerRank: 1000\n",
       "p.yaml: line 4: 'storage.maxBytesPerRank' must be a number from 4194304 to"},
      {"  minShareOfFirstHalf: 2\n",
       "p.yaml: line 4: 'storage.minShareOfFirstHalf' must be a number from 0 to 1, not '2'"},
      {"  burstBytes: -1\n", "p.yaml: line 4: 'storage.burstBytes' must be a number from 0"},
      {"  metadataFiles: 0\n  minMetadataOperationsPerSecond: 5\n",
       "p.yaml: line 5: 'storage.minMetadataOperationsPerSecond' cannot stand beside "
       "'metadataFiles: 0': nothing would be measured (remove one of them)"},
      {"  maxSaveSecs: 5\n",
       "p.yaml: line 4: unknown key 'maxSaveSecs' in 'storage' (did you mean 'maxSaveSeconds'?)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const auto policy = ReadStorage(row.text);
    REQUIRE_FALSE(policy.has_value());
    const std::string& hint = policy.error().hint;
    const std::string said = policy.error().message + (hint.empty() ? "" : " (" + hint + ")");
    CAPTURE(said);
    CHECK(said.find(row.problem) == 0);
  }
}

}  // namespace
}  // namespace dlc
