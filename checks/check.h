#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checks/finding.h"
#include "checks/policy.h"
#include "probes/observations/observations.h"

namespace dlc {

/// One thing that a check can say; the catalogue (`dlc-check checks ID`) and every finding's
/// standing texts come from here.
struct Rule {
  std::string_view id;  ///< "image-digest/pod-runs-policy-digest": check id, slash, kebab-case;
                        ///< stable, never reused
  Severity severity;    ///< unless the policy says otherwise
  bool blocks_later_stages;  ///< a failure (required) takes the ground from the probes of later
                             ///< stages
  std::string_view title;    ///< "every Ray container runs an accepted digest"
  std::string_view establishes;
  std::string_view does_not_establish;
  std::string_view hint;  ///< next command or change for whoever sees it fail
  bool fixed = false;     ///< whatever the policy says: a run must not be talked into a pass
};

/// Pure: no I/O, clock, environment or globals. Definition: `extern const Check kImageDigest;` in
/// its one file, and the file's name in DLC_CHECKS (checks/CMakeLists.txt).
struct Check {
  std::string_view id;  ///< kebab-case, stable, never reused
  Stage stage;          ///< kImage for the cross-cutting ones
  bool cross_cutting;   ///< judged whatever stages are selected
  std::string_view title;
  std::string_view compares;  ///< the table row of the catalogue
  std::span<const Rule> rules;
  std::vector<Finding> (*judge)(const Observations&, const Policy&);
};

/// All checks, in the order of the catalogue. Generated from DLC_CHECKS.
std::span<const Check* const> AllChecks();
const Check* FindCheck(std::string_view id);
const Rule* FindRule(std::string_view id);

/// Makes findings of one check: standing texts from the rule, severity from the policy, verdict
/// from the assertions.
class Judge {
 public:
  Judge(const Check& check, const Policy& policy) : check_(check), policy_(policy) {}

  /// pass if all assertions hold, fail if one does not. Precondition: at least one assertion, and
  /// `rule` is the check's.
  Finding& Decide(std::string_view rule, Subject subject, std::vector<Assertion> assertions);
  Finding& Unknown(std::string_view rule, Subject subject, Reason reason);
  Finding& NotApplicable(std::string_view rule, Subject subject, std::string message);
  /// Unknown, worded from an observation that was not seen. Precondition: !observed.seen().
  template <class T>
  Finding& Unseen(std::string_view rule, Subject subject, std::string_view what,
                  const Observed<T>& observed) {
    return observed.failed() ? UnseenError(rule, std::move(subject), what, observed.error())
                             : UnseenNotLooked(rule, std::move(subject), what, observed.why_not());
  }

  /// The findings so far, moved out.
  std::vector<Finding> Take() { return std::move(findings_); }

 private:
  Finding& Start(std::string_view rule, Subject subject);
  Finding& UnseenError(std::string_view rule, Subject subject, std::string_view what,
                       const Error& error);
  Finding& UnseenNotLooked(std::string_view rule, Subject subject, std::string_view what,
                           const NotLookedAt& why);

  const Check& check_;
  const Policy& policy_;
  std::vector<Finding> findings_;
};

/// Every check of the selected stages (observations.run.stages) and the cross-cutting ones, in
/// catalogue order.
std::vector<Finding> JudgeAll(const Observations& observations, const Policy& policy);
/// Same, for the checks of one stage only: what the runner asks before it goes on.
std::vector<Finding> JudgeStage(const Observations& observations, const Policy& policy,
                                Stage stage);

/// The one aggregation: any required fail -> failed; else any required unknown -> incomplete; else
/// at least one pass -> passed; nothing judged -> incomplete. A pass of a cross-cutting check is no
/// judgement of the world and does not count as one. An interrupted run is never passed.
Outcome Aggregate(std::span<const Finding> findings, bool interrupted);

/// The first required failure of a rule that blocks later stages, or nullptr.
const Finding* FirstBlocker(std::span<const Finding> findings);

}  // namespace dlc
