#include "probes/control/files/ray_answers.h"

#include <algorithm>
#include <set>
#include <utility>

#include "probes/control/files/fields.h"
#include "probes/control/files/runtime_env.h"
#include "probes/control/files/secret_text.h"
#include "probes/documents/strict_map.h"
#include "probes/input/read_file.h"

namespace dlc {
namespace {

/// The single document of a file.
Result<DocNode> ParseOne(std::string_view bytes, const std::string& name) {
  auto document = ParseDocument(bytes, name, kClusterFileLimits);
  if (!document) {
    return std::move(document).error();
  }
  if (document->roots.size() != 1) {
    return DocumentError(name, 0,
                         document->roots.empty() ? "is empty" : "must hold one document only");
  }
  return std::move(document->roots[0]);
}

template <class T>
Result<T> ReadWith(Result<T> (*parse)(std::string_view, const std::string&),
                   const std::string& path) {
  const auto bytes = ReadFileBytes(path, kClusterFileLimits.max_bytes);
  if (!bytes) {
    return bytes.error();
  }
  return parse(*bytes, path);
}

RayNode ReadRayNode(const Fields& fields) {
  RayNode node;
  node.node_id = fields.FreeText("node_id");
  node.node_ip = fields.FreeText("node_ip");
  node.node_name = fields.FreeText("node_name");
  node.is_head = fields.Bool("is_head_node");
  const std::string state = fields.FreeText("state");
  node.alive = state == "ALIVE";
  if (state != "ALIVE" && state != "DEAD") {
    fields.Fail("state", "must be ALIVE or DEAD");
  }
  if (node.node_ip.empty()) {
    fields.Fail("node_ip", "is missing");
  }
  const Fields resources = fields.Map("resources_total");
  if (node.alive && !resources.Present()) {
    fields.Fail("resources_total", "is missing", "ask with detail=1 (ray list nodes --detail)");
  }
  for (const std::string& key : resources.Keys()) {
    node.resources[key] = resources.Number(key, 0);
  }
  return node;
}

/// The list inside the state API's envelope.
Result<const DocNode*> NodeList(FileReading& reading, const DocNode& root) {
  if (root.IsSequence()) {
    return &root;
  }
  const Fields envelope(reading, &root, "");
  if (envelope.Has("result") && root.Find("result")->IsScalar() && !envelope.Bool("result")) {
    envelope.Fail("result", "Ray answered with an error: " + envelope.FreeText("msg"));
  }
  const Fields result = envelope.Map("data").Map("result");
  const DocNode* list = result.Find("result");
  if (list == nullptr || !list->IsSequence()) {
    envelope.Fail("data", "holds no list of nodes (data.result.result)",
                  "save GET /api/v0/nodes?detail=1&limit=10000, or ray list nodes --detail "
                  "--format json");
    return reading.error;
  }
  // ray/util/state/common.py, ListApiResponse: `total` counts before a source's own limit,
  // `num_filtered` after filters and before the request's limit.
  const int total = result.Count("total", 0);
  const int kept = result.Count("num_after_truncation", total);
  const auto listed = static_cast<int>(list->items.size());
  const int wanted = result.Count("num_filtered", listed);
  if (kept < total || listed < wanted) {
    result.Fail("result",
                "the answer was cut: " + std::to_string(listed) + " of " +
                    std::to_string(std::max(total, wanted)) + " nodes",
                "ask with limit=10000");
  }
  if (const std::string warning = result.FreeText("partial_failure_warning"); !warning.empty()) {
    result.Fail("partial_failure_warning", "the answer is not whole: " + warning);
  }
  if (reading.failed) {
    return reading.error;
  }
  return list;
}

RayJob ReadJobDetails(const Fields& fields) {
  RayJob job;
  job.source = fields.InFile();
  job.submission_id = fields.FreeText("submission_id");
  if (job.submission_id.empty()) {
    job.submission_id = fields.FreeText("job_id");
  }
  job.status = fields.FreeText("status");
  job.entrypoint = WithoutSecrets(fields.FreeText("entrypoint"));
  job.runtime_env = ReadRuntimeEnv(fields.Map("runtime_env"));
  return job;
}

bool LooksLikeJob(const DocNode& node) {
  return node.Find("entrypoint") != nullptr || node.Find("submission_id") != nullptr ||
         node.Find("job_id") != nullptr;
}

constexpr const char* kJobHint =
    "give the answer of GET /api/jobs/ or /api/jobs/{id}, a RayJob manifest, or a runtime_env";

Result<std::vector<RayJob>> ReadOneJob(FileReading& reading, const DocNode& root) {
  const Fields fields(reading, &root, "");
  if (fields.FreeText("kind") == "RayJob") {
    auto job = ReadRayJobObject(fields);
    if (!job) {
      return std::move(job).error();
    }
    return std::vector<RayJob>{std::move(job).value()};
  }
  if (LooksLikeJob(root)) {
    return std::vector<RayJob>{ReadJobDetails(fields)};
  }
  if (!root.IsMap() || (!root.entries.empty() && !LooksLikeRuntimeEnv(root))) {
    return DocumentError(reading.file, root.line, "holds neither a job nor a runtime_env",
                         kJobHint);
  }
  RayJob job;
  job.source = fields.InFile();
  job.runtime_env = ReadRuntimeEnv(fields);
  return std::vector<RayJob>{std::move(job)};
}

}  // namespace

/// kind RayJob: its runtimeEnvYAML is a YAML document in a text.
Result<RayJob> ReadRayJobObject(const Fields& object) {
  const Fields spec = object.Map("spec");
  const Fields status = object.Map("status");
  RayJob job;
  job.source = object.InFile();
  job.submission_id = status.FreeText("jobId");
  if (job.submission_id.empty()) {
    job.submission_id = object.Map("metadata").Text("name");
  }
  job.status = status.FreeText("jobStatus");
  job.entrypoint = WithoutSecrets(spec.FreeText("entrypoint"));
  const std::string text = spec.FreeText("runtimeEnvYAML");
  if (text.empty()) {
    return job;
  }
  const std::string inner_name = object.Reading().file + " (runtimeEnvYAML)";
  const auto inner = ParseOne(text, inner_name);
  if (!inner) {
    return inner.error();
  }
  FileReading reading;
  reading.file = inner_name;
  job.runtime_env = ReadRuntimeEnv(Fields(reading, &*inner, ""));
  if (reading.failed) {
    return reading.error;
  }
  return job;
}

Result<RayVersionAnswer> ParseRayVersion(std::string_view bytes, const std::string& name) {
  const auto root = ParseOne(bytes, name);
  if (!root) {
    return root.error();
  }
  FileReading reading;
  reading.file = name;
  const Fields fields(reading, &*root, "");
  RayVersionAnswer answer{fields.FreeText("ray_version"), fields.FreeText("ray_commit"),
                          fields.FreeText("version"), fields.FreeText("session_name")};
  if (answer.ray_version.empty()) {
    fields.Fail("ray_version", "is missing", "save the answer of GET /api/version");
  }
  if (reading.failed) {
    return reading.error;
  }
  return answer;
}

Result<std::vector<RayNode>> ParseRayNodes(std::string_view bytes, const std::string& name) {
  const auto root = ParseOne(bytes, name);
  if (!root) {
    return root.error();
  }
  FileReading reading;
  reading.file = name;
  const auto list = NodeList(reading, *root);
  if (!list) {
    return list.error();
  }
  std::vector<RayNode> nodes;
  for (std::size_t i = 0; i < (*list)->items.size() && !reading.failed; ++i) {
    nodes.push_back(
        ReadRayNode(Fields(reading, &(*list)->items[i], "[" + std::to_string(i) + "]")));
  }
  if (reading.failed) {
    return reading.error;
  }
  return nodes;
}

Result<std::vector<RayJob>> ParseRayJobs(std::string_view bytes, const std::string& name) {
  const auto root = ParseOne(bytes, name);
  if (!root) {
    return root.error();
  }
  FileReading reading;
  reading.file = name;
  if (!root->IsSequence()) {
    auto jobs = ReadOneJob(reading, *root);
    if (reading.failed) {
      return reading.error;
    }
    return jobs;
  }
  std::vector<RayJob> jobs;
  for (std::size_t i = 0; i < root->items.size() && !reading.failed; ++i) {
    const DocNode& item = root->items[i];
    if (!LooksLikeJob(item)) {
      return DocumentError(name, item.line, "holds an element that is no job", kJobHint);
    }
    jobs.push_back(ReadJobDetails(Fields(reading, &item, "[" + std::to_string(i) + "]")));
  }
  if (reading.failed) {
    return reading.error;
  }
  return jobs;
}

Result<std::vector<PodVersions>> ParsePodVersions(std::string_view bytes, const std::string& name) {
  const auto root = ParseOne(bytes, name);
  if (!root) {
    return root.error();
  }
  if (!root->IsSequence()) {
    return DocumentError(name, root->line, "must be a list of {pod, ray, python, ..}");
  }
  std::vector<PodVersions> all;
  std::set<std::string> pods;
  for (const DocNode& item : root->items) {
    PodVersions versions;
    versions.source = {name, item.line};
    StrictMap map(name, item, "pod versions");
    map.Require("pod");
    map.Text("pod", versions.pod);
    map.Text("ray", versions.ray);
    map.Text("python", versions.python);
    map.Text("torch", versions.torch);
    map.Text("nccl", versions.nccl);
    map.Text("efaInstaller", versions.efa_installer);
    if (auto finished = map.Finish(); !finished) {
      return std::move(finished).error();
    }
    if (!pods.insert(versions.pod).second) {
      return DocumentError(name, item.line, "pod '" + versions.pod + "' is listed twice");
    }
    all.push_back(std::move(versions));
  }
  return all;
}

Result<RayVersionAnswer> ReadRayVersionFile(const std::string& path) {
  return ReadWith(ParseRayVersion, path);
}
Result<std::vector<RayNode>> ReadRayNodesFile(const std::string& path) {
  return ReadWith(ParseRayNodes, path);
}
Result<std::vector<RayJob>> ReadRayJobsFile(const std::string& path) {
  return ReadWith(ParseRayJobs, path);
}
Result<std::vector<PodVersions>> ReadPodVersionsFile(const std::string& path) {
  return ReadWith(ParsePodVersions, path);
}

}  // namespace dlc
