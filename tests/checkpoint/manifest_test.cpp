#include <doctest/doctest.h>

#include "probes/node/checkpoint/checkpoint_set.h"
#include "probes/node/sha256/sha256.h"

namespace dlc {
namespace {

CheckpointManifest Two() {
  const std::string hex(64, 'a');
  return {{"run", 5, 2},
          {{"seed", "\"7\""}},
          {{CheckpointShardName(0, 2), 10, {hex}}, {CheckpointShardName(1, 2), 0, {hex}}}};
}

/// `text` up to its seal, changed and sealed anew.
std::string Resealed(const std::string& text, const std::string& from, const std::string& to) {
  const std::string key = ",\"manifest_sha256\":\"";
  std::string body = text.substr(0, text.rfind(key));
  const std::size_t at = body.find(from);
  REQUIRE(at != std::string::npos);
  body.replace(at, from.size(), to);
  Sha256 hash;
  hash.Add(body);
  return body + key + hash.FinishDigest().hex + "\"}\n";
}

TEST_CASE("checkpoint names: one for each step and rank, and back") {
  CHECK(CheckpointStepName(5) == "step-00000005");
  CHECK(CheckpointShardName(0, 4) == "rank-00000-of-00004.safetensors");
  CHECK(StepOfCheckpointName("step-00000005") == 5);
  CHECK(StepOfCheckpointName("step-123456789") == 123456789);
  for (const char* name : {"step-5", "step-000000005", "step-", "step-0000000x", "step--0000001",
                           "step-00000005.tmp", "xstep-00000005"}) {
    CHECK(StepOfCheckpointName(name) == -1);
  }
}

TEST_CASE("checkpoint manifest: reads back as it was written") {
  const auto text = WriteCheckpointManifest(Two());
  REQUIRE(text.has_value());
  const auto again = ParseCheckpointManifest(*text, "m");
  REQUIRE(again.has_value());
  CHECK(*again == Two());
}

TEST_CASE("checkpoint manifest: every beginning of it is partial, every changed byte damage") {
  const std::string text = *WriteCheckpointManifest(Two());
  for (std::size_t size = 0; size < text.size(); ++size) {
    CAPTURE(size);
    const auto cut = ParseCheckpointManifest(text.substr(0, size), "m");
    REQUIRE_FALSE(cut.has_value());
    CHECK(cut.error().fault == CheckpointFault::kPartial);
  }
  for (std::size_t at = 0; at < text.size(); ++at) {
    CAPTURE(at);
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK_FALSE(ParseCheckpointManifest(changed, "m").has_value());
  }
}

TEST_CASE("checkpoint manifest: sealed nonsense is damage") {
  const std::string text = *WriteCheckpointManifest(Two());
  REQUIRE(ParseCheckpointManifest(Resealed(text, "\"step\":5", "\"step\":6"), "m").has_value());
  const std::pair<const char*, const char*> changes[] = {{"\"format\":1", "\"format\":2"},
                                                         {"\"ranks\":2", "\"ranks\":3"},
                                                         {"\"ranks\":2", "\"ranks\":-2"},
                                                         {"\"step\":5", "\"step\":5.0"},
                                                         {"\"run_id\"", "\"run\""},
                                                         {"rank-00001", "rank-00000"},
                                                         {"rank-00001", "../rank-1"},
                                                         {"\"bytes\":10", "\"bytes\":\"10\""},
                                                         {"aaaaaaaa", "AAAAAAAA"},
                                                         {"\"extra\":{", "\"extra\":{\"x\":1,"},
                                                         {"\"step\":5", "\"step\":5,\"x\":5"},
                                                         {"\"step\":5", "\"step\":5,\"step\":5"}};
  for (const auto& change : changes) {
    CAPTURE(change.second);
    const auto parsed = ParseCheckpointManifest(Resealed(text, change.first, change.second), "m");
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().fault == CheckpointFault::kDamaged);
    CHECK(parsed.error().message.starts_with("m: "));
  }
}

TEST_CASE("checkpoint manifest: what is none is not written") {
  const auto written = [](void (*change)(CheckpointManifest&)) {
    CheckpointManifest manifest = Two();
    change(manifest);
    return WriteCheckpointManifest(manifest).has_value();
  };
  CHECK(written([](CheckpointManifest&) {}));
  CHECK_FALSE(written([](CheckpointManifest& m) { m.shards.pop_back(); }));
  CHECK_FALSE(written([](CheckpointManifest& m) { m.shards[1].name = "x"; }));
  CHECK_FALSE(written([](CheckpointManifest& m) { m.shards[1].sha256 = {}; }));
  CHECK_FALSE(written([](CheckpointManifest& m) { m.extra["x"] = "\xFF"; }));
  CHECK_FALSE(written([](CheckpointManifest& m) { m.identity.step = -1; }));
}

}  // namespace
}  // namespace dlc
