#include "probes/observations/json_fields.h"

#include <algorithm>
#include <limits>

namespace dlc::wire {
namespace {

/// The member, or nullptr.
Json* Member(Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

void FailUnknownKey(std::span<const Field> fields, const Json& json, ReadState& state) {
  for (const auto& member : json.get_ref<const Json::object_t&>()) {
    const auto same = [&](const Field& field) { return member.first == field.key; };
    if (std::none_of(fields.begin(), fields.end(), same)) {
      return state.Fail("unknown key '" + member.first + "'");
    }
  }
}

}  // namespace

void ReadState::Fail(const std::string& message) {
  if (!failed) {
    failed = true;
    error = {ErrorCode::kInvalidInput, path + ": " + message, ""};
  }
}

PathStep::PathStep(ReadState& state, const std::string& step)
    : state_(state), length_(state.path.size()) {
  state.path += step;
}

void Put(Json& object, const std::string& key, Json value) {
  object.get_ref<Json::object_t&>().emplace_back(key, std::move(value));
}

Json WriteFields(std::span<const Field> fields, const void* object) {
  Json json = Json::object();
  for (const Field& field : fields) {
    if (!field.is_default(object)) {
      Put(json, field.key, field.write(object));
    }
  }
  return json;
}

void ReadFields(std::span<const Field> fields, Json& json, void* object, ReadState& state) {
  if (!json.is_object()) {
    return state.Fail("expected an object");
  }
  std::size_t used = 0;
  for (const Field& field : fields) {
    if (Json* member = Member(json, field.key)) {
      ++used;
      const PathStep step(state, std::string(".") + field.key);
      field.read(*member, object, state);
    } else if (!field.is_default(object)) {
      state.Fail(std::string("missing key '") + field.key + "'");
    }
  }
  if (used != json.size()) {
    FailUnknownKey(fields, json, state);
  }
}

Json Write(const std::string& value) {
  return value;
}
Json Write(bool value) {
  return value;
}
Json Write(int value) {
  return value;
}
Json Write(std::int64_t value) {
  return value;
}
Json Write(double value) {
  return value;
}
Json Write(const Digest& value) {
  return value.ToString();
}
Json Write(Stage value) {
  return StageName(value);
}
Json Write(ErrorCode value) {
  return ErrorCodeName(value);
}

Json WriteObserved(const char* state, const char* key, Json content) {
  Json object = Json::object();
  Put(object, "state", state);
  Put(object, key, std::move(content));
  return object;
}

void Read(Json& json, std::string& out, ReadState& state) {
  if (!json.is_string()) {
    return state.Fail("expected text");
  }
  out = std::move(json.get_ref<std::string&>());
}

void Read(Json& json, bool& out, ReadState& state) {
  if (!json.is_boolean()) {
    return state.Fail("expected true or false");
  }
  out = json.get<bool>();
}

void Read(Json& json, std::int64_t& out, ReadState& state) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!json.is_number_integer() ||
      (json.is_number_unsigned() && json.get<std::uint64_t>() > kMax)) {
    return state.Fail("expected a whole number");
  }
  out = json.get<std::int64_t>();
}

void Read(Json& json, int& out, ReadState& state) {
  std::int64_t wide = 0;
  Read(json, wide, state);
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) {
    return state.Fail("number out of range");
  }
  out = static_cast<int>(wide);
}

void Read(Json& json, double& out, ReadState& state) {
  if (!json.is_number()) {
    return state.Fail("expected a number");
  }
  out = json.get<double>();
}

void Read(Json& json, Digest& out, ReadState& state) {
  if (!json.is_string()) {
    return state.Fail("expected a digest");
  }
  auto digest = Digest::Parse(json.get_ref<const std::string&>());
  if (!digest) {
    return state.Fail(digest.error().message);
  }
  out = std::move(digest).value();
}

void Read(Json& json, Stage& out, ReadState& state) {
  if (!json.is_string()) {
    return state.Fail("expected a stage name");
  }
  const auto stage = ParseStage(json.get_ref<const std::string&>());
  if (!stage) {
    return state.Fail(stage.error().message);
  }
  out = *stage;
}

void Read(Json& json, ErrorCode& out, ReadState& state) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInternal); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    if (json.is_string() && json.get_ref<const std::string&>() == ErrorCodeName(code)) {
      out = code;
      return;
    }
  }
  state.Fail("unknown error code");
}

bool IsList(const Json& json, ReadState& state) {
  if (!json.is_array()) {
    state.Fail("expected a list");
  }
  return json.is_array();
}

bool IsMap(const Json& json, ReadState& state) {
  if (!json.is_object()) {
    state.Fail("expected a map");
  }
  return json.is_object();
}

Json* ObservedMember(Json& json, std::string& state_name, ReadState& state) {
  Json* kind = json.is_object() && json.size() == 2 ? Member(json, "state") : nullptr;
  if (kind == nullptr || !kind->is_string()) {
    state.Fail(
        "expected an observation: an object with 'state' and one of 'value', 'error', 'why'");
    return nullptr;
  }
  state_name = kind->get<std::string>();
  const std::pair<const char*, const char*> states[] = {
      {"seen", "value"}, {"error", "error"}, {"not_looked_at", "why"}};
  for (const auto& [name, key] : states) {
    if (state_name == name) {
      Json* member = Member(json, key);
      if (member == nullptr) {
        state.Fail("state '" + state_name + "' needs key '" + key + "'");
      }
      return member;
    }
  }
  state.Fail("unknown state '" + state_name + "'");
  return nullptr;
}

}  // namespace dlc::wire
