#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "probes/observations/digest.h"
#include "probes/observations/observed.h"
#include "probes/observations/run.h"

/// How a struct becomes JSON and back, from one table of its fields. For the wire forms of
/// observations alone:
///
///   template <> struct FieldsOf<Taint> {
///     static constexpr Field kFields[] = {F<&Taint::key>("key"), F<&Taint::value>("value")};
///   };
namespace dlc::wire {

using Json = nlohmann::ordered_json;

/// The first error wins; `path` is where the reader stands ("$.cluster.pods.value[3].name").
struct ReadState {
  std::string path = "$";
  Error error;
  bool failed = false;

  void Fail(const std::string& message);
};

/// Appends to the path while in scope.
class PathStep {
 public:
  PathStep(ReadState& state, const std::string& step);
  ~PathStep() { state_.path.resize(length_); }
  PathStep(const PathStep&) = delete;
  PathStep& operator=(const PathStep&) = delete;

 private:
  ReadState& state_;
  std::size_t length_;
};

/// One field of a struct, its types erased: every struct is then written and read by one loop that
/// is compiled once, where templates over all fields of all structs took minutes.
struct Field {
  const char* key;
  bool (*is_default)(const void* object);
  Json (*write)(const void* object);
  void (*read)(Json& json, void* object, ReadState& state);
};

template <class S>
struct FieldsOf;  // specialised per struct
template <class S>
concept HasFields = std::is_array_v<decltype(FieldsOf<S>::kFields)>;

/// Adds a member; the caller gives every key once.
void Put(Json& object, const std::string& key, Json value);
Json WriteFields(std::span<const Field> fields, const void* object);
void ReadFields(std::span<const Field> fields, Json& json, void* object, ReadState& state);

Json Write(const std::string& value);
Json Write(bool value);
Json Write(int value);
Json Write(std::int64_t value);
Json Write(double value);
Json Write(const Digest& value);
Json Write(Stage value);
Json Write(ErrorCode value);
template <class T>
Json Write(const std::optional<T>& value);
template <class T>
Json Write(const std::vector<T>& values);
template <class T>
Json Write(const std::map<std::string, T>& values);
template <class T>
Json Write(const Observed<T>& observed);
template <HasFields S>
Json Write(const S& value);

void Read(Json& json, std::string& out, ReadState& state);
void Read(Json& json, bool& out, ReadState& state);
void Read(Json& json, int& out, ReadState& state);
void Read(Json& json, std::int64_t& out, ReadState& state);
void Read(Json& json, double& out, ReadState& state);
void Read(Json& json, Digest& out, ReadState& state);
void Read(Json& json, Stage& out, ReadState& state);
void Read(Json& json, ErrorCode& out, ReadState& state);
template <class T>
void Read(Json& json, std::optional<T>& out, ReadState& state);
template <class T>
void Read(Json& json, std::vector<T>& out, ReadState& state);
template <class T>
void Read(Json& json, std::map<std::string, T>& out, ReadState& state);
template <class T>
void Read(Json& json, Observed<T>& out, ReadState& state);
template <HasFields S>
void Read(Json& json, S& out, ReadState& state);

/// Empty text, lists, maps and optionals, false and 0 are left out: an absent key reads back as
/// exactly that.
template <class T>
bool IsDefault(const T& value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return value == T{};
  } else if constexpr (requires { value.empty(); }) {
    return value.empty();
  } else if constexpr (requires { value.has_value(); }) {
    return !value.has_value();
  } else {
    return false;
  }
}

template <class M>
struct MemberPointer;
template <class S, class M>
struct MemberPointer<M S::*> {
  using Struct = S;
};

/// The table entry of one member: F<&Taint::key>("key").
template <auto kMember>
constexpr Field F(const char* key) {
  using S = typename MemberPointer<decltype(kMember)>::Struct;
  return {key,
          [](const void* object) { return IsDefault(static_cast<const S*>(object)->*kMember); },
          [](const void* object) { return Write(static_cast<const S*>(object)->*kMember); },
          [](Json& json, void* object, ReadState& state) {
            Read(json, static_cast<S*>(object)->*kMember, state);
          }};
}

/// Precondition: there is one; a field without is left out.
template <class T>
Json Write(const std::optional<T>& value) {
  return Write(*value);
}

// What an Observed<T> holds when there is no T.
// clang-format off
template <> struct FieldsOf<Error> { static constexpr Field kFields[] = {
    F<&Error::code>("code"), F<&Error::message>("message"), F<&Error::hint>("hint")}; };
template <> struct FieldsOf<NotLookedAt> { static constexpr Field kFields[] = {
    F<&NotLookedAt::reason>("reason"), F<&NotLookedAt::blocked_by>("blockedBy")}; };
// clang-format on

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
    Put(object, key, Write(value));
  }
  return object;
}

template <HasFields S>
Json Write(const S& value) {
  return WriteFields(FieldsOf<S>::kFields, &value);
}

/// {"state": "seen" | "error" | "not_looked_at", and one of "value", "error", "why"}.
Json WriteObserved(const char* state, const char* key, Json content);

template <class T>
Json Write(const Observed<T>& observed) {
  if (observed.seen()) {
    return WriteObserved("seen", "value", Write(observed.value()));
  }
  if (observed.failed()) {
    return WriteObserved("error", "error", Write(observed.error()));
  }
  return WriteObserved("not_looked_at", "why", Write(observed.why_not()));
}

/// False after an error.
bool IsList(const Json& json, ReadState& state);
bool IsMap(const Json& json, ReadState& state);
/// The member of an observation that its state promises, or nullptr after an error.
Json* ObservedMember(Json& json, std::string& state_name, ReadState& state);

template <class T>
void Read(Json& json, std::optional<T>& out, ReadState& state) {
  Read(json, out.emplace(), state);
}

template <class T>
void Read(Json& json, std::vector<T>& out, ReadState& state) {
  if (!IsList(json, state)) {
    return;
  }
  out.resize(json.size());
  for (std::size_t i = 0; i < out.size() && !state.failed; ++i) {
    const PathStep step(state, "[" + std::to_string(i) + "]");
    Read(json[i], out[i], state);
  }
}

template <class T>
void Read(Json& json, std::map<std::string, T>& out, ReadState& state) {
  if (!IsMap(json, state)) {
    return;
  }
  for (auto& [key, value] : json.get_ref<Json::object_t&>()) {
    const PathStep step(state, "." + key);
    Read(value, out[key], state);
  }
}

template <HasFields S>
void Read(Json& json, S& out, ReadState& state) {
  ReadFields(FieldsOf<S>::kFields, json, &out, state);
}

template <class T>
void Read(Json& json, Observed<T>& out, ReadState& state) {
  std::string name;
  Json* member = ObservedMember(json, name, state);
  if (member == nullptr) {
    return;
  }
  const auto read = [&](const char* key, auto into) {
    const PathStep step(state, key);
    Read(*member, into, state);
    out = std::move(into);
  };
  if (name == "seen") {
    read(".value", T{});
  } else if (name == "error") {
    read(".error", Error{});
  } else {
    read(".why", NotLookedAt{});
  }
}

}  // namespace dlc::wire
