#include "reports/evidence/statement.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "probes/observations/json.h"
#include "probes/observations/redaction.h"
#include "reports/evidence/public_key.h"
#include "reports/findings_json.h"

namespace dlc {
namespace {

using Json = nlohmann::ordered_json;

/// The only platform that the image is published for.
constexpr std::string_view kOs = "linux";
constexpr std::string_view kArchitecture = "amd64";

Json DigestSet(const Digest& digest) {
  return Json{{"sha256", digest.hex}};
}

Json SubjectOf(const std::string& name, const Digest& digest) {
  return Json{{"name", name}, {"digest", DigestSet(digest)}};
}

const ServedImage* Served(const Observations& observations) {
  const ServedImage* image = observations.served_image.get();
  return image == nullptr || image->digest.empty() ? nullptr : image;
}

const IndexMember* PlatformMember(const ServedImage& image) {
  const auto it = std::find_if(image.members.begin(), image.members.end(), [](const auto& member) {
    return member.runnable && member.os == kOs && member.architecture == kArchitecture;
  });
  return image.is_index && it != image.members.end() ? &*it : nullptr;
}

/// Repository without tag and digest; the text itself if it is no reference.
std::string NameOf(const std::string& reference) {
  const auto parsed = ImageReference::Parse(reference);
  return parsed ? parsed->Name() : reference;
}

/// First what pods report as imageID, then the platform manifest if that is an index: a verifier
/// may hold either.
Json Subjects(const StatementParts& parts) {
  Json subjects = Json::array();
  if (const ServedImage* image = Served(parts.observations)) {
    const std::string name = NameOf(image->reference);
    subjects.push_back(SubjectOf(name, image->digest));
    if (const IndexMember* member = PlatformMember(*image)) {
      subjects.push_back(SubjectOf(name, member->digest));
    }
  } else if (parts.policy_digests.size() == 1) {
    subjects.push_back(SubjectOf(std::string(kPolicySubject), parts.policy_digests.front()));
  } else {
    subjects.push_back(SubjectOf(std::string(kObservationsSubject),
                                 DigestOfBytes(ObservationsToJson(parts.observations, -1))));
  }
  return subjects;
}

/// "rule kind name": the form in which `blockedBy` names a finding.
std::string TestName(const Finding& finding) {
  return finding.rule + " " + finding.subject.kind + " " + finding.subject.name;
}

const char* TestList(const Finding& finding) {
  switch (finding.verdict) {
    case Verdict::kPass:
      return "passedTests";
    case Verdict::kNotApplicable:
      return "skippedTests";
    case Verdict::kFail:
      return finding.severity == Severity::kRequired ? "failedTests" : "warnedTests";
    case Verdict::kUnknown:
      return finding.severity == Severity::kRequired ? "erroredTests" : "warnedTests";
  }
  return "erroredTests";
}

void AddTests(Json& predicate, const std::vector<Finding>& findings) {
  for (const char* list :
       {"passedTests", "warnedTests", "failedTests", "erroredTests", "skippedTests"}) {
    predicate[list] = Json::array();
  }
  for (const Finding& finding : findings) {
    predicate[TestList(finding)].push_back(TestName(finding));
  }
}

Json Configuration(const RunFacts& run) {
  Json list = Json::array();
  for (const InputFile& input : run.inputs) {
    Json descriptor = SubjectOf(input.name, input.digest);
    descriptor["annotations"] = Json{{"role", input.role}, {"sizeBytes", input.size_bytes}};
    list.push_back(std::move(descriptor));
  }
  return list;
}

Json Tool(const RunFacts& run) {
  Json tool{{"name", "dlc-check"}, {"version", run.tool_version}};
  if (!run.tool_commit.empty()) {
    tool["commit"] = run.tool_commit;
  }
  if (!run.tool_digest.empty()) {
    tool["digest"] = DigestSet(run.tool_digest);
  }
  return tool;
}

Json Run(const RunFacts& run) {
  Json stages = Json::array();
  for (const Stage stage : run.stages) {
    stages.push_back(StageName(stage));
  }
  return Json{{"id", run.id},
              {"mode", run.mode},
              {"startedAt", run.started_at},
              {"finishedAt", run.finished_at},
              {"stages", std::move(stages)},
              {"invocation", run.invocation},
              {"interrupted", run.interrupted}};
}

Json Image(const Observations& observations) {
  const ServedImage* image = Served(observations);
  if (image == nullptr) {
    const bool failed = observations.served_image.failed();
    return Json{{"seen", false},
                {"why", failed ? observations.served_image.error().message
                        : observations.served_image.not_looked_at()
                            ? observations.served_image.why_not().reason
                            : std::string("no digest")}};
  }
  Json json{{"seen", true},
            {"reference", image->reference},
            {"source", image->source},
            {"mediaType", image->media_type},
            {"digest", DigestSet(image->digest)},
            {"platform", std::string(kOs) + "/" + std::string(kArchitecture)}};
  if (const IndexMember* member = PlatformMember(*image)) {
    json["platformDigest"] = DigestSet(member->digest);
  }
  if (const ImageConfig* config = image->config.get(); config && !config->digest.empty()) {
    json["configDigest"] = DigestSet(config->digest);
  }
  return json;
}

/// 0 and "" mean not stated, and are left out.
Json WorkloadOf(const Workload& workload) {
  Json json = Json::object();
  if (!workload.model.empty()) {
    json["model"] = workload.model;
  }
  const std::pair<const char*, int> counts[] = {{"workers", workload.workers},
                                                {"gpusPerWorker", workload.gpus_per_worker},
                                                {"nodes", workload.nodes},
                                                {"steps", workload.steps}};
  for (const auto& [key, count] : counts) {
    if (count != 0) {
      json[key] = count;
    }
  }
  return json;
}

std::string StagesWithoutChecks() {
  std::string names;
  for (int i = 0; i < kStageCount; ++i) {
    const auto stage = static_cast<Stage>(i);
    const auto all = AllChecks();
    if (std::none_of(all.begin(), all.end(), [&](const Check* check) {
          return !check->cross_cutting && check->stage == stage;
        })) {
      names += (names.empty() ? "" : ", ") + std::string(StageName(stage));
    }
  }
  return names;
}

Json Limitations(const StatementParts& parts) {
  Json list = {
      "the signer vouches for what is written here; a signature does not prove that the cluster "
      "exists, nor that these observations are of it",
      "times are those of the signer's clock"};
  const RunFacts& run = parts.observations.run;
  if (run.mode != "live") {
    list.push_back("run mode is '" + run.mode +
                   "': what is said of the cluster was read from files, not from a live cluster");
  }
  if (run.interrupted) {
    list.push_back("the run was interrupted: what came after was not looked at");
  }
  if (Served(parts.observations) == nullptr) {
    list.push_back(parts.policy_digests.size() == 1
                       ? "no registry was seen for the image: the subject is the digest that the "
                         "policy demands"
                       : "no registry was seen for the image, and the policy does not demand one "
                         "digest: the subject is the observations document, not an image");
  }
  if (const std::string stages = StagesWithoutChecks(); !stages.empty()) {
    list.push_back("this version of the tool has no check for: " + stages);
  }
  return list;
}

Json Predicate(const StatementParts& parts) {
  const RunFacts& run = parts.observations.run;
  Json predicate = Json::object();
  predicate["schemaVersion"] = kPredicateSchemaVersion;
  predicate["result"] = OutcomeName(parts.outcome);
  AddTests(predicate, parts.findings);
  predicate["configuration"] = Configuration(run);
  predicate["tool"] = Tool(run);
  predicate["run"] = Run(run);
  predicate["image"] = Image(parts.observations);
  predicate["workload"] = WorkloadOf(run.workload);
  predicate["limitations"] = Limitations(parts);
  predicate["checks"] = Json::parse(FindingsToJson(parts.findings, -1));
  predicate["policy"] = Json{{"origin", parts.policy.origin},
                             {"name", parts.policy.name},
                             {"digest", DigestSet(DigestOfBytes(parts.policy.text))},
                             {"text", parts.policy.text}};
  predicate["redaction"] = Json{{"applied", RedactionsOf(parts.observations)}};
  predicate["observations"] = Json::parse(ObservationsToJson(parts.observations, -1));
  return predicate;
}

}  // namespace

bool SubjectIsServedImage(const Observations& observations) {
  return Served(observations) != nullptr;
}

Json BuildStatement(const StatementParts& parts) {
  Json statement = Json::object();
  statement["_type"] = kStatementType;
  statement["subject"] = Subjects(parts);
  statement["predicateType"] = kPredicateType;
  statement["predicate"] = Predicate(parts);
  return statement;
}

}  // namespace dlc
