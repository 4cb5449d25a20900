#include "reports/evidence/verify_evidence.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "checks/check.h"
#include "checks/wording.h"
#include "probes/observations/strict_json.h"
#include "reports/evidence/consistency.h"
#include "reports/evidence/envelope.h"
#include "reports/evidence/preflight_schema.h"
#include "reports/evidence/statement.h"
#include "reports/findings_json.h"

namespace dlc {
namespace {

using Clock = std::chrono::system_clock;

/// What the steps hand on to each other.
struct Inquiry {
  std::string_view bytes;
  const VerifyOptions& options;
  VerifyResult& result;
  Envelope envelope;
  nlohmann::ordered_json statement;
  bool too_old = false;
};
/// What was seen, for the report; an Error ends the inquiry.
using StepResult = Result<std::string>;

Error Refused(const std::string& message, const std::string& hint = "") {
  return Error{ErrorCode::kInvalidInput, message, hint};
}

StepResult Said(const Result<void>& checked, const std::string& text) {
  return checked ? StepResult(text) : StepResult(checked.error());
}

StepResult BoundSize(Inquiry& inquiry) {
  if (inquiry.bytes.empty()) {
    return Refused("the file is empty");
  }
  if (inquiry.bytes.size() > kMaxEvidenceBytes) {
    return Refused(Count(inquiry.bytes.size(), "byte") + " are over the limit of " +
                   std::to_string(kMaxEvidenceBytes));
  }
  return Count(inquiry.bytes.size(), "byte");
}

StepResult OpenEnvelope(Inquiry& inquiry) {
  auto envelope = ParseEnvelope(inquiry.bytes);
  if (!envelope) {
    return std::move(envelope).error();
  }
  inquiry.envelope = std::move(envelope).value();
  inquiry.result.statement_digest = DigestOfBytes(inquiry.envelope.payload);
  return std::string(inquiry.envelope.form == EvidenceForm::kBundle ? "Sigstore bundle"
                                                                    : "DSSE envelope") +
         ", " + Count(inquiry.envelope.signatures.size(), "signature");
}

StepResult CheckPayloadType(Inquiry& inquiry) {
  if (inquiry.envelope.payload_type != kPayloadType) {
    return Refused("payloadType is '" + inquiry.envelope.payload_type + "', not " +
                   std::string(kPayloadType));
  }
  return std::string(kPayloadType);
}

/// A key id of our form that is not this key's rules the key out; anything else rules out nothing.
bool MayBeBy(const EnvelopeSignature& signature, const PublicKey& key) {
  return !signature.key_id.starts_with("SHA256:") || signature.key_id == key.fingerprint;
}

StepResult CheckSignature(Inquiry& inquiry) {
  if (inquiry.options.keys.empty()) {
    return Refused("no public key was given", "pass --key PUB");
  }
  const std::string pae =
      PreAuthenticationEncoding(inquiry.envelope.payload_type, inquiry.envelope.payload);
  std::string ruled_out;
  bool tried = false;
  for (const EnvelopeSignature& signature : inquiry.envelope.signatures) {
    for (const PublicKey& key : inquiry.options.keys) {
      if (!MayBeBy(signature, key)) {
        ruled_out = signature.key_id;
        continue;
      }
      tried = true;
      if (SignatureVerifies(key, pae, signature.bytes)) {
        inquiry.result.key_fingerprint = key.fingerprint;
        return std::string(KeyTypeName(key.type)) + " key " + key.fingerprint;
      }
    }
  }
  if (!tried) {
    return Refused("signed by a key that was not given: " + ruled_out,
                   "pass the signer's public key with --key");
  }
  return Refused("the signature is not one of the given keys over these bytes",
                 "the evidence was altered, or the key is not the signer's");
}

StepResult ParsePayload(Inquiry& inquiry) {
  auto statement =
      ParseStrictJson(inquiry.envelope.payload, {kMaxEvidenceBytes, JsonLimits{}.max_depth});
  if (!statement) {
    return Refused("the signed bytes are not strict JSON: " + statement.error().message);
  }
  inquiry.statement = std::move(statement).value();
  return inquiry.result.statement_digest.ToString();
}

StepResult CheckTypes(Inquiry& inquiry) {
  return Said(consistency::CheckTypes(inquiry.statement), std::string(kPredicateType));
}

StepResult CheckSchema(Inquiry& inquiry) {
  return Said(MatchPreflightSchema(inquiry.envelope.payload), "matches preflight-v1.schema.json");
}

StepResult ReadContents(Inquiry& inquiry) {
  auto contents = consistency::ReadContents(inquiry.statement);
  if (!contents) {
    const std::string version =
        inquiry.statement.at("/predicate/tool/version"_json_pointer).get<std::string>();
    const bool other = version != inquiry.options.tool_version;
    return Refused(contents.error().message, other ? "the evidence was written by dlc-check " +
                                                         version + ": verify it with that version"
                                                   : "");
  }
  inquiry.result.contents = std::move(contents).value();
  inquiry.result.contents.signature = inquiry.result.key_fingerprint;
  std::size_t assertions = 0;
  for (const Finding& finding : inquiry.result.contents.findings) {
    assertions += finding.assertions.size();
  }
  return Count(assertions, "assertion") + " in " +
         Count(inquiry.result.contents.findings.size(), "finding") + " compared again";
}

StepResult CheckSubject(Inquiry& inquiry) {
  std::vector<std::string> stated;
  std::string all;
  for (const auto& subject : inquiry.statement.at("subject")) {
    stated.push_back(subject.at("digest").at("sha256").get<std::string>());
    all += (all.empty() ? "" : ", ") + subject.at("name").get<std::string>() +
           "@sha256:" + stated.back();
  }
  for (const Digest& expected : inquiry.options.expected_digests) {
    if (std::find(stated.begin(), stated.end(), expected.hex) == stated.end()) {
      return Refused("the evidence is about " + all + ", not " + expected.ToString());
    }
  }
  if (inquiry.options.expected_digests.empty()) {
    inquiry.result.notes.emplace_back(
        "the image was not compared with anything: pass --image or --digest to say which one you "
        "mean");
  }
  return all;
}

StepResult CheckVerdicts(Inquiry& inquiry) {
  return Said(consistency::CheckVerdicts(inquiry.result.contents.findings),
              "each follows from its assertions");
}

StepResult CheckOutcome(Inquiry& inquiry) {
  return Said(
      consistency::CheckOutcome(inquiry.result.contents),
      std::string(OutcomeName(inquiry.result.contents.outcome)) + " follows from the findings");
}

StepResult CheckPolicy(Inquiry& inquiry) {
  return Said(consistency::CheckPolicyDigest(inquiry.statement, inquiry.result.contents),
              DigestOfBytes(inquiry.result.contents.policy.text).ToString());
}

/// Builds of one version differ by commit where both are known.
bool SameTool(const VerifyOptions& options, const RunFacts& run) {
  return options.tool_version == run.tool_version &&
         (options.tool_commit == run.tool_commit || options.tool_commit.empty() ||
          run.tool_commit.empty());
}

std::string ToolText(const RunFacts& run) {
  return "dlc-check " + run.tool_version +
         (run.tool_commit.empty() ? "" : " (" + run.tool_commit.substr(0, 12) + ")");
}

/// The same version must judge alike, byte for byte; another one may have learned something.
StepResult CompareJudgement(Inquiry& inquiry, const std::vector<Finding>& again, bool same_tool) {
  const EvidenceContents& contents = inquiry.result.contents;
  if (FindingsToJson(again, -1) == FindingsToJson(contents.findings, -1)) {
    return Count(again.size(), "finding") + ", the same";
  }
  std::string first = "their number";
  for (std::size_t i = 0; i < std::min(again.size(), contents.findings.size()); ++i) {
    if (again[i] != contents.findings[i]) {
      const Finding& stated = contents.findings[i];
      first = stated.rule + " " + stated.subject.kind + " " + stated.subject.name;
      break;
    }
  }
  if (same_tool) {
    return Refused("judging the observations again gives other findings, first at " + first);
  }
  const Outcome outcome = Aggregate(again, contents.observations.run.interrupted);
  inquiry.result.notes.push_back("written by " + ToolText(contents.observations.run) +
                                 "; this version judges differently, first at " + first +
                                 ", and comes to " + OutcomeName(outcome));
  return std::string("differs, and so does the version of the tool: see the notes");
}

StepResult JudgeAgain(Inquiry& inquiry) {
  const EvidenceContents& contents = inquiry.result.contents;
  const bool same_tool = SameTool(inquiry.options, contents.observations.run);
  std::optional<Rejudged> again;
  std::string text = "not judged again";
  if (!inquiry.options.rejudge) {
    inquiry.result.notes.emplace_back("the observations were not judged again");
  } else if (auto judged = inquiry.options.rejudge(contents.observations, contents.policy)) {
    auto compared = CompareJudgement(inquiry, judged->findings, same_tool);
    if (!compared) {
      return compared;
    }
    text = std::move(compared).value();
    again = std::move(judged).value();
  } else if (same_tool) {
    return Refused("the policy in the evidence cannot be read: " + judged.error().message);
  } else {
    inquiry.result.notes.push_back("written by " + ToolText(contents.observations.run) +
                                   "; this version cannot read its policy (" +
                                   judged.error().message + "), so nothing was judged again");
  }
  return Said(consistency::CheckSummaries(inquiry.statement, contents,
                                          again ? &again->policy_digests : nullptr, same_tool),
              text);
}

/// Where year, month, day, hour, minute and second stand in the text, and how long.
constexpr std::array<std::pair<std::size_t, std::size_t>, 6> kParts{
    {{0, 4}, {5, 2}, {8, 2}, {11, 2}, {14, 2}, {17, 2}}};

/// "2026-01-31T23:59:59Z"; the schema has seen to the shape.
std::optional<Clock::time_point> ParseTime(const std::string& text) {
  std::array<int, 6> numbers{};
  for (std::size_t i = 0; i < kParts.size(); ++i) {
    const char* begin = text.data() + kParts[i].first;
    if (text.size() != 20 ||
        std::from_chars(begin, begin + kParts[i].second, numbers[i]).ec != std::errc()) {
      return std::nullopt;
    }
  }
  const std::chrono::year_month_day day{std::chrono::year(numbers[0]),
                                        std::chrono::month(static_cast<unsigned>(numbers[1])),
                                        std::chrono::day(static_cast<unsigned>(numbers[2]))};
  if (!day.ok() || numbers[3] > 23 || numbers[4] > 59 || numbers[5] > 60) {
    return std::nullopt;
  }
  return std::chrono::sys_days(day) + std::chrono::hours(numbers[3]) +
         std::chrono::minutes(numbers[4]) + std::chrono::seconds(numbers[5]);
}

std::string Age(Clock::duration age) {
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(age);
  if (minutes < std::chrono::hours(2)) {
    return Count(static_cast<std::size_t>(std::max<std::int64_t>(minutes.count(), 0)), "minute");
  }
  const auto hours =
      static_cast<std::size_t>(std::chrono::duration_cast<std::chrono::hours>(minutes).count());
  return hours < 48 ? Count(hours, "hour") : Count(hours / 24, "day");
}

StepResult CheckFreshness(Inquiry& inquiry) {
  const RunFacts& run = inquiry.result.contents.observations.run;
  const auto finished = ParseTime(run.finished_at);
  const auto started = ParseTime(run.started_at);
  if (!finished || !started || *finished < *started) {
    return Refused("no possible time: started " + run.started_at + ", finished " + run.finished_at);
  }
  const auto age = inquiry.options.now - *finished;
  if (age < -kClockSkew) {
    return Refused("finished " + run.finished_at + ", which is in the future",
                   "the clock of the signer or of this machine is wrong");
  }
  const std::string text = "finished " + run.finished_at + ", " + Age(age) + " ago";
  if (inquiry.options.max_age && age > *inquiry.options.max_age) {
    inquiry.too_old = true;
    return Refused(text + ", more than the " + Age(*inquiry.options.max_age) + " allowed",
                   "run the check again");
  }
  return text;
}

struct Step {
  const char* name;
  StepResult (*run)(Inquiry&);
};
constexpr Step kSteps[] = {
    {"size", BoundSize},
    {"envelope", OpenEnvelope},
    {"payload-type", CheckPayloadType},
    {"signature", CheckSignature},
    {"payload", ParsePayload},
    {"types", CheckTypes},
    {"schema", CheckSchema},
    {"subject", CheckSubject},
    {"assertions", ReadContents},
    {"verdicts", CheckVerdicts},
    {"outcome", CheckOutcome},
    {"policy", CheckPolicy},
    {"judged-again", JudgeAgain},
    {"freshness", CheckFreshness},
};

}  // namespace

VerifyResult VerifyEvidence(std::string_view bytes, const VerifyOptions& options) {
  VerifyResult result;
  Inquiry inquiry{bytes, options, result, {}, {}, false};
  for (const Step& step : kSteps) {
    const StepResult said = step.run(inquiry);
    result.steps.push_back({step.name, said.has_value(), said ? *said : said.error().message,
                            said ? "" : said.error().hint});
    if (!said) {
      result.trust = inquiry.too_old ? Trust::kTooOld : Trust::kNotTrustworthy;
      return result;
    }
  }
  result.trust = Trust::kGenuine;
  return result;
}

}  // namespace dlc
