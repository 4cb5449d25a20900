#include "reports/findings_json.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "probes/observations/json_fields.h"
#include "probes/observations/strict_json.h"
#include "reports/json_writer.h"

namespace dlc {
namespace {

using wire::Json;
using wire::PathStep;
using wire::ReadState;

struct ValueWriter {
  JsonWriter& out;

  void operator()(std::monostate) const { out.Null(); }
  void operator()(bool flag) const { out.Bool(flag); }
  void operator()(std::int64_t number) const { out.Number(number); }
  void operator()(double number) const { out.Number(number); }
  void operator()(const std::string& text) const { out.Text(text); }
  void operator()(const std::vector<std::string>& list) const {
    out.BeginArray();
    for (const std::string& text : list) {
      out.Text(text);
    }
    out.EndArray();
  }
};

void WriteAssertion(JsonWriter& out, const Assertion& assertion) {
  out.BeginObject();
  out.Text("metric", assertion.metric);
  out.Text("op", OpName(assertion.op));
  out.Key("limit");
  std::visit(ValueWriter{out}, assertion.limit);
  out.Key("observed");
  std::visit(ValueWriter{out}, assertion.observed);
  out.Text("unit", assertion.unit);
  out.Text("source", assertion.source);
  out.Key("holds");
  out.Bool(Holds(assertion));
  out.EndObject();
}

void WriteFinding(JsonWriter& out, const Finding& finding) {
  out.BeginObject();
  out.Text("check", finding.check);
  out.Text("rule", finding.rule);
  out.Text("verdict", VerdictName(finding.verdict));
  out.Text("severity", SeverityName(finding.severity));
  out.Key("subject");
  out.BeginObject();
  out.Text("kind", finding.subject.kind);
  out.Text("name", finding.subject.name);
  out.EndObject();
  out.Text("expected", finding.expected);
  out.Text("actual", finding.actual);
  out.Key("assertions");
  out.BeginArray();
  for (const Assertion& assertion : finding.assertions) {
    WriteAssertion(out, assertion);
  }
  out.EndArray();
  out.Key("reason");
  out.BeginObject();
  out.Text("code", finding.reason.code);
  out.Text("message", finding.reason.message);
  out.Text("blockedBy", finding.reason.blocked_by);
  out.EndObject();
  out.Texts("establishes", finding.establishes);
  out.Texts("doesNotEstablish", finding.does_not_establish);
  out.Text("hint", finding.hint);
  out.Texts("notes", finding.notes);
  out.EndObject();
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

void WriteFindings(JsonWriter& out, const std::vector<Finding>& findings) {
  out.BeginArray();
  for (const Finding& finding : findings) {
    WriteFinding(out, finding);
  }
  out.EndArray();
}

std::string FindingsToJson(const std::vector<Finding>& findings, int indent) {
  JsonWriter out(indent);
  WriteFindings(out, findings);
  return out.Take();
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
