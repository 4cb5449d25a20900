#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checks/accepted_digests.h"
#include "checks/check.h"
#include "checks/ray_pods.h"
#include "checks/wording.h"

namespace dlc {

extern const Check kRunIdentity;  // the table in check_list.cpp finds it by this name

namespace {

using List = std::vector<std::string>;

constexpr Rule kPolicy{
    "run-identity/policy-recorded",
    Severity::kRequired,
    false,
    "the policy is recorded by its sha256",
    "the evidence names the policy that judged this run, byte for byte",
    "that the policy is a good one",
    "a run records its policy, the built-in one too: evidence without it was made by something "
    "else or cut"};
constexpr Rule kCluster{"run-identity/cluster-description-recorded",
                        Severity::kRequired,
                        false,
                        "config and manifests are recorded by their sha256",
                        "the evidence names the files that described this run, byte for byte",
                        "that the cluster was created from these files",
                        "run with -c CONFIG, and name the RayCluster manifests in it"};
constexpr Rule kTool{
    "run-identity/tool-recorded",
    Severity::kRequired,
    false,
    "the tool is recorded by its version and sha256",
    "the evidence names the binary that made it",
    "who built that binary, or that it is a released one",
    "dlc-check reads its own binary through /proc/self/exe: run it where /proc is mounted"};
constexpr Rule kImage{
    "run-identity/image-recorded",
    Severity::kRequired,
    false,
    "the image is recorded by its digest",
    "the evidence names the digest that the registry served, or that the pods report",
    "that the digest is the right one (image-digest)",
    "give image.reference in the config, or let the run read the pods"};
constexpr Rule kFiles{
    "run-identity/input-files-hashed",
    Severity::kRequired,
    false,
    "every input file is recorded with one sha256",
    "each file that went into the run is in the evidence with the sha256 of its bytes",
    "that the files were not changed after the run",
    "run again: a file that was read twice with different content changed during the run"};
constexpr Rule kWorkload{
    "run-identity/workload-recorded",
    Severity::kWarn,
    false,
    "the job's code, its configuration and its size are recorded",
    "two runs can be compared on the job that they stand for",
    "that the job was started from these files",
    "name job code, workload config and the size of the job under `workload:` in the config"};

constexpr Rule kRules[] = {kPolicy, kCluster, kTool, kImage, kFiles, kWorkload};

const Subject kRun{"run", "this run"};
constexpr const char* kInputs = "observation:run.inputs";

/// Recorded inputs of one of the roles, as assertions that each has a digest.
std::vector<Assertion> InputsOf(const RunFacts& run, const List& roles) {
  std::vector<Assertion> assertions;
  for (const InputFile& input : run.inputs) {
    if (std::find(roles.begin(), roles.end(), input.role) != roles.end() && !input.digest.empty()) {
      assertions.push_back({"sha256 of " + input.role + " " + input.name, Op::kNe, std::string(),
                            input.digest.ToString(), "", kInputs});
    }
  }
  return assertions;
}

void JudgePolicy(const RunFacts& run, Judge& judge) {
  auto assertions = InputsOf(run, {"policy"});
  if (assertions.empty()) {
    judge.Unknown(kPolicy.id, kRun, {"not-found", "the run recorded no sha256 of a policy", ""});
  } else {
    judge.Decide(kPolicy.id, kRun, std::move(assertions));
  }
}

void JudgeCluster(const Observations& o, Judge& judge) {
  auto assertions =
      InputsOf(o.run, {"config", "manifest", "pods", "nodes", "nccl-log", "nccl-tests"});
  if (!assertions.empty()) {
    judge.Decide(kCluster.id, kRun, std::move(assertions));
    return;
  }
  const bool read_live =
      o.run.mode == "live" && (o.cluster.ray_clusters.seen() || o.cluster.pods.seen());
  if (read_live) {
    judge.NotApplicable(kCluster.id, kRun,
                        "no config or manifest was given: the objects were read from the API "
                        "server and stand in the observations");
  } else if (o.checkpoint_views.seen()) {
    judge.NotApplicable(kCluster.id, kRun,
                        "no config was given: the directories of --from-checkpoint are judged, and "
                        "the sha256 of their files stand in the observations");
  } else {
    judge.Unknown(kCluster.id, kRun,
                  {"not-found", "the run recorded no sha256 of a config or manifest", ""});
  }
}

void JudgeTool(const RunFacts& run, Judge& judge) {
  if (run.tool_digest.empty() || run.tool_version.empty()) {
    judge.Unknown(kTool.id, kRun,
                  {"not-found",
                   run.tool_digest.empty() ? "the run recorded no sha256 of the tool"
                                           : "the run recorded no version of the tool",
                   ""});
    return;
  }
  Finding& finding = judge.Decide(kTool.id, kRun,
                                  {{"sha256 of the tool", Op::kNe, std::string(),
                                    run.tool_digest.ToString(), "", "observation:run.toolDigest"},
                                   {"version of the tool", Op::kNe, std::string(), run.tool_version,
                                    "", "observation:run.toolVersion"}});
  if (run.tool_commit.empty()) {
    finding.notes.emplace_back("the tool was not built from a checkout: no commit is recorded");
  }
}

/// Some digest that the pods report, or an empty one.
Digest RunningDigest(const Observations& o) {
  if (!o.cluster.pods.seen()) {
    return {};
  }
  for (const RayPodGroup& group : SelectRayPods(o).groups) {
    for (const Pod* pod : group.pods) {
      const ContainerStatus* status = RayStatus(*pod);
      Digest digest = status == nullptr ? Digest{} : ParseImageId(status->image_id).digest;
      if (!digest.empty()) {
        return digest;
      }
    }
  }
  return {};
}

void JudgeImage(const Observations& o, Judge& judge) {
  const ServedImage* image = o.served_image.get();
  const bool served = image != nullptr && !image->digest.empty();
  const Digest digest = served ? image->digest : RunningDigest(o);
  if (digest.empty()) {
    const auto& stages = o.run.stages;
    const bool asked = std::find(stages.begin(), stages.end(), Stage::kImage) != stages.end();
    if (!asked && o.served_image.not_looked_at()) {
      judge.NotApplicable(kImage.id, kRun,
                          "the image stage was not selected and no pods were read: runs of "
                          "different images cannot be told apart by this evidence");
    } else if (image == nullptr) {
      judge.Unseen(kImage.id, kRun, "the image's digest", o.served_image);
    } else {
      judge.Unknown(kImage.id, kRun, {"not-found", "the run recorded no digest of an image", ""});
    }
    return;
  }
  Finding& finding =
      judge.Decide(kImage.id, kRun,
                   {{"digest of the image", Op::kNe, std::string(), digest.ToString(), "",
                     served ? "observation:servedImage" : "observation:cluster.pods"}});
  if (!served) {
    finding.notes.emplace_back("as a pod reports it: the registry's answer was not seen");
  }
}

void JudgeFiles(const RunFacts& run, Judge& judge) {
  List without;
  List changed;
  std::map<std::pair<std::string, std::string>, const InputFile*> first;
  for (const InputFile& input : run.inputs) {
    const std::string name = input.role + " " + input.name;
    if (input.digest.empty()) {
      without.push_back(name);
      continue;
    }
    const auto [it, is_new] = first.emplace(std::pair{input.role, input.name}, &input);
    if (!is_new && it->second->digest != input.digest) {
      changed.push_back(name);
    }
  }
  if (changed.empty() && (!without.empty() || first.empty())) {
    judge.Unknown(kFiles.id, kRun,
                  {"not-found",
                   without.empty() ? "the run recorded no input"
                                   : "recorded without sha256: " + NameSome(without),
                   ""});
    return;
  }
  Finding& finding =
      judge.Decide(kFiles.id, kRun,
                   {{"inputs with two different sha256", Op::kAbsent, std::monostate{},
                     changed.empty() ? AssertedValue{} : AssertedValue{changed}, "", kInputs}});
  finding.notes.push_back(Count(first.size(), "input") + " recorded");
}

void JudgeWorkload(const RunFacts& run, Judge& judge) {
  std::vector<Assertion> assertions;
  List missing;
  for (const char* role : {"job-code", "workload-config"}) {
    auto some = InputsOf(run, {role});
    if (some.empty()) {
      missing.emplace_back(role);
    }
    assertions.insert(assertions.end(), std::make_move_iterator(some.begin()),
                      std::make_move_iterator(some.end()));
  }
  const Workload& w = run.workload;
  const std::string source = "observation:run.workload";
  if (w.model.empty()) {
    missing.emplace_back("workload.model");
  } else {
    assertions.push_back({"workload.model", Op::kNe, std::string(), w.model, "", source});
  }
  const std::array<std::pair<const char*, int>, 3> numbers = {
      {{"workload.workers", w.workers}, {"workload.nodes", w.nodes}, {"workload.steps", w.steps}}};
  for (const auto& [name, number] : numbers) {
    if (number == 0) {
      missing.emplace_back(name);
    } else {
      assertions.push_back(
          {name, Op::kGt, std::int64_t{0}, static_cast<std::int64_t>(number), "", source});
    }
  }
  if (missing.empty()) {
    judge.Decide(kWorkload.id, kRun, std::move(assertions));
    return;
  }
  judge.Unknown(
      kWorkload.id, kRun,
      {"not-found",
       "not given: " + NameSome(missing, missing.size()) + "; two runs cannot be compared on them",
       ""});
}

std::vector<Finding> JudgeRunIdentity(const Observations& o, const Policy& policy) {
  Judge judge(kRunIdentity, policy);
  JudgePolicy(o.run, judge);
  JudgeCluster(o, judge);
  JudgeTool(o.run, judge);
  JudgeImage(o, judge);
  JudgeFiles(o.run, judge);
  JudgeWorkload(o.run, judge);
  std::vector<Finding> findings = judge.Take();
  for (Finding& finding : findings) {
    if (finding.verdict == Verdict::kPass && finding.rule != kFiles.id) {
      finding.expected = "recorded";  // the operators would say: not ""
    }
  }
  return findings;
}

}  // namespace

constinit const Check kRunIdentity{
    "run-identity",
    Stage::kImage,
    true,
    "what went into the run is recorded",
    "recorded sha256 of policy, config and manifests, tool, image, job code and workload config: "
    "what makes two runs comparable",
    kRules,
    JudgeRunIdentity,
};

}  // namespace dlc
