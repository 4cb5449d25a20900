#include "checks/finding.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace dlc {
namespace {

std::optional<double> AsNumber(const AssertedValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    return static_cast<double>(*whole);
  }
  if (const auto* real = std::get_if<double>(&value)) {
    return *real;
  }
  return std::nullopt;
}

bool Equal(const AssertedValue& a, const AssertedValue& b) {
  const auto x = AsNumber(a);
  const auto y = AsNumber(b);
  // Whole numbers compare exactly: a double cannot tell 2^53 from 2^53 + 1.
  if (x && y && a.index() != b.index()) {
    return *x == *y;
  }
  return a == b;
}

bool Ordered(Op op, const AssertedValue& observed, const AssertedValue& limit) {
  const auto x = AsNumber(observed);
  const auto y = AsNumber(limit);
  if (!x || !y) {
    return false;
  }
  switch (op) {
    case Op::kGe:
      return *x >= *y;
    case Op::kLe:
      return *x <= *y;
    case Op::kGt:
      return *x > *y;
    case Op::kLt:
      return *x < *y;
    default:
      return false;
  }
}

bool Contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool Member(const AssertedValue& observed, const AssertedValue& limit) {
  const auto* text = std::get_if<std::string>(&observed);
  const auto* list = std::get_if<std::vector<std::string>>(&limit);
  return text != nullptr && list != nullptr && Contains(*list, *text);
}

bool Subset(const AssertedValue& observed, const AssertedValue& limit) {
  const auto* some = std::get_if<std::vector<std::string>>(&observed);
  const auto* all = std::get_if<std::vector<std::string>>(&limit);
  return some != nullptr && all != nullptr &&
         std::all_of(some->begin(), some->end(),
                     [&](const std::string& text) { return Contains(*all, text); });
}

std::string DoubleText(double value) {
  char buffer[32];
  const auto [end, status] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return status == std::errc() ? std::string(buffer, end) : std::string("(number)");
}

}  // namespace

const char* VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "pass";
    case Verdict::kFail:
      return "fail";
    case Verdict::kUnknown:
      return "unknown";
    case Verdict::kNotApplicable:
      return "not_applicable";
  }
  return "unknown";
}

const char* SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kRequired:
      return "required";
    case Severity::kWarn:
      return "warn";
    case Severity::kOff:
      return "off";
  }
  return "required";
}

const char* OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "PASSED";
    case Outcome::kFailed:
      return "FAILED";
    case Outcome::kIncomplete:
      return "INCOMPLETE";
  }
  return "INCOMPLETE";
}

const char* OpName(Op op) {
  switch (op) {
    case Op::kEq:
      return "eq";
    case Op::kNe:
      return "ne";
    case Op::kGe:
      return "ge";
    case Op::kLe:
      return "le";
    case Op::kGt:
      return "gt";
    case Op::kLt:
      return "lt";
    case Op::kIn:
      return "in";
    case Op::kSubset:
      return "subset";
    case Op::kAbsent:
      return "absent";
  }
  return "eq";
}

bool Holds(const Assertion& assertion) {
  const bool there = !std::holds_alternative<std::monostate>(assertion.observed);
  switch (assertion.op) {
    case Op::kAbsent:
      return !there;
    case Op::kEq:
      return there && Equal(assertion.observed, assertion.limit);
    case Op::kNe:
      return there && !Equal(assertion.observed, assertion.limit);
    case Op::kIn:
      return Member(assertion.observed, assertion.limit);
    case Op::kSubset:
      return Subset(assertion.observed, assertion.limit);
    default:
      return Ordered(assertion.op, assertion.observed, assertion.limit);
  }
}

std::string AssertedValueText(const AssertedValue& value) {
  struct Text {
    std::string operator()(std::monostate) const { return "(none)"; }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return DoubleText(number); }
    std::string operator()(const std::string& text) const { return text.empty() ? "\"\"" : text; }
    std::string operator()(const std::vector<std::string>& list) const {
      std::string joined;
      for (const std::string& item : list) {
        joined += (joined.empty() ? "" : ", ") + item;
      }
      return joined.empty() ? "(empty list)" : joined;
    }
  };
  return std::visit(Text{}, value);
}

}  // namespace dlc
