#include "reports/findings_json.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "probes/observations/json_fields.h"
#include "probes/observations/strict_json.h"

namespace dlc {
namespace {

using wire::Json;
using wire::PathStep;
using wire::ReadState;

struct ValueWriter {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(double number) const {
    if (std::isfinite(number)) {
      return number;
    }
    return std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  }
  template <class T>
  Json operator()(const T& value) const {
    return value;
  }
};

Json WriteValue(const AssertedValue& value) {
  return std::visit(ValueWriter{}, value);
}

Json WriteAssertion(const Assertion& assertion) {
  return Json{{"metric", assertion.metric},
              {"op", OpName(assertion.op)},
              {"limit", WriteValue(assertion.limit)},
              {"observed", WriteValue(assertion.observed)},
              {"unit", assertion.unit},
              {"source", assertion.source},
              {"holds", Holds(assertion)}};
}

Json WriteFinding(const Finding& finding) {
  Json assertions = Json::array();
  for (const Assertion& assertion : finding.assertions) {
    assertions.push_back(WriteAssertion(assertion));
  }
  Json json = Json::object();
  json["check"] = finding.check;
  json["rule"] = finding.rule;
  json["verdict"] = VerdictName(finding.verdict);
  json["severity"] = SeverityName(finding.severity);
  json["subject"] = Json{{"kind", finding.subject.kind}, {"name", finding.subject.name}};
  json["expected"] = finding.expected;
  json["actual"] = finding.actual;
  json["assertions"] = std::move(assertions);
  json["reason"] = Json{{"code", finding.reason.code},
                        {"message", finding.reason.message},
                        {"blockedBy", finding.reason.blocked_by}};
  json["establishes"] = finding.establishes;
  json["doesNotEstablish"] = finding.does_not_establish;
  json["hint"] = finding.hint;
  json["notes"] = finding.notes;
  return json;
}

struct Slot {
  const char* key;
  std::function<void(Json&, ReadState&)> read;
};

/// Exactly these keys, no more and no less.
void ReadKeys(Json& json, ReadState& state, std::initializer_list<Slot> slots) {
  if (!json.is_object()) {
    return state.Fail("expected an object");
  }
  for (const Slot& slot : slots) {
    const auto it = json.find(slot.key);
    if (it == json.end()) {
      return state.Fail(std::string("missing key '") + slot.key + "'");
    }
    const PathStep step(state, std::string(".") + slot.key);
    slot.read(*it, state);
  }
  for (const auto& [key, value] : json.items()) {
    const auto known = [&key = key](const Slot& slot) { return key == slot.key; };
    if (std::none_of(slots.begin(), slots.end(), known)) {
      return state.Fail("unknown key '" + key + "'");
    }
  }
}

template <class T>
Slot Into(const char* key, T& out) {
  return {key, [&out](Json& json, ReadState& state) { wire::Read(json, out, state); }};
}

/// `name` gives the wire name of each enumerator up to `last`.
template <class E>
Slot IntoEnum(const char* key, E& out, const char* (*name)(E), E last) {
  return {key, [&out, name, last](Json& json, ReadState& state) {
            for (int i = 0; json.is_string() && i <= static_cast<int>(last); ++i) {
              if (json.get_ref<const std::string&>() == name(static_cast<E>(i))) {
                out = static_cast<E>(i);
                return;
              }
            }
            state.Fail("unknown value");
          }};
}

void ReadValue(Json& json, AssertedValue& out, ReadState& state) {
  if (json.is_null()) {
    out = std::monostate{};
  } else if (json.is_boolean()) {
    out = json.get<bool>();
  } else if (json.is_number_float()) {
    out = json.get<double>();
  } else if (json.is_number()) {
    wire::Read(json, out.emplace<std::int64_t>(), state);
  } else if (json.is_string()) {
    out = json.get<std::string>();
  } else if (json.is_array()) {
    wire::Read(json, out.emplace<std::vector<std::string>>(), state);
  } else {
    state.Fail("expected null, true, false, a number, text or a list of texts");
  }
}

Slot IntoValue(const char* key, AssertedValue& out) {
  return {key, [&out](Json& json, ReadState& state) { ReadValue(json, out, state); }};
}

void ReadAssertion(Json& json, Assertion& out, ReadState& state) {
  bool holds = false;
  ReadKeys(json, state,
           {Into("metric", out.metric), IntoEnum("op", out.op, OpName, Op::kAbsent),
            IntoValue("limit", out.limit), IntoValue("observed", out.observed),
            Into("unit", out.unit), Into("source", out.source), Into("holds", holds)});
  if (!state.failed && holds != Holds(out)) {
    state.Fail(std::string("says holds ") + (holds ? "true" : "false") + ", but " + out.metric +
               " " + AssertedValueText(out.observed) + " " + OpName(out.op) + " " +
               AssertedValueText(out.limit) + (holds ? " does not hold" : " does"));
  }
}

template <class T>
Slot IntoList(const char* key, std::vector<T>& out, void (*read)(Json&, T&, ReadState&)) {
  return {key, [&out, read](Json& json, ReadState& state) {
            if (!json.is_array()) {
              return state.Fail("expected a list");
            }
            out.resize(json.size());
            for (std::size_t i = 0; i < out.size() && !state.failed; ++i) {
              const PathStep step(state, "[" + std::to_string(i) + "]");
              read(json[i], out[i], state);
            }
          }};
}

void ReadFinding(Json& json, Finding& out, ReadState& state) {
  const auto subject = [&out](Json& value, ReadState& at) {
    ReadKeys(value, at, {Into("kind", out.subject.kind), Into("name", out.subject.name)});
  };
  const auto reason = [&out](Json& value, ReadState& at) {
    ReadKeys(value, at,
             {Into("code", out.reason.code), Into("message", out.reason.message),
              Into("blockedBy", out.reason.blocked_by)});
  };
  ReadKeys(json, state,
           {Into("check", out.check),
            Into("rule", out.rule),
            IntoEnum("verdict", out.verdict, VerdictName, Verdict::kNotApplicable),
            IntoEnum("severity", out.severity, SeverityName, Severity::kOff),
            {"subject", subject},
            Into("expected", out.expected),
            Into("actual", out.actual),
            IntoList("assertions", out.assertions, ReadAssertion),
            {"reason", reason},
            Into("establishes", out.establishes),
            Into("doesNotEstablish", out.does_not_establish),
            Into("hint", out.hint),
            Into("notes", out.notes)});
}

}  // namespace

std::string FindingsToJson(const std::vector<Finding>& findings, int indent) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back(WriteFinding(finding));
  }
  return list.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Result<std::vector<Finding>> ParseFindings(std::string_view json) {
  auto document = ParseStrictJson(json);
  if (!document) {
    return std::move(document).error();
  }
  std::vector<Finding> findings;
  ReadState state;
  IntoList("", findings, ReadFinding).read(*document, state);
  if (state.failed) {
    return state.error;
  }
  return findings;
}

}  // namespace dlc
