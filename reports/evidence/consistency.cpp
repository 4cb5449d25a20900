#include "reports/evidence/consistency.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "checks/check.h"
#include "probes/observations/json.h"
#include "reports/evidence/public_key.h"
#include "reports/evidence/statement.h"
#include "reports/findings_json.h"

namespace dlc::consistency {
namespace {

using Json = nlohmann::ordered_json;

Error Contradiction(const std::string& message) {
  return Error{ErrorCode::kInvalidInput, message, ""};
}

Outcome OutcomeNamed(const std::string& name) {
  for (const Outcome outcome : {Outcome::kPassed, Outcome::kFailed}) {
    if (name == OutcomeName(outcome)) {
      return outcome;
    }
  }
  return Outcome::kIncomplete;
}

std::string NameOf(const Finding& finding) {
  return finding.rule + " " + finding.subject.kind + " " + finding.subject.name;
}

/// Path of the first difference, "" if there is none.
std::string FirstDifference(const Json& stated, const Json& derived) {
  const Json changes = Json::diff(stated, derived);
  if (!changes.empty()) {
    return changes.front().at("path").get<std::string>();
  }
  return stated == derived ? "" : "/ (order of keys)";
}

/// Parts that every version of this predicate writes alike.
constexpr const char* kStableParts[] = {
    "/subject",
    "/predicate/result",
    "/predicate/passedTests",
    "/predicate/warnedTests",
    "/predicate/failedTests",
    "/predicate/erroredTests",
    "/predicate/skippedTests",
    "/predicate/configuration",
    "/predicate/tool/version",
    "/predicate/run/id",
    "/predicate/run/mode",
    "/predicate/run/startedAt",
    "/predicate/run/finishedAt",
    "/predicate/run/interrupted",
    "/predicate/policy",
};

}  // namespace

Result<void> CheckTypes(const Json& statement) {
  const auto text = [&](const char* key) {
    const auto it = statement.is_object() ? statement.find(key) : statement.end();
    return it != statement.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  if (text("_type") != kStatementType) {
    return Contradiction("_type is '" + text("_type") + "', not " + std::string(kStatementType));
  }
  if (text("predicateType") != kPredicateType) {
    return Error{
        ErrorCode::kInvalidInput,
        "predicateType is '" + text("predicateType") + "', not " + std::string(kPredicateType),
        "this is a statement about something else, or of another major version"};
  }
  return {};
}

Result<EvidenceContents> ReadContents(const Json& statement) {
  const Json& predicate = statement.at("predicate");
  auto findings = ParseFindings(predicate.at("checks").dump());
  if (!findings) {
    return Contradiction("checks" + findings.error().message.substr(
                                        findings.error().message.starts_with('$') ? 1 : 0));
  }
  auto observations = ParseObservations(predicate.at("observations").dump());
  if (!observations) {
    return Contradiction("observations: " + observations.error().message);
  }
  EvidenceContents contents;
  for (const Json& subject : statement.at("subject")) {
    contents.subjects.push_back({subject.at("name").get<std::string>(),
                                 Digest{subject.at("digest").at("sha256").get<std::string>()}});
  }
  const Json& policy = predicate.at("policy");
  contents.policy = {policy.at("origin").get<std::string>(), policy.at("name").get<std::string>(),
                     policy.at("text").get<std::string>()};
  contents.observations = std::move(observations).value();
  contents.findings = std::move(findings).value();
  contents.outcome = OutcomeNamed(predicate.at("result").get<std::string>());
  return contents;
}

Result<void> CheckVerdicts(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    const bool empty = finding.assertions.empty();
    const bool all = std::all_of(finding.assertions.begin(), finding.assertions.end(), Holds);
    const bool follows = finding.verdict == Verdict::kPass   ? !empty && all
                         : finding.verdict == Verdict::kFail ? !all
                                                             : empty;
    if (!follows) {
      return Contradiction("verdict '" + std::string(VerdictName(finding.verdict)) + "' of " +
                           NameOf(finding) + " does not follow from its " +
                           std::to_string(finding.assertions.size()) + " assertions");
    }
  }
  return {};
}

Result<void> CheckOutcome(const EvidenceContents& contents) {
  const Outcome again = Aggregate(contents.findings, contents.observations.run.interrupted);
  if (again != contents.outcome) {
    return Contradiction(std::string("result is ") + OutcomeName(contents.outcome) +
                         ", but the findings make it " + OutcomeName(again));
  }
  return {};
}

Result<void> CheckPolicyDigest(const Json& statement, const EvidenceContents& contents) {
  const Digest digest = DigestOfBytes(contents.policy.text);
  const std::string stated =
      statement.at("/predicate/policy/digest/sha256"_json_pointer).get<std::string>();
  if (stated != digest.hex) {
    return Contradiction("policy.digest is not the sha256 of policy.text");
  }
  // The bytes that travel are those of the file that the run names as its input.
  const std::string role = contents.policy.origin == "inline" ? "config" : "policy";
  for (const InputFile& input : contents.observations.run.inputs) {
    if (contents.policy.origin != "built-in" && input.role == role && input.digest != digest) {
      return Contradiction("policy.text is not the input '" + input.name + "' of the run");
    }
  }
  return {};
}

Result<void> CheckSummaries(const Json& statement, const EvidenceContents& contents,
                            const std::vector<Digest>* policy_digests, bool same_tool) {
  const std::vector<Digest> none;
  Json derived =
      BuildStatement({contents.observations, contents.policy, contents.findings, contents.outcome,
                      policy_digests == nullptr ? none : *policy_digests});
  if (policy_digests == nullptr && !SubjectIsServedImage(contents.observations)) {
    derived["subject"] = statement.at("subject");
    derived["predicate"]["limitations"] = statement.at("predicate").at("limitations");
  }
  std::string difference;
  if (same_tool) {
    difference = FirstDifference(statement, derived);
  } else {
    for (const char* part : kStableParts) {
      const Json::json_pointer pointer(part);
      if (difference.empty() && statement.at(pointer) != derived.at(pointer)) {
        difference = part;
      }
    }
  }
  if (!difference.empty()) {
    return Contradiction(difference + " is not what observations, policy and findings make it");
  }
  return {};
}

}  // namespace dlc::consistency
