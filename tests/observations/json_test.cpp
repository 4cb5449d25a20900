#include "probes/observations/json.h"

#include <doctest/doctest.h>

#include <string>

namespace dlc {
namespace {

const Digest kDigest{std::string(64, 'a')};

Observations Sample() {
  Observations o;
  o.run.id = "0123456789abcdef";
  o.run.stages = {Stage::kImage, Stage::kGpu};
  o.run.inputs = {{"policy", "p.yaml", kDigest, 12}};
  o.run.tool_digest = kDigest;
  ServedImage image;
  image.reference = "r.example/x:1";
  image.digest = kDigest;
  image.is_index = true;
  image.members = {
      {kDigest, "application/vnd.oci.image.manifest.v1+json", "linux", "amd64", true, kDigest}};
  image.config = ImageConfig{
      kDigest, "linux", "amd64", "1970-01-01T00:00:00Z", {{"framework", "ray"}}, {}, {"/e"}};
  o.served_image = image;
  Pod pod;
  pod.name = "head";
  pod.spec.containers = {{"ray-head",
                          "x",
                          "Always",
                          {{"nvidia.com/gpu", "4"}},
                          {},
                          {{"A", "b", ""}},
                          {},
                          {},
                          {},
                          false}};
  pod.statuses = {{"ray-head", "x", "x@sha256:1", "running", "", "", true, 2}};
  o.cluster.pods = std::vector{pod};
  o.cluster.nodes =
      Error{ErrorCode::kPermissionDenied, "nodes is forbidden", "needs list on nodes"};
  o.cluster.ray_clusters = NotLookedAt{"no manifest given", ""};
  o.gpu_ranks = NotLookedAt{"the policy asks for no GPU (gpu.devices: no)", ""};
  o.nccl_ranks =
      RankRun{2, "local", {}, {{0, Error{ErrorCode::kUnavailable, "rank 0 was lost", ""}}}};
  o.fsdp_ranks = NotLookedAt{"the policy asks for no sharded models (fsdp.measure: no)", ""};
  o.checkpoint_ranks = NotLookedAt{"", "fabric-bandwidth/right-data"};
  o.ray.nodes = std::vector<RayNode>{{"id", "10.0.0.1", "n", true, true, {{"GPU", 4.0}}}};
  return o;
}

TEST_CASE("observations: what is written reads back equal") {
  const Observations before = Sample();
  for (const int indent : {-1, 2}) {
    const auto after = ParseObservations(ObservationsToJson(before, indent));
    if (!after) {
      FAIL(after.error().message);
    }
    CHECK(*after == before);
  }
  CHECK(ParseObservations(ObservationsToJson(Observations{}, -1)).value() == Observations{});
}

TEST_CASE("observations: every stage that runs ranks has a run of its own") {
  Observations o;
  CHECK(RanksOf(o, Stage::kImage) == nullptr);
  CHECK(RanksOf(o, Stage::kGpu) == &o.gpu_ranks);
  CHECK(RanksOf(o, Stage::kNccl) == &o.nccl_ranks);
  CHECK(RanksOf(o, Stage::kFsdp) == &o.fsdp_ranks);
  CHECK(RanksOf(o, Stage::kCheckpoint) == &o.checkpoint_ranks);
  const Observations& seen = o;
  CHECK(RanksOf(seen, Stage::kNccl) == &o.nccl_ranks);
}

TEST_CASE("observations: invalid UTF-8 from the outside world cannot stop a report") {
  Observations o;
  o.run.id = "bad\xFF";
  CHECK(ParseObservations(ObservationsToJson(o, -1)).value().run.id == "bad\xEF\xBF\xBD");
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("observations: a strange document is refused with the path") {
  const std::string good = ObservationsToJson(Sample(), -1);
  struct Row {
    std::string text;
    std::string message;
  };
  const Row rows[] = {
      {Replaced(good, "observations/v1", "observations/v9"), "apiVersion"},
      {Replaced(good, R"("id":)", R"("idd":)"), "$.run: unknown key 'idd'"},
      {Replaced(good, R"("state":"seen")", R"("state":"sene")"),
       "$.servedImage: unknown state 'sene'"},
      {Replaced(good, R"("restartCount":2)", R"("restartCount":"2")"),
       "$.cluster.pods.value[0].statuses[0].restartCount: expected a whole number"},
      {Replaced(good, R"("restartCount":2)", R"("restartCount":99999999999)"), "out of range"},
      {Replaced(good, R"("code":"permission_denied")", R"("code":"denied")"),
       "$.cluster.nodes.error.code"},
      {Replaced(good, R"(["image","gpu"])", R"(["image","tpu"])"),
       "$.run.stages[1]: unknown stage 'tpu'"},
      {Replaced(good, R"(,"nodes":{"state":"error")", R"(,"nodez":{"state":"error")"),
       "$.cluster: missing key 'nodes'"},
      {Replaced(good, std::string(64, 'a'), std::string(63, 'a')), "is not a digest"},
      {"[]", "not an observations document"},
      {"{\"apiVersion\":\"dlc-check/observations/v1\"}", "missing key 'run'"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.message);
    const auto result = ParseObservations(row.text);
    REQUIRE_FALSE(result.has_value());
    CAPTURE(result.error().message);
    CHECK(result.error().code == ErrorCode::kInvalidInput);
    CHECK(result.error().message.find(row.message) != std::string::npos);
  }
  CHECK_FALSE(ParseObservations(good, 100).has_value());
}

}  // namespace
}  // namespace dlc
