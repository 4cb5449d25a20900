#include "probes/control/files/ray_answers.h"

#include <doctest/doctest.h>

#include <string>

namespace dlc {
namespace {

std::string NodeJson(const std::string& state, const std::string& rest) {
  return R"({"node_id":"a","node_ip":"10.0.0.1","is_head_node":true,"node_name":"10.0.0.1","state":")" +
         state + "\"" + rest + "}";
}
std::string Envelope(const std::string& counts, const std::string& list) {
  return R"({"result":true,"msg":"","data":{"result":{)" + counts + R"(,"result":)" + list + "}}}";
}
const std::string kAlive = NodeJson("ALIVE", R"(,"resources_total":{"CPU":4.0,"GPU":8})");

TEST_CASE("ray version: ray_version is Ray's, version is the Jobs API's") {
  const auto answer = ParseRayVersion(
      R"({"version":"4","ray_version":"2.58.0","ray_commit":"c","session_name":"s"})", "v.json");
  REQUIRE(answer);
  CHECK(answer->ray_version == "2.58.0");
  CHECK(answer->jobs_api_version == "4");
  CHECK(answer->session_name == "s");
  const auto without = ParseRayVersion(R"({"version":"4"})", "v.json");
  REQUIRE_FALSE(without);
  CHECK(without.error().message == "v.json: line 1: ray_version: is missing");
  CHECK_FALSE(ParseRayVersion("", "v.json"));
  CHECK_FALSE(ParseRayVersion("[]", "v.json"));
}

TEST_CASE("ray nodes: the envelope and the bare list give the same nodes") {
  const auto enveloped = ParseRayNodes(
      Envelope(R"("total":1,"num_after_truncation":1,"num_filtered":1)", "[" + kAlive + "]"), "n");
  const auto bare = ParseRayNodes("[" + kAlive + "]", "n");
  REQUIRE_MESSAGE(enveloped, enveloped.error().message);
  REQUIRE(bare);
  CHECK(*enveloped == *bare);
  CHECK(bare->at(0).alive);
  CHECK(bare->at(0).is_head);
  CHECK(bare->at(0).resources.at("GPU") == 8);
}

TEST_CASE("ray nodes: dead nodes are kept as dead, and need no resources") {
  const auto nodes = ParseRayNodes("[" + NodeJson("DEAD", "") + "]", "n");
  REQUIRE_MESSAGE(nodes, nodes.error().message);
  CHECK_FALSE(nodes->at(0).alive);
}

TEST_CASE("ray nodes: an answer that is not whole or not understood is an error") {
  struct Row {
    const char* name;
    std::string text;
    const char* part;
  };
  const std::string list = "[" + kAlive + "]";
  const Row rows[] = {
      {"cut by the request's limit",
       Envelope(R"("total":3,"num_after_truncation":3,"num_filtered":3)", list), "1 of 3 nodes"},
      {"cut by the source",
       Envelope(R"("total":3,"num_after_truncation":1,"num_filtered":1)", list), "1 of 3 nodes"},
      {"partial failure",
       Envelope(R"("total":1,"num_after_truncation":1,"partial_failure_warning":"2 sources")",
                list),
       "2 sources"},
      {"Ray's own error", R"({"result":false,"msg":"no such table","data":{}})", "no such table"},
      {"another answer", R"({"result":true,"data":{"summary":[]}})", "data.result.result"},
      {"no resources while alive", "[" + NodeJson("ALIVE", "") + "]", "resources_total"},
      {"a state of another kind", "[" + NodeJson("IDLE", "") + "]", "ALIVE or DEAD"},
      {"a GPU count that is no number",
       "[" + NodeJson("ALIVE", R"(,"resources_total":{"GPU":"many"})") + "]", "GPU"},
      {"no address", R"([{"state":"ALIVE","resources_total":{}}])", "node_ip"},
      {"text", "not json", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const auto nodes = ParseRayNodes(row.text, "n.json");
    REQUIRE_FALSE(nodes);
    CAPTURE(nodes.error().message);
    CHECK(nodes.error().code == ErrorCode::kInvalidInput);
    CHECK(nodes.error().message.find(row.part) != std::string::npos);
    CHECK(nodes.error().message.starts_with("n.json"));
  }
}

TEST_CASE("ray jobs: a list, one job, a manifest and a bare runtime_env") {
  const std::string job =
      R"({"type":"SUBMISSION","job_id":null,"submission_id":"s1","status":"RUNNING","entrypoint":"python t.py","runtime_env":{"pip":["torch"]}})";
  for (const std::string& text : {job, "[" + job + "]"}) {
    const auto jobs = ParseRayJobs(text, "j.json");
    REQUIRE_MESSAGE(jobs, jobs.error().message);
    REQUIRE(jobs->size() == 1);
    CHECK(jobs->at(0).submission_id == "s1");
    CHECK(jobs->at(0).status == "RUNNING");
    CHECK(jobs->at(0).entrypoint == "python t.py");
    CHECK(jobs->at(0).runtime_env.packages.at(0).name == "torch");
    CHECK(jobs->at(0).source == Source{"j.json", 1});
  }
  CHECK(ParseRayJobs("[]", "j.json")->empty());

  const auto manifest = ParseRayJobs(
      "kind: RayJob\napiVersion: ray.io/v1\nmetadata: {name: j}\nspec:\n  entrypoint: python t.py\n"
      "  runtimeEnvYAML: |\n    pip: [torch]\n",
      "job.yaml");
  REQUIRE_MESSAGE(manifest, manifest.error().message);
  CHECK(manifest->at(0).submission_id == "j");
  CHECK(manifest->at(0).runtime_env.packages.at(0).name == "torch");

  const auto bare = ParseRayJobs("pip:\n  - torch\n", "env.yaml");
  REQUIRE(bare);
  CHECK(bare->at(0).submission_id.empty());
  CHECK(bare->at(0).runtime_env.packages.at(0).name == "torch");
  CHECK(ParseRayJobs("{}", "env.json")->at(0).runtime_env == RuntimeEnv{});
}

TEST_CASE("ray jobs: what is neither job nor runtime_env is an error") {
  for (const char* text : {R"({"hello":1})", R"([{"hello":1}])", R"(["torch"])", "text", "",
                           "kind: RayJob\nspec: {runtimeEnvYAML: '[1, 2]'}\n",
                           R"({"submission_id":"s","runtime_env":["torch"]})"}) {
    CAPTURE(std::string(text));
    const auto jobs = ParseRayJobs(text, "j.json");
    REQUIRE_FALSE(jobs);
    CHECK(jobs.error().code == ErrorCode::kInvalidInput);
  }
}

TEST_CASE("pod versions: YAML and JSON, strict") {
  const auto yaml = ParsePodVersions(
      "- {pod: a, ray: 2.58.0, python: 3.13, torch: 2.13.0, nccl: 2.29.7, efaInstaller: 1.49.0}\n"
      "- {pod: b}\n",
      "v.yaml");
  REQUIRE_MESSAGE(yaml, yaml.error().message);
  CHECK(yaml->at(0).python == "3.13");
  CHECK(yaml->at(0).efa_installer == "1.49.0");
  CHECK(yaml->at(1).ray.empty());
  CHECK(yaml->at(1).source == Source{"v.yaml", 2});
  for (const char* text :
       {"- {ray: 2.58.0}\n", "- {pod: a, efa: 1}\n", "{pod: a}\n", "- {pod: a}\n- {pod: a}\n"}) {
    CAPTURE(std::string(text));
    CHECK_FALSE(ParsePodVersions(text, "v.yaml"));
  }
}

}  // namespace
}  // namespace dlc
