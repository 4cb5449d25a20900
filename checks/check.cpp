#include "checks/check.h"

#include <algorithm>
#include <cassert>

namespace dlc {
namespace {

const Rule* RuleOf(const Check& check, std::string_view id) {
  const auto it = std::find_if(check.rules.begin(), check.rules.end(),
                               [&](const Rule& r) { return r.id == id; });
  return it == check.rules.end() ? nullptr : &*it;
}

Severity SeverityOf(const Check& check, const Rule& rule, const Policy& policy) {
  if (rule.fixed) {
    return rule.severity;
  }
  if (const auto own = policy.severity.find(std::string(rule.id)); own != policy.severity.end()) {
    return own->second;
  }
  const auto whole = policy.severity.find(std::string(check.id));
  return whole == policy.severity.end() ? rule.severity : whole->second;
}

const char* ReasonCode(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput:
      return "invalid-input";
    case ErrorCode::kNotFound:
      return "not-found";
    case ErrorCode::kPermissionDenied:
      return "permission-denied";
    case ErrorCode::kTimedOut:
      return "timeout";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kInterrupted:
      return "interrupted";
    case ErrorCode::kInternal:
      return "internal-error";
  }
  return "internal-error";
}

std::string OpText(const Assertion& assertion) {
  const std::string limit = AssertedValueText(assertion.limit);
  switch (assertion.op) {
    case Op::kEq:
      return limit;
    case Op::kNe:
      return "not " + limit;
    case Op::kGe:
      return ">= " + limit;
    case Op::kLe:
      return "<= " + limit;
    case Op::kGt:
      return "> " + limit;
    case Op::kLt:
      return "< " + limit;
    case Op::kIn:
      return "one of " + limit;
    case Op::kSubset:
      return "within " + limit;
    case Op::kAbsent:
      return "none";
  }
  return limit;
}

/// "metric VALUE UNIT" of the assertions that matter: the broken ones if any is broken, else all.
void Word(Finding& finding) {
  for (const Assertion& assertion : finding.assertions) {
    if (finding.verdict == Verdict::kFail && Holds(assertion)) {
      continue;
    }
    const std::string unit = assertion.unit.empty() ? "" : " " + assertion.unit;
    const std::string separator = finding.expected.empty() ? "" : "; ";
    finding.expected += separator + assertion.metric + " " + OpText(assertion) + unit;
    finding.actual += separator + AssertedValueText(assertion.observed) + unit;
  }
}

}  // namespace

const Check* FindCheck(std::string_view id) {
  const auto all = AllChecks();
  const auto it = std::find_if(all.begin(), all.end(), [&](const Check* c) { return c->id == id; });
  return it == all.end() ? nullptr : *it;
}

const Rule* FindRule(std::string_view id) {
  const Check* check = FindCheck(id.substr(0, id.find('/')));
  return check == nullptr ? nullptr : RuleOf(*check, id);
}

Finding& Judge::Start(std::string_view rule_id, Subject subject) {
  const Rule* rule = RuleOf(check_, rule_id);
  assert(rule != nullptr && "a check judged a rule that it does not list");
  Finding& finding = findings_.emplace_back();
  finding.check = check_.id;
  finding.rule = rule->id;
  finding.severity = SeverityOf(check_, *rule, policy_);
  finding.subject = std::move(subject);
  finding.does_not_establish = {std::string(rule->does_not_establish)};
  return finding;
}

Finding& Judge::Decide(std::string_view rule_id, Subject subject,
                       std::vector<Assertion> assertions) {
  assert(!assertions.empty() && "a verdict without a comparison");
  Finding& finding = Start(rule_id, std::move(subject));
  if (finding.severity == Severity::kOff) {
    finding.verdict = Verdict::kNotApplicable;
    finding.reason = {"switched-off", "the policy switches this rule off", ""};
    return finding;
  }
  finding.assertions = std::move(assertions);
  const bool holds = std::all_of(finding.assertions.begin(), finding.assertions.end(), Holds);
  finding.verdict = holds ? Verdict::kPass : Verdict::kFail;
  const Rule& rule = *RuleOf(check_, rule_id);
  if (holds) {
    finding.establishes = {std::string(rule.establishes)};
  } else {
    finding.reason.code = "threshold-not-met";
    finding.hint = rule.hint;
  }
  Word(finding);
  if (!holds) {
    finding.reason.message = "expected " + finding.expected + ", found " + finding.actual;
  }
  return finding;
}

Finding& Judge::Unknown(std::string_view rule_id, Subject subject, Reason reason) {
  Finding& finding = Start(rule_id, std::move(subject));
  if (finding.severity == Severity::kOff) {
    finding.verdict = Verdict::kNotApplicable;
    finding.reason = {"switched-off", "the policy switches this rule off", ""};
    return finding;
  }
  finding.verdict = Verdict::kUnknown;
  finding.reason = std::move(reason);
  finding.hint = RuleOf(check_, rule_id)->hint;
  return finding;
}

Finding& Judge::NotApplicable(std::string_view rule_id, Subject subject, std::string message) {
  Finding& finding = Start(rule_id, std::move(subject));
  finding.verdict = Verdict::kNotApplicable;
  finding.reason = {"not-applicable", std::move(message), ""};
  return finding;
}

Finding& Judge::UnseenError(std::string_view rule_id, Subject subject, std::string_view what,
                            const Error& error) {
  Finding& finding = Unknown(
      rule_id, std::move(subject),
      {ReasonCode(error.code), "could not see " + std::string(what) + ": " + error.message, ""});
  if (!error.hint.empty() && finding.verdict == Verdict::kUnknown) {
    finding.hint = error.hint;
  }
  return finding;
}

Finding& Judge::UnseenNotLooked(std::string_view rule_id, Subject subject, std::string_view what,
                                const NotLookedAt& why) {
  const bool blocked = !why.blocked_by.empty();
  return Unknown(rule_id, std::move(subject),
                 {blocked ? "prerequisite-failed" : "not-looked-at",
                  std::string(what) +
                      " not looked at: " + (blocked ? "blocked by " + why.blocked_by : why.reason),
                  why.blocked_by});
}

namespace {

void Append(std::vector<Finding>& all, std::vector<Finding> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// A cross-cutting check speaks of the run itself: its pass alone shows nothing of the cluster.
bool LooksAtTheWorld(const Finding& finding) {
  const Check* check = FindCheck(finding.check);
  return check == nullptr || !check->cross_cutting;
}

bool Selected(const Check& check, const std::vector<Stage>& stages) {
  return check.cross_cutting ||
         std::find(stages.begin(), stages.end(), check.stage) != stages.end();
}

}  // namespace

std::vector<Finding> JudgeAll(const Observations& observations, const Policy& policy) {
  std::vector<Finding> findings;
  for (const Check* check : AllChecks()) {
    if (Selected(*check, observations.run.stages)) {
      Append(findings, check->judge(observations, policy));
    }
  }
  return findings;
}

std::vector<Finding> JudgeStage(const Observations& observations, const Policy& policy,
                                Stage stage) {
  std::vector<Finding> findings;
  for (const Check* check : AllChecks()) {
    if (!check->cross_cutting && check->stage == stage) {
      Append(findings, check->judge(observations, policy));
    }
  }
  return findings;
}

Outcome Aggregate(std::span<const Finding> findings, bool interrupted) {
  bool unknown = false;
  bool passed = false;
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::kRequired) {
      continue;
    }
    if (finding.verdict == Verdict::kFail) {
      return Outcome::kFailed;
    }
    unknown = unknown || finding.verdict == Verdict::kUnknown;
    passed = passed || (finding.verdict == Verdict::kPass && LooksAtTheWorld(finding));
  }
  return passed && !unknown && !interrupted ? Outcome::kPassed : Outcome::kIncomplete;
}

const Finding* FirstBlocker(std::span<const Finding> findings) {
  for (const Finding& finding : findings) {
    const Rule* rule = FindRule(finding.rule);
    if (finding.verdict == Verdict::kFail && finding.severity == Severity::kRequired &&
        rule != nullptr && rule->blocks_later_stages) {
      return &finding;
    }
  }
  return nullptr;
}

}  // namespace dlc
