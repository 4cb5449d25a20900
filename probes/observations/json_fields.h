#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "probes/observations/digest.h"
#include "probes/observations/observed.h"
#include "probes/observations/run.h"

/// How a struct becomes JSON and back, from one table of its fields. Private to the
/// observations_json target:
///
///   template <> struct FieldsOf<Taint> {
///     static constexpr auto kFields = std::tuple{Field{"key", &Taint::key}, Field{"value",
///     &Taint::value}};
///   };
namespace dlc::wire {

using Json = nlohmann::ordered_json;

template <class S, class M>
struct Field {
  const char* key;
  M S::*member;
};
template <class S, class M>
Field(const char*, M S::*) -> Field<S, M>;

template <class S>
struct FieldsOf;  // specialised per struct

// Part of every Observed.
// clang-format off
template <> struct FieldsOf<Error> { static constexpr auto kFields = std::tuple{
    Field{"code", &Error::code}, Field{"message", &Error::message}, Field{"hint", &Error::hint}}; };
template <> struct FieldsOf<NotLookedAt> { static constexpr auto kFields = std::tuple{
    Field{"reason", &NotLookedAt::reason}, Field{"blockedBy", &NotLookedAt::blocked_by}}; };
// clang-format on

/// The first error wins; `path` is where the reader stands ("$.cluster.pods.value[3].name").
struct ReadState {
  std::string path = "$";
  Error error;
  bool failed = false;

  void Fail(const std::string& message) {
    if (!failed) {
      failed = true;
      error = {ErrorCode::kInvalidInput, path + ": " + message, ""};
    }
  }
};

/// Appends to the path while in scope.
class PathStep {
 public:
  PathStep(ReadState& state, const std::string& step) : state_(state), length_(state.path.size()) {
    state.path += step;
  }
  ~PathStep() { state_.path.resize(length_); }
  PathStep(const PathStep&) = delete;
  PathStep& operator=(const PathStep&) = delete;

 private:
  ReadState& state_;
  std::size_t length_;
};

inline Json Write(const std::string& value) {
  return value;
}
inline Json Write(bool value) {
  return value;
}
inline Json Write(int value) {
  return value;
}
inline Json Write(std::int64_t value) {
  return value;
}
inline Json Write(double value) {
  return value;
}
inline Json Write(const Digest& value) {
  return value.ToString();
}
inline Json Write(Stage value) {
  return StageName(value);
}
inline Json Write(ErrorCode code) {
  return ErrorCodeName(code);
}
template <class T>
Json Write(const std::vector<T>& values);
template <class T>
Json Write(const std::map<std::string, T>& values);
template <class T>
Json Write(const Observed<T>& observed);
template <class S>
requires requires {
  FieldsOf<S>::kFields;
}
Json Write(const S& value);

/// Empty text, lists and maps, false and 0 are left out: an absent key reads back as exactly that.
template <class T>
bool IsDefault(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return value == T{};
  } else if constexpr (requires { value.empty(); }) {
    return value.empty();
  } else {
    return false;
  }
}

template <class T>
Json Write(const std::vector<T>& values) {
  Json array = Json::array();
  for (const T& value : values) {
    array.push_back(Write(value));
  }
  return array;
}

template <class T>
Json Write(const std::map<std::string, T>& values) {
  Json object = Json::object();
  for (const auto& [key, value] : values) {
    object.push_back({key, Write(value)});
  }
  return object;
}

template <class S>
requires requires {
  FieldsOf<S>::kFields;
}
Json Write(const S& value) {
  Json object = Json::object();
  std::apply(
      [&](const auto&... fields) {
        const auto add = [&](const auto& field) {
          if (!IsDefault(value.*field.member)) {
            object.push_back({field.key, Write(value.*field.member)});
          }
        };
        (add(fields), ...);
      },
      FieldsOf<S>::kFields);
  return object;
}

template <class T>
Json Write(const Observed<T>& observed) {
  if (observed.seen()) {
    return Json{{"state", "seen"}, {"value", Write(observed.value())}};
  }
  if (observed.failed()) {
    return Json{{"state", "error"}, {"error", Write(observed.error())}};
  }
  return Json{{"state", "not_looked_at"}, {"why", Write(observed.why_not())}};
}

inline void Read(Json& json, std::string& out, ReadState& state) {
  if (!json.is_string()) {
    return state.Fail("expected text");
  }
  out = std::move(json.get_ref<std::string&>());
}

inline void Read(Json& json, bool& out, ReadState& state) {
  if (!json.is_boolean()) {
    return state.Fail("expected true or false");
  }
  out = json.get<bool>();
}

inline void Read(Json& json, std::int64_t& out, ReadState& state) {
  if (!json.is_number_integer() ||
      (json.is_number_unsigned() &&
       json.get<std::uint64_t>() >
           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))) {
    return state.Fail("expected a whole number");
  }
  out = json.get<std::int64_t>();
}

inline void Read(Json& json, int& out, ReadState& state) {
  std::int64_t wide = 0;
  Read(json, wide, state);
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) {
    return state.Fail("number out of range");
  }
  out = static_cast<int>(wide);
}

inline void Read(Json& json, double& out, ReadState& state) {
  if (!json.is_number()) {
    return state.Fail("expected a number");
  }
  out = json.get<double>();
}

inline void Read(Json& json, Digest& out, ReadState& state) {
  if (!json.is_string()) {
    return state.Fail("expected a digest");
  }
  auto digest = Digest::Parse(json.get_ref<const std::string&>());
  if (!digest) {
    return state.Fail(digest.error().message);
  }
  out = std::move(digest).value();
}

inline void Read(Json& json, Stage& out, ReadState& state) {
  auto stage = json.is_string()
                   ? ParseStage(json.get_ref<const std::string&>())
                   : Result<Stage>(Error{ErrorCode::kInvalidInput, "expected a stage name", ""});
  if (!stage) {
    return state.Fail(stage.error().message);
  }
  out = *stage;
}

inline void Read(Json& json, ErrorCode& out, ReadState& state) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInternal); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    if (json.is_string() && json.get_ref<const std::string&>() == ErrorCodeName(code)) {
      out = code;
      return;
    }
  }
  state.Fail("unknown error code");
}

template <class T>
void Read(Json& json, std::vector<T>& out, ReadState& state);
template <class T>
void Read(Json& json, std::map<std::string, T>& out, ReadState& state);
template <class T>
void Read(Json& json, Observed<T>& out, ReadState& state);
template <class S>
requires requires {
  FieldsOf<S>::kFields;
}
void Read(Json& json, S& out, ReadState& state);

template <class T>
void Read(Json& json, std::vector<T>& out, ReadState& state) {
  if (!json.is_array()) {
    return state.Fail("expected a list");
  }
  out.resize(json.size());
  for (std::size_t i = 0; i < out.size() && !state.failed; ++i) {
    const PathStep step(state, "[" + std::to_string(i) + "]");
    Read(json[i], out[i], state);
  }
}

template <class T>
void Read(Json& json, std::map<std::string, T>& out, ReadState& state) {
  if (!json.is_object()) {
    return state.Fail("expected a map");
  }
  for (auto& [key, value] : json.items()) {
    const PathStep step(state, "." + key);
    Read(value, out[key], state);
  }
}

/// Names the first key that no field reads.
template <class S>
void FailUnknownKey(const Json& json, ReadState& state) {
  for (const auto& [key, value] : json.items()) {
    const bool known = std::apply(
        [&](const auto&... fields) { return ((key == fields.key) || ...); }, FieldsOf<S>::kFields);
    if (!known) {
      return state.Fail("unknown key '" + key + "'");
    }
  }
}

template <class S>
requires requires {
  FieldsOf<S>::kFields;
}
void Read(Json& json, S& out, ReadState& state) {
  if (!json.is_object()) {
    return state.Fail("expected an object");
  }
  std::size_t used = 0;
  std::apply(
      [&](const auto&... fields) {
        const auto take = [&](const auto& field) {
          const auto it = json.find(field.key);
          if (it != json.end()) {
            ++used;
            const PathStep step(state, std::string(".") + field.key);
            Read(*it, out.*field.member, state);
          } else if (!IsDefault(out.*field.member)) {
            state.Fail(std::string("missing key '") + field.key + "'");
          }
        };
        (take(fields), ...);
      },
      FieldsOf<S>::kFields);
  if (used != json.size()) {
    FailUnknownKey<S>(json, state);
  }
}

template <class T>
void Read(Json& json, Observed<T>& out, ReadState& state) {
  const auto kind = json.is_object() && json.size() == 2 ? json.find("state") : json.end();
  if (kind == json.end() || !kind->is_string()) {
    return state.Fail(
        "expected an observation: an object with 'state' and one of 'value', 'error', 'why'");
  }
  const std::string name = kind->get<std::string>();
  const auto read = [&](const char* key, auto&& into) {
    const auto it = json.find(key);
    if (it == json.end()) {
      return state.Fail("state '" + name + "' needs key '" + key + "'");
    }
    const PathStep step(state, std::string(".") + key);
    Read(*it, into, state);
    out = std::move(into);
  };
  if (name == "seen") {
    read("value", T{});
  } else if (name == "error") {
    read("error", Error{});
  } else if (name == "not_looked_at") {
    read("why", NotLookedAt{});
  } else {
    state.Fail("unknown state '" + name + "'");
  }
}

}  // namespace dlc::wire
