#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace dlc {

enum class Verdict : std::uint8_t { kPass, kFail, kUnknown, kNotApplicable };
/// Set by policy, apart from the verdict. kRequired counts for the outcome; kWarn is shown and does
/// not; kOff is not judged (and the report says so).
enum class Severity : std::uint8_t { kRequired, kWarn, kOff };
/// Of a whole run.
enum class Outcome : std::uint8_t { kPassed, kFailed, kIncomplete };

const char* VerdictName(Verdict verdict);     ///< "pass", "fail", "unknown", "not_applicable"
const char* SeverityName(Severity severity);  ///< "required", "warn", "off"
const char* OutcomeName(Outcome outcome);     ///< "PASSED", "FAILED", "INCOMPLETE"

/// monostate: the value is not there (an absent label); it satisfies no operator but kAbsent.
using AssertedValue =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::string>>;

enum class Op : std::uint8_t {
  kEq,  ///< observed == limit
  kNe,  ///< observed != limit, and observed is there
  kGe,  ///< observed >= limit (numbers)
  kLe,
  kGt,
  kLt,
  kIn,      ///< observed (text) is one of limit (list)
  kSubset,  ///< every element of observed (list) is in limit (list)
  kAbsent,  ///< observed is not there
};
const char* OpName(Op op);  ///< "eq", "ne", "ge", "le", "gt", "lt", "in", "subset", "absent"

/// One comparison. It travels with the result, so that a reader can judge again with nothing but
/// the report.
struct Assertion {
  std::string metric;  ///< what was compared: "image_id digest", "limits[nvidia.com/gpu]"
  Op op = Op::kEq;
  AssertedValue limit;  ///< from the policy, or from another observation (see source)
  AssertedValue observed;
  std::string unit;    ///< "" for none
  std::string source;  ///< "policy:image.digest", "observation:cluster.ray_clusters", "constant"

  bool operator==(const Assertion&) const = default;
};

/// The one function that compares. Types that do not fit the operator do not hold; 3 and 3.0 are
/// equal.
bool Holds(const Assertion& assertion);
/// For people: "4", "2.58.0", "sha256:1234.., sha256:5678..", "(none)".
std::string AssertedValueText(const AssertedValue& value);

/// What a finding is about. kind: "run", "image", "cluster", "group", "pod", "node", "job", "rank",
/// "gpu".
struct Subject {
  std::string kind;
  std::string name;

  bool operator==(const Subject&) const = default;
};

/// Why a finding is not a pass. Codes: "threshold-not-met", "prerequisite-failed", "not-selected",
/// "not-applicable", "not-looked-at", "timeout", "permission-denied", "not-found", "unavailable",
/// "unsupported", "invalid-input", "internal-error", "switched-off", "planted-faults".
struct Reason {
  std::string code;
  std::string message;
  std::string blocked_by;  ///< finding that took the ground away, or ""

  bool operator==(const Reason&) const = default;
};

/// One rule applied to one subject.
struct Finding {
  std::string check;  ///< "image-digest"
  std::string rule;   ///< "image-digest/pod-runs-policy-digest"
  Verdict verdict = Verdict::kUnknown;
  Severity severity = Severity::kRequired;
  Subject subject;
  std::string expected;  ///< for people, from the assertions unless the check words it better
  std::string actual;
  std::vector<Assertion>
      assertions;  ///< pass: at least one and all hold; fail: at least one does not; else empty
  Reason reason;   ///< empty code only for pass
  std::vector<std::string> establishes;         ///< pass: at least one
  std::vector<std::string> does_not_establish;  ///< never empty
  std::string hint;                             ///< fail and unknown: what to do next
  std::vector<std::string>
      notes;  ///< remarks that change nothing: "matched as amd64 member of index sha256:.."

  bool operator==(const Finding&) const = default;
};

}  // namespace dlc
